"""Small models over tables, graphs and points of a third sample, chosen before anything of it was run."""
import torch
from torch import nn
from torch.nn import functional as F

from row import Call, Row, Uniform, Values
from small_tables import Two, layers
from third_images import FEW, p
from third_sequences import linears

TABLE, GRAPH, CLOUD = {"x": Values((12,))}, {"nodes": Values((6, 5)), "adjacency": Values((6, 6), below=2)}, {"x": Values((16, 3))}
WORDS = 31
HISTORY = {"history": Values((8,), below=WORDS), "item": Values((), below=WORDS)}
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 5, 5], [1, 0, 2, 3, 4, 5, 0, 2]])


# Tables and recommendations.

def deep_factors(m, which, numbers):
    """DeepFM."""
    x = m.table(which + m.offset)
    pairs = 0.5 * (x.sum(1).pow(2) - x.pow(2).sum(1)).sum(1, keepdim=True)
    return m.linear(which + m.offset).sum(1) + m.number(numbers) + pairs + m.deep(torch.cat([x.view(x.size(0), -1), numbers], 1))


def oblivious_trees(m, x):
    """NODE: trees of soft choices, the same feature for all nodes of a depth."""
    chosen = torch.einsum("nf,fdt->ntd", x, F.softmax(m.choice, 0))
    right = torch.sigmoid((chosen - m.threshold) * torch.exp(-m.heat))
    both = torch.stack([right, 1 - right], -1)
    leaves = both[:, :, 0]
    for d in (1, 2):
        leaves = (leaves.unsqueeze(3) * both[:, :, d].unsqueeze(2)).flatten(2)
    return torch.einsum("ntl,tlo->no", leaves, m.answers) / 3


def collaborative(m, user, item):
    """NeuMF."""
    both = m.user(user) * m.item(item)
    deep = m.net(torch.cat([m.user_deep(user), m.item_deep(item)], -1))
    return torch.sigmoid(m.head(torch.cat([both, deep], -1)))


def evolving_interest(m, history, item):
    """DIEN: a GRU whose update is scaled by how much the item asks."""
    h, i = m.first(m.items(history))[0], m.items(item)
    share = torch.softmax((h * m.ask(i).unsqueeze(1)).sum(-1), 1)
    s = torch.zeros_like(h[:, 0])
    for t in range(8):
        u, r = torch.sigmoid(m.gates(torch.cat([h[:, t], s], -1))).chunk(2, -1)
        u = u * share[:, t:t + 1]
        s = (1 - u) * s + u * torch.tanh(m.new(torch.cat([h[:, t], r * s], -1)))
    return m.head(torch.cat([s, i, s * i], -1))


def caser(m, history, item):
    """A history as an image, with horizontal and vertical filters."""
    x = m.items(history).unsqueeze(1)
    across = torch.cat([F.relu(c(x)).squeeze(3).amax(2) for c in m.across], 1)
    z = F.relu(m.both(torch.cat([m.down(x).flatten(1), across], 1)))
    return (z * m.out.weight[item]).sum(1, keepdim=True) + m.bias(item)


def session_graph(m, history, item):
    """SR-GNN: who follows whom in a session, from the tokens themselves."""
    h = m.items(history)
    same = (history.unsqueeze(2) == history.unsqueeze(1)).float()
    follows = torch.bmm(torch.bmm(same[:, :, :-1], torch.eye(7).expand(same.size(0), 7, 7)), same[:, 1:, :])
    follows = follows / follows.sum(2, keepdim=True).clamp(min=1)
    a = torch.cat([follows @ m.out_(h), follows.transpose(1, 2) @ m.in_(h)], 2)
    h = m.cell(a.flatten(0, 1), h.flatten(0, 1)).view_as(h)
    share = m.share(torch.sigmoid(m.a(h[:, -1:]) + m.b(h)))
    return m.both(torch.cat([h[:, -1], (share * h).sum(1)], 1)) @ m.items.weight.t() + m.one(m.items(item))


def whole_space(m, which):
    """ESMM: the product of two probabilities, with its own loss."""
    x = m.table(which).flatten(1)
    click, buy = torch.sigmoid(m.click(x)), torch.sigmoid(m.buy(x))
    return torch.cat([click, click * buy], 1)


class Extraction(nn.Module):
    """PLE: experts of each task and experts of all."""

    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleDict({name: nn.ModuleList(nn.Sequential(nn.Linear(12, 8), nn.ReLU()) for _ in range(2)) for name in ("a", "b", "all")})
        self.gates = nn.ModuleDict({name: nn.Linear(12, 4) for name in ("a", "b")})
        self.heads = nn.ModuleDict({name: nn.Linear(8, 1) for name in ("a", "b")})

    def forward(self, x):
        shared = [e(x) for e in self.experts["all"]]
        out = []
        for name in ("a", "b"):
            y = torch.stack([e(x) for e in self.experts[name]] + shared, dim=2)
            share = F.softmax(self.gates[name](x), dim=1)
            out.append(self.heads[name](torch.einsum("ndk,nk->nd", y, share)))
        return torch.cat(out, dim=-1)


def survival(m, x, when):
    """Hazards of discrete times; the negative log likelihood is the output."""
    hazard = m.net(x)
    before = (torch.arange(6) < when.unsqueeze(1)).float()
    at = F.one_hot(when, 6).float()
    return -(F.logsigmoid(hazard) * at + F.logsigmoid(-hazard) * before).sum(1)


def quantiles(m, x, y):
    """The pinball loss of three quantiles that do not cross."""
    z = m.net(x)
    q = torch.cumsum(torch.cat([z[:, :1], F.softplus(z[:, 1:])], 1), 1)
    error = y - q
    return torch.maximum(m.levels * error, (m.levels - 1) * error).mean(1)


# Graphs and points.

def fixed_edges(m, x):
    """GCN over edges that are the same for all samples."""
    for layer in m.layers:
        h = layer(x)
        message = h[:, m.source] * m.weight[:, None]
        x = F.relu(torch.zeros_like(h).index_add(1, m.target, message) + h)
    return m.head(x.mean(1))


def edge_softmax(m, x):
    """GAT over fixed edges: a softmax over each node's edges by scatter."""
    h = m.enter(x)
    score = F.leaky_relu(m.score(torch.cat([h[:, m.source], h[:, m.target]], -1)), 0.2).squeeze(-1)
    share = torch.exp(score - score.max(1, keepdim=True)[0])
    total = torch.zeros(x.size(0), 6).scatter_add(1, m.target.expand(x.size(0), -1), share)
    share = share / (total[:, m.target] + 1e-8)
    y = torch.zeros_like(h).scatter_add(1, m.target.view(1, -1, 1).expand(x.size(0), -1, 8), share.unsqueeze(-1) * h[:, m.source])
    return m.head(F.elu(y).sum(1))


def own_edges(m, nodes, edges):
    """Messages along each sample's own edges, gathered and summed."""
    h = m.enter(nodes)
    for _ in range(2):
        a = torch.gather(h, 1, edges[..., 0].unsqueeze(-1).expand(-1, -1, 8))
        b = torch.gather(h, 1, edges[..., 1].unsqueeze(-1).expand(-1, -1, 8))
        message = F.relu(m.edge(torch.cat([a, b], -1)))
        total = torch.zeros_like(h).scatter_add_(1, edges[..., 1].unsqueeze(-1).expand(-1, -1, 8), message)
        h = h + m.node(torch.cat([h, total], -1))
    return m.head(h).squeeze(-1)


def read_out(m, nodes, adjacency):
    """A set read three times by an LSTM (set2set)."""
    h = F.relu(m.enter(nodes) + adjacency.float() @ m.message(nodes))
    n = h.size(0)
    q, state = torch.zeros(n, 16), (torch.zeros(n, 8), torch.zeros(n, 8))
    for _ in range(3):
        state = m.cell(q, state)
        share = F.softmax((h @ state[0].unsqueeze(2)), 1)
        q = torch.cat([state[0], (share * h).sum(1)], 1)
    return m.head(q)


def pooled(m, nodes, adjacency):
    """DiffPool: nodes softly assigned to clusters."""
    a = adjacency.float() + torch.eye(6)
    z, s = F.relu(a @ m.embed(nodes)), torch.softmax(a @ m.assign(nodes), -1)
    x = s.transpose(1, 2) @ z
    small = s.transpose(1, 2) @ a @ s
    return m.head(F.relu(small @ m.second(x)).mean(1))


def best_nodes(m, nodes, adjacency):
    """A graph U-Net's pooling: the best three nodes, gated by their scores."""
    h = F.relu(adjacency.float() @ m.first(nodes))
    score = torch.sigmoid((h @ m.direction) / m.direction.norm())
    best, at = score.topk(3, dim=1)
    small = h.gather(1, at.unsqueeze(2).expand(-1, -1, 8)) * best.unsqueeze(2)
    part = adjacency.float().gather(1, at.unsqueeze(2).expand(-1, -1, 6)).gather(2, at.unsqueeze(1).expand(-1, 3, -1))
    up = torch.zeros_like(h).scatter(1, at.unsqueeze(2).expand(-1, -1, 8), F.relu(part @ m.second(small)))
    return m.head((h + up).mean(1))


def aggregators(m, nodes, adjacency):
    """PNA: mean, largest, smallest and deviation, scaled by degrees."""
    a = adjacency.float().unsqueeze(-1)
    degree = a.sum(2).clamp(min=1)
    h = m.pre(nodes).unsqueeze(1) * a
    mean = h.sum(2) / degree
    deviation = torch.sqrt(F.relu((h ** 2).sum(2) / degree - mean ** 2) + 1e-5)
    parts = torch.cat([mean, h.masked_fill(a == 0, -1e4).amax(2), h.masked_fill(a == 0, 1e4).amin(2), deviation], -1)
    return m.head(m.post(torch.cat([parts.clamp(-50, 50), parts.clamp(-50, 50) * torch.log(degree + 1)], -1)).mean(1))


def points(m, x):
    """A point transformer: vector attention over the four nearest."""
    distance = ((x.unsqueeze(2) - x.unsqueeze(1)) ** 2).sum(-1)
    at = distance.topk(4, dim=-1, largest=False)[1]
    n, k = x.size(0), x.size(1)
    pick = lambda t: torch.gather(t, 1, at.reshape(n, -1, 1).expand(-1, -1, t.size(-1))).view(n, k, 4, t.size(-1))
    h = m.enter(x)
    place = m.place(x.unsqueeze(2) - pick(x))
    share = F.softmax(m.share(m.q(h).unsqueeze(2) - pick(m.k(h)) + place), dim=2)
    return m.head((share * (pick(m.v(h)) + place)).sum(2).amax(1))


def kernel_points(m, x):
    """KPConv: weights at fixed points, mixed by distance."""
    near = x.unsqueeze(1) - x.unsqueeze(2)
    d = (near.unsqueeze(3) - m.kernel).norm(dim=-1)
    share = F.relu(1 - d / 1.5)
    y = torch.einsum("nijk,njc,kco->nio", share, m.features(x), m.weights)
    return m.head(F.leaky_relu(y, 0.1).mean(1))


def voxels(m, x):
    """Points into a grid of 4 x 4, then convolutions."""
    cell = ((x[..., :2].clamp(-1.99, 1.99) + 2)).long()
    at = cell[..., 0] * 4 + cell[..., 1]
    h = m.net(x)
    grid = torch.zeros(x.size(0), 16, 8).scatter_add(1, at.unsqueeze(-1).expand(-1, -1, 8), h)
    return m.head(m.conv(grid.transpose(1, 2).reshape(-1, 8, 4, 4)).mean((2, 3)))


def row(name, make, inputs=None, labels=FEW, **options):
    return Row(name, "small", make, TABLE if inputs is None else inputs, labels, **options)


def edges():
    return {"source": EDGES[0], "target": EDGES[1]}


ROWS = [
    row("deep_fm", lambda: Two(deep_factors, table=nn.Embedding(30, 4), linear=nn.Embedding(30, 2), offset=torch.tensor([0, 10, 20]), number=nn.Linear(6, 2), deep=layers(18, 16, 2)),
        {"which": Values((3,), below=10), "numbers": Values((6,))}, Values((), below=2)),
    row("oblivious_trees", lambda: Call(oblivious_trees, choice=p(12, 3, 3), threshold=p(3, 3), heat=p(3, 3), answers=p(3, 8, 4))),
    row("collaborative", lambda: Two(collaborative, user=nn.Embedding(11, 8), item=nn.Embedding(13, 8), user_deep=nn.Embedding(11, 8), item_deep=nn.Embedding(13, 8), net=layers(16, 16, 8),
                                     head=nn.Linear(16, 1)), {"user": Values((), below=11), "item": Values((), below=13)}, Values((1,))),
    row("evolving_interest", lambda: Two(evolving_interest, items=nn.Embedding(WORDS, 8), first=nn.GRU(8, 8, batch_first=True),
                                         **linears(ask=(8, 8), gates=(16, 16), new=(16, 8), head=(24, 2))), HISTORY, Values((), below=2)),
    row("caser", lambda: Two(caser, items=nn.Embedding(WORDS, 8), across=nn.ModuleList(nn.Conv2d(1, 4, (k, 8)) for k in (2, 3)), down=nn.Conv2d(1, 2, (8, 1)), both=nn.Linear(24, 8),
                             out=nn.Embedding(WORDS, 8), bias=nn.Embedding(WORDS, 1)), HISTORY, Values((1,))),
    row("session_graph", lambda: Two(session_graph, items=nn.Embedding(WORDS, 8), cell=nn.GRUCell(16, 8),
                                     **linears(out_=(8, 8), in_=(8, 8), share=(8, 1), a=(8, 8), b=(8, 8), both=(16, 8), one=(8, 1))), HISTORY, Values((), below=WORDS)),
    row("whole_space", lambda: Call(whole_space, table=nn.Embedding(9, 4), click=layers(20, 8, 1), buy=layers(20, 8, 1)), {"which": Values((5,), below=9)}, Uniform((2,))),
    row("progressive_extraction", Extraction, None, Values((2,))),
    row("survival", lambda: Two(survival, net=layers(12, 16, 6)), {**TABLE, "when": Values((), below=6)}, None),
    row("quantiles", lambda: Two(quantiles, net=layers(12, 16, 3), levels=torch.tensor([0.1, 0.5, 0.9])), {**TABLE, "y": Values((1,))}, None),
    row("fixed_edges", lambda: Call(fixed_edges, layers=nn.ModuleList([nn.Linear(5, 8), nn.Linear(8, 8)]), weight=torch.rand(8), head=nn.Linear(8, 4), **edges()), {"x": Values((6, 5))}),
    row("edge_softmax", lambda: Call(edge_softmax, **linears(enter=(5, 8), score=(16, 1), head=(8, 4)), **edges()), {"x": Values((6, 5))}),
    row("own_edges", lambda: Two(own_edges, **linears(enter=(5, 8), edge=(16, 8), node=(16, 8), head=(8, 1))), {"nodes": Values((6, 5)), "edges": Values((9, 2), below=6)}, Values((6,))),
    row("set_to_set", lambda: Two(read_out, cell=nn.LSTMCell(16, 8), **linears(enter=(5, 8), message=(5, 8), head=(16, 4))), GRAPH),
    row("diff_pool", lambda: Two(pooled, **linears(embed=(5, 8), assign=(5, 3), second=(8, 8), head=(8, 4))), GRAPH),
    row("graph_unet", lambda: Two(best_nodes, direction=p(8), **linears(first=(5, 8), second=(8, 8), head=(8, 4))), GRAPH),
    row("aggregators", lambda: Two(aggregators, pre=nn.Linear(5, 8), post=layers(64, 16, 8), head=nn.Linear(8, 4)), GRAPH),
    row("point_transformer", lambda: Call(points, place=layers(3, 8, 8), share=layers(8, 8, 8), **linears(enter=(3, 8), q=(8, 8), k=(8, 8), v=(8, 8), head=(8, 4))), CLOUD),
    row("kernel_points", lambda: Call(kernel_points, kernel=torch.randn(5, 3) * 0.7, features=nn.Linear(3, 4), weights=p(5, 4, 8), head=nn.Linear(8, 4)), CLOUD),
    row("voxels", lambda: Call(voxels, net=layers(3, 8, 8), conv=nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()), head=nn.Linear(8, 4)), CLOUD),
]
