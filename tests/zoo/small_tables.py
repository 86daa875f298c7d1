"""Small models over tables, sets, graphs and points, and those whose layers are formulas."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from row import UNFOLDED, Call, Row, Uniform, Values

FEW = Values((), below=4)
TABLE = {"x": Values((12,))}


def layers(*sizes, act=nn.ReLU):
    parts = []
    for a, b in zip(sizes, sizes[1:]):
        parts += [nn.Linear(a, b), act()]
    return nn.Sequential(*parts[:-1])


class Several(nn.Module):
    """As Call, of several inputs."""

    def __init__(self, function, **parts):
        super().__init__()
        self.call = Call(function, **parts)

    def forward(self, *inputs):
        return self.call.function(self.call, *inputs)


class Two(Several):
    def forward(self, a, b):
        return super().forward(a, b)


class Three(Several):
    def forward(self, a, b, c):
        return super().forward(a, b, c)


def dlrm(m, dense, which):
    """Tables of categories beside numbers, their products by pairs."""
    parts = [m.bottom(dense)] + [table(which[:, i]) for i, table in enumerate(m.tables)]
    t = torch.stack(parts, 1)
    pairs = torch.bmm(t, t.transpose(1, 2))
    rows, columns = torch.tril_indices(4, 4, -1)
    return m.top(torch.cat([parts[0], pairs[:, rows, columns]], 1))


def make_dlrm():
    return Two(dlrm, bottom=layers(6, 16, 8), top=layers(14, 16, 2), tables=nn.ModuleList(nn.Embedding(9, 8) for _ in range(3)))


def wide_and_deep(m, dense, which):
    deep = m.deep(torch.cat([dense, m.table(which).flatten(1)], 1))
    return deep + m.wide(F.one_hot(which, 9).to(dense.dtype).flatten(1))


def factorisation(m, which):
    v = m.factors(which)
    return m.linear(which).sum(1) + 0.5 * (v.sum(1) ** 2 - (v ** 2).sum(1)).sum(1, keepdim=True)


def two_towers(m, user, item):
    return (F.normalize(m.user(user), dim=1) * F.normalize(m.item(item), dim=1)).sum(1, keepdim=True) / 0.1


def graph_network(m, nodes, edges):
    """Messages along the edges of each sample's graph, added up at their ends by index_add."""
    n, count, _ = nodes.shape
    flat, offset = m.enter(nodes).reshape(n * count, -1), torch.arange(n).unsqueeze(1) * count
    source, target = (edges[:, 0] + offset).reshape(-1), (edges[:, 1] + offset).reshape(-1)
    for layer in m.layers:
        messages = torch.relu(layer(torch.cat([flat[source], flat[target]], 1)))
        flat = flat + torch.zeros_like(flat).index_add(0, target, messages)
    return m.head(flat.reshape(n, count, -1).mean(1))


def graph_attention(m, nodes, edges):
    """The same by scatter_add, with shares that sum to one at each node."""
    x = m.enter(nodes)
    source, target = (edges[:, i].unsqueeze(2).expand(-1, -1, 8) for i in (0, 1))
    from_, to = x.gather(1, source), x.gather(1, target)
    weight = torch.exp(F.leaky_relu(m.score(torch.cat([from_, to], 2))))
    total = torch.zeros_like(x[..., :1]).scatter_add(1, target[..., :1], weight)
    y = torch.zeros_like(x).scatter_add(1, target, weight * from_)
    return m.head((y / (total + 1e-6)).amax(1))


def dense_graph(m, nodes, adjacency):
    """A GCN with the normalised adjacency."""
    a = adjacency + torch.eye(6)
    d = a.sum(2).rsqrt()
    a = d.unsqueeze(2) * a * d.unsqueeze(1)
    return m.second(a @ torch.relu(m.first(a @ nodes))).mean(1)


def deep_sets(m, x):
    return m.after(m.before(x).sum(1))


def set_transformer(m, x):
    y = m.attend(x, x, x, need_weights=False)[0]
    y = m.norm(x + y)
    seed = m.seed.expand(x.shape[0], -1, -1)
    return m.head(m.pool(seed, y, y, need_weights=False)[0].squeeze(1))


def point_net(m, x):
    """A learned 3x3 transform, then shared layers and a maximum over the points."""
    turn = m.turn(m.first(x.transpose(1, 2)).amax(2)).view(-1, 3, 3) + torch.eye(3)
    return m.head(m.second((x @ turn).transpose(1, 2)).amax(2))


def point_layers(*sizes):
    parts = []
    for a, b in zip(sizes, sizes[1:]):
        parts += [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
    return nn.Sequential(*parts)


def dynamic_graph(m, x):
    """DGCNN: each point's three nearest by topk, and the features of the edges to them."""
    distance = ((x.unsqueeze(2) - x.unsqueeze(1)) ** 2).sum(3)
    near = distance.topk(3, 2, largest=False).indices
    n, count, _ = x.shape
    neighbours = x.reshape(n * count, -1)[(near + torch.arange(n).view(-1, 1, 1) * count).reshape(-1)].view(n, count, 3, -1)
    centre = x.unsqueeze(2).expand_as(neighbours)
    return m.head(m.edge(torch.cat([centre, neighbours - centre], 3)).amax(2).amax(1))


def tab_transformer(m, dense, which):
    words = m.table(which + torch.arange(3) * 9)
    return m.head(torch.cat([m.encoder(words).flatten(1), m.norm(dense)], 1))


def tab_net(m, x):
    """Two steps of TabNet: sparse-like masks by softmax, gated layers."""
    prior, total = 1.0, 0.0
    x = m.norm(x)
    for choose, first in zip(m.choose, m.gate):
        mask = torch.softmax(choose(x) * prior, 1)
        prior = prior * (1.3 - mask)
        total = total + torch.relu(F.glu(first(mask * x), 1))
    return m.head(total)


def n_beats(m, x):
    rest, forecast = x, 0.0
    for block, back, ahead in zip(m.blocks, m.backs, m.aheads):
        h = block(rest)
        rest, forecast = rest - back(h), forecast + ahead(h)
    return forecast


def n_beats_trend(m, x):
    """Coefficients of a polynomial of the time."""
    t = torch.arange(4, dtype=x.dtype) / 4
    powers = torch.stack([t ** i for i in range(3)])
    return m.net(x) @ powers


def kan(m, x):
    """Kolmogorov-Arnold: each edge a sum of B-splines of order 3 on a grid."""
    for i, (spline, base) in enumerate(zip(m.splines, m.bases)):
        grid = torch.arange(-3, 9, dtype=x.dtype) * 0.4 - 1.0
        z = x.unsqueeze(-1)
        b = ((z >= grid[:-1]) & (z < grid[1:])).to(x.dtype)
        for k in range(1, 4):
            left = (z - grid[:-(k + 1)]) / (grid[k:-1] - grid[:-(k + 1)])
            right = (grid[k + 1:] - z) / (grid[k + 1:] - grid[1:-k])
            b = left * b[..., :-1] + right * b[..., 1:]
        x = base(F.silu(x)) + spline(b.flatten(1))
    return x


def neural_ode(m, x):
    """Four steps of Runge and Kutta's."""
    h = 0.25
    for _ in range(4):
        a = m.f(x)
        b = m.f(x + h / 2 * a)
        c = m.f(x + h / 2 * b)
        x = x + h / 6 * (a + 2 * b + 2 * c + m.f(x + h * c))
    return m.head(x)


def real_nvp(m, x):
    """A flow's loss: affine couplings, and the log of their determinants."""
    log_det = 0.0
    for net in m.nets:
        a, b = x.chunk(2, 1)
        scale, shift = net(a).chunk(2, 1)
        scale = torch.tanh(scale)
        x, log_det = torch.cat([b * torch.exp(scale) + shift, a], 1), log_det + scale.sum(1)
    return 0.5 * (x ** 2).sum(1) - log_det


def glow(m, x):
    """One step of Glow over images: an actnorm, an invertible 1x1 convolution with its determinant, a coupling."""
    x = (x + m.shift) * torch.exp(m.scale)
    x = F.conv2d(x, m.turn.view(4, 4, 1, 1))
    a, b = x.chunk(2, 1)
    scale, shift = m.net(a).chunk(2, 1)
    scale = torch.sigmoid(scale + 2)
    z = torch.cat([a, (b + shift) * scale], 1)
    return 0.5 * (z ** 2).sum((1, 2, 3)) - torch.log(scale).sum((1, 2, 3)) - 64 * (m.scale.sum() + torch.log(torch.abs(torch.det(m.turn))))


def deep_q(m, x):
    """A duelling network."""
    h = m.net(x)
    advantage = m.advantage(h)
    return m.value(h) + advantage - advantage.mean(1, keepdim=True)


def gaussian_policy(m, x, action):
    """The log of an action's probability."""
    mean, deviation = torch.tanh(m.mean(m.net(x))), torch.exp(torch.clamp(m.log_deviation, -2, 2))
    return (-((action - mean) / deviation) ** 2 / 2 - torch.log(deviation) - 0.5 * math.log(2 * math.pi)).sum(1, keepdim=True)


def hyper_network(m, x, task):
    w = m.make(task).view(-1, 4, 12)
    return torch.bmm(w, x.unsqueeze(2)).squeeze(2) + m.bias


def maxout(m, x):
    return m.head(m.wide(x).view(-1, 8, 3).amax(2))


def rbf(m, x):
    distance = ((x.unsqueeze(1) - m.centres) ** 2).sum(2)
    return m.head(torch.exp(-distance * torch.exp(m.gamma)))


def physics(m, x):
    """A PINN's network with sine layers (SIREN)."""
    return m.third(torch.sin(m.second(torch.sin(10 * m.first(x)))))


def nerf(m, x):
    """Fourier features of positions, a skip in the middle."""
    p = torch.cat([f(x * 2.0 ** i) for i in range(4) for f in (torch.sin, torch.cos)], 1)
    return torch.sigmoid(m.second(torch.cat([m.first(p), p], 1)))


def text_bag(m, tokens):
    return m.head(m.bag(tokens))


def text_bag_mean(m, tokens):
    """A mean over words that are not padding."""
    present = (tokens != 0).to(torch.float32).unsqueeze(2)
    return m.head((m.words(tokens) * present).sum(1) / present.sum(1).clamp(min=1))


def decision_tree(m, x):
    """A soft tree of depth 2."""
    g = torch.sigmoid(m.split(x))
    paths = torch.stack([g[:, 0] * g[:, 1], g[:, 0] * (1 - g[:, 1]), (1 - g[:, 0]) * g[:, 2], (1 - g[:, 0]) * (1 - g[:, 2])], 1)
    return torch.log(paths @ torch.softmax(m.leaves, 1) + 1e-8)


def mixture_density(m, x):
    h = m.net(x)
    shares, mean, deviation = m.shares(h), m.mean(h), F.softplus(m.deviation(h)) + 0.01
    target = x[:, :1]
    log = torch.log_softmax(shares, 1) - 0.5 * ((target - mean) / deviation) ** 2 - torch.log(deviation)
    return -torch.logsumexp(log, 1)


def actor_critic(m, x):
    h = m.net(x)
    return torch.cat([torch.log_softmax(m.actor(h), 1), m.critic(h)], 1)


def highway(m, x):
    for gate, layer in zip(m.gates, m.layers):
        t = torch.sigmoid(gate(x))
        x = t * torch.relu(layer(x)) + (1 - t) * x
    return m.head(x)


def each(make, n=2):
    return nn.ModuleList(make() for _ in range(n))


def row(name, make, inputs=None, labels=FEW, **options):
    return Row(name, "small", make, TABLE if inputs is None else inputs, labels, **options)


MIXED = {"dense": Values((6,)), "which": Values((3,), below=9)}
GRAPH = {"nodes": Values((6, 5)), "edges": Values((2, 14), below=6)}
SET = {"x": Values((7, 16))}
WORDS = {"tokens": Values((8,), below=31)}
ROWS = [
    row("mlp", lambda: layers(12, 32, 32, 4)),
    row("mlp_batch_norm", lambda: nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))),
    row("mlp_activations", lambda: nn.Sequential(*[p for act in (nn.ELU, nn.SELU, nn.CELU, nn.Mish, nn.Softplus, nn.Hardswish, nn.Softsign, nn.LogSigmoid, nn.Tanhshrink,
                                                               nn.Hardsigmoid, nn.GELU, nn.RReLU if False else nn.Softshrink) for p in (nn.Linear(12, 12), act())], nn.Linear(12, 4))),
    row("autoencoder", lambda: layers(12, 8, 3, 8, 12, act=nn.Tanh), None, Values((12,))),
    row("highway", lambda: Call(highway, gates=each(lambda: nn.Linear(12, 12)), layers=each(lambda: nn.Linear(12, 12)), head=nn.Linear(12, 4))),
    row("dlrm", make_dlrm, MIXED, Values((), below=2)),
    row("wide_and_deep", lambda: Two(wide_and_deep, deep=layers(30, 16, 2), table=nn.Embedding(9, 8), wide=nn.Linear(27, 2)), MIXED, Values((), below=2)),
    row("factorisation_machine", lambda: Call(factorisation, factors=nn.Embedding(27, 4), linear=nn.Embedding(27, 1)), {"which": Values((5,), below=27)}, Values((1,))),
    row("two_towers", lambda: Two(two_towers, user=nn.Embedding(11, 8), item=nn.Embedding(13, 8)), {"user": Values((), below=11), "item": Values((), below=13)}, Values((1,)), rate=0.001),
    row("embedding_bag", lambda: Call(text_bag, bag=nn.EmbeddingBag(31, 8, mode="mean"), head=nn.Linear(8, 4)), WORDS),
    row("text_bag_mean", lambda: Call(text_bag_mean, words=nn.Embedding(31, 8), head=nn.Linear(8, 4)), WORDS),
    row("graph_index_add", lambda: Two(graph_network, enter=nn.Linear(5, 8), layers=each(lambda: nn.Linear(16, 8)), head=nn.Linear(8, 4)), GRAPH),
    row("graph_attention", lambda: Two(graph_attention, enter=nn.Linear(5, 8), score=nn.Linear(16, 1), head=nn.Linear(8, 4)), GRAPH),
    row("graph_dense", lambda: Two(dense_graph, first=nn.Linear(5, 8), second=nn.Linear(8, 4)), {"nodes": Values((6, 5)), "adjacency": Uniform((6, 6))}),
    row("deep_sets", lambda: Call(deep_sets, before=layers(16, 16, 16), after=layers(16, 8, 4)), SET),
    row("set_transformer", lambda: Call(set_transformer, attend=nn.MultiheadAttention(16, 4, batch_first=True), norm=nn.LayerNorm(16), seed=nn.Parameter(torch.randn(1, 1, 16)),
                                        pool=nn.MultiheadAttention(16, 4, batch_first=True), head=nn.Linear(16, 4)), SET),
    row("point_net", lambda: Call(point_net, first=point_layers(3, 16), turn=nn.Linear(16, 9), second=point_layers(3, 16, 32), head=nn.Linear(32, 4)), {"x": Values((20, 3))}),
    row("dynamic_graph", lambda: Call(dynamic_graph, edge=layers(6, 16, 16), head=nn.Linear(16, 4)), {"x": Values((9, 3))}),
    row("tab_transformer", lambda: Two(tab_transformer, table=nn.Embedding(27, 16), norm=nn.LayerNorm(6), head=layers(54, 16, 2),
                                       encoder=nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)), MIXED, Values((), below=2)),
    row("tab_net", lambda: Call(tab_net, norm=nn.BatchNorm1d(12), choose=each(lambda: nn.Linear(12, 12)), gate=each(lambda: nn.Linear(12, 16)), head=nn.Linear(8, 4))),
    row("n_beats", lambda: Call(n_beats, blocks=each(lambda: layers(12, 16, 16)), backs=each(lambda: nn.Linear(16, 12)), aheads=each(lambda: nn.Linear(16, 4))), None, Values((4,))),
    row("n_beats_trend", lambda: Call(n_beats_trend, net=layers(12, 16, 3)), None, Values((4,)), variants=UNFOLDED),
    row("kan", lambda: Call(kan, splines=nn.ModuleList([nn.Linear(12 * 8, 6, False), nn.Linear(6 * 8, 4, False)]), bases=nn.ModuleList([nn.Linear(12, 6), nn.Linear(6, 4)]))),
    row("neural_ode", lambda: Call(neural_ode, f=layers(12, 16, 12, act=nn.Tanh), head=nn.Linear(12, 4))),
    row("real_nvp", lambda: Call(real_nvp, nets=each(lambda: layers(6, 16, 12))), None, None),
    row("glow", lambda: Call(glow, shift=nn.Parameter(torch.randn(1, 4, 1, 1) * 0.1), scale=nn.Parameter(torch.randn(1, 4, 1, 1) * 0.1),
                             turn=nn.Parameter(torch.linalg.qr(torch.randn(4, 4))[0]), net=nn.Conv2d(2, 4, 3, padding=1)), {"x": Values((4, 8, 8))}, None, rate=0.0001, variants=UNFOLDED),
    row("deep_q", lambda: Call(deep_q, net=layers(12, 16, 16), advantage=nn.Linear(16, 4), value=nn.Linear(16, 1)), None, Values((4,))),
    row("gaussian_policy", lambda: Two(gaussian_policy, net=layers(12, 16, 16, act=nn.Tanh), mean=nn.Linear(16, 2), log_deviation=nn.Parameter(torch.randn(2) * 0.1)),
        {"x": Values((12,)), "action": Values((2,))}, Values((1,)), rate=0.001, variants=UNFOLDED),
    row("hyper_network", lambda: Two(hyper_network, make=nn.Linear(3, 48), bias=nn.Parameter(torch.randn(4))), {"x": Values((12,)), "task": Values((3,))}),
    row("maxout", lambda: Call(maxout, wide=nn.Linear(12, 24), head=nn.Linear(8, 4))),
    row("rbf", lambda: Call(rbf, centres=nn.Parameter(torch.randn(6, 12)), gamma=nn.Parameter(torch.tensor(-2.5)), head=nn.Linear(6, 4)), variants=UNFOLDED),
    row("siren", lambda: Call(physics, first=nn.Linear(2, 16), second=nn.Linear(16, 16), third=nn.Linear(16, 1)), {"x": Uniform((2,))}, Values((1,))),
    row("nerf", lambda: Call(nerf, first=layers(24, 16, 16), second=layers(40, 16, 4)), {"x": Uniform((3,))}, Uniform((4,))),
    row("soft_tree", lambda: Call(decision_tree, split=nn.Linear(12, 3), leaves=nn.Parameter(torch.randn(4, 4))), variants=UNFOLDED),
    row("mixture_density", lambda: Call(mixture_density, net=layers(12, 16), shares=nn.Linear(16, 3), mean=nn.Linear(16, 3), deviation=nn.Linear(16, 3)), None, None),
    row("actor_critic", lambda: Call(actor_critic, net=layers(12, 16, 16), actor=nn.Linear(16, 3), critic=nn.Linear(16, 1)), None, Values((4,))),
]
