"""Small models over graphs of a fifth sample, chosen before anything of it was run."""
import torch
from torch import nn
from torch.nn import functional as F

from row import Row, Values
from small_tables import Three, Two, layers

NODES, WIDTH = 6, 8
DENSE = {"x": Values((NODES, 5)), "links": Values((NODES, NODES))}
EDGES = {"x": Values((NODES, 5)), "source": Values((10,), below=NODES), "target": Values((10,), below=NODES)}
KIND = Values((), below=3)


def gcn_edges(m, x, source, target):
    """Each sample has edges of its own: messages are gathered, divided by the roots of both degrees, and scattered."""
    degree = torch.ones_like(x[:, :, 0]).scatter_add(1, target, torch.ones_like(target, dtype=x.dtype))
    root = degree.rsqrt()
    norm = (root.gather(1, source) * root.gather(1, target)).unsqueeze(-1)
    for layer in m.layers:
        y = layer(x)
        where = [i.unsqueeze(-1).expand(-1, -1, y.size(-1)) for i in (source, target)]
        x = F.relu((y * (root * root).unsqueeze(-1)).scatter_add(1, where[1], y.gather(1, where[0]) * norm) + m.bias)
    return m.head(x.mean(1))


def joined(links):
    """Who is joined: those with a positive number, and each to itself."""
    return (links > 0) | torch.eye(NODES, dtype=torch.bool)


def gat_v2(m, x, links):
    """Scores by a vector after the activation, of two heads."""
    for left, right, score in zip(m.left, m.right, m.score):
        a, b = left(x).unflatten(-1, (2, WIDTH // 2)), right(x).unflatten(-1, (2, WIDTH // 2))
        s = (F.leaky_relu(a.unsqueeze(1) + b.unsqueeze(2), 0.2) * score).sum(-1)
        share = s.masked_fill(~joined(links).unsqueeze(-1), -1e9).softmax(2)
        x = F.elu(torch.einsum("nuvh,nvhc->nuhc", share, a).flatten(2))
    return m.head(x.mean(1))


def principal(m, x, links):
    """PNA: mean, largest, smallest and deviation of the neighbours, each as it is and scaled by the degree's logarithm up and down."""
    mask = joined(links).unsqueeze(-1)
    degree = mask.sum(2).to(x.dtype)
    scale = torch.log(degree + 1) / 1.3
    x = m.enter(x)
    for pre, post in zip(m.pre, m.post):
        pairs = torch.cat([x.unsqueeze(2).expand(-1, -1, NODES, -1), x.unsqueeze(1).expand(-1, NODES, -1, -1)], -1)
        y = pre(pairs)
        kept = y * mask
        mean = kept.sum(2) / degree
        deviation = torch.sqrt(F.relu((kept * y).sum(2) / degree - mean * mean) + 1e-5)
        parts = torch.cat([mean, y.masked_fill(~mask, -1e9).amax(2), y.masked_fill(~mask, 1e9).amin(2), deviation], -1)
        x = x + post(torch.cat([x, parts, parts * scale, parts / scale], -1))
    return m.head(x.sum(1))


def personal_pagerank(m, x, links):
    """APPNP: a perceptron's predictions spread over the graph, returning to where they began."""
    a = joined(links).to(x.dtype)
    root = a.sum(-1, keepdim=True).rsqrt()
    a = root * a * root.transpose(1, 2)
    start = y = m.predict(x)
    for _ in range(5):
        y = 0.9 * torch.bmm(a, y) + 0.1 * start
    return y


class JumpingKnowledge(nn.Module):
    """What each layer made of a node is read by an LSTM, which says how much of each to take."""

    def __init__(self):
        super().__init__()
        self.enter, self.layers = nn.Linear(5, WIDTH), nn.ModuleList(layers(WIDTH, WIDTH, WIDTH) for _ in range(3))
        self.epsilon = nn.Parameter(torch.zeros(3))
        self.read, self.attend = nn.LSTM(WIDTH, 6, batch_first=True, bidirectional=True), nn.Linear(12, 1)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x, links):
        a, x, seen = (links > 0).to(x.dtype), self.enter(x), []
        for i, layer in enumerate(self.layers):
            x = layer((1 + self.epsilon[i]) * x + a @ x)
            seen.append(x)
        y = torch.stack(seen, 2)
        n, u, l, c = y.shape
        share = self.attend(self.read(y.reshape(n * u, l, c))[0]).softmax(1)
        return self.head((y.reshape(n * u, l, c) * share).sum(1).view(n, u, c))


def p(*shape):
    return nn.Parameter(torch.randn(shape) * 0.3)


def row(name, make, inputs, labels):
    return Row(name, "small", make, inputs, labels)


ROWS = [
    row("gcn_edges", lambda: Three(gcn_edges, layers=nn.ModuleList([nn.Linear(5, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)]), bias=p(WIDTH), head=nn.Linear(WIDTH, 3)), EDGES, KIND),
    row("gat_v2", lambda: Two(gat_v2, left=nn.ModuleList([nn.Linear(5, WIDTH), nn.Linear(WIDTH, WIDTH)]), right=nn.ModuleList([nn.Linear(5, WIDTH), nn.Linear(WIDTH, WIDTH)]),
                              score=nn.ParameterList(p(2, WIDTH // 2) for _ in range(2)), head=nn.Linear(WIDTH, 3)), DENSE, KIND),
    row("principal_aggregation", lambda: Two(principal, enter=nn.Linear(5, WIDTH), pre=nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH) for _ in range(2)),
                                             post=nn.ModuleList(nn.Linear(13 * WIDTH, WIDTH) for _ in range(2)), head=layers(WIDTH, 8, 3)), DENSE, KIND),
    row("personal_pagerank", lambda: Two(personal_pagerank, predict=layers(5, 16, 3)), DENSE, Values((NODES,), below=3)),
    row("jumping_knowledge", JumpingKnowledge, DENSE, Values((NODES,), below=3)),
]
