"""Small models over tables, graphs and policies of a fourth sample, chosen before anything of it was run."""
import torch
from torch import nn
from torch.nn import functional as F

from row import Call, Row, Values
from small_tables import FEW, TABLE, Two, each, layers

USERS, ITEMS = 9, 11


class TabResNet(nn.Module):
    """Categories looked up and numbers, through residual blocks with normalization over the batch."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(k, 4) for k in (5, 7))
        self.enter = nn.Linear(14, 16)
        self.blocks = nn.ModuleList(nn.Sequential(nn.BatchNorm1d(16), nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 16)) for _ in range(2))
        self.head = nn.Sequential(nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, numbers, which):
        x = self.enter(torch.cat([numbers, *(table(which[:, i]) for i, table in enumerate(self.tables))], 1))
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def cross_experts(m, x):
    """DCN-Mix: crosses of low rank, mixed by gates."""
    start = y = x
    for u, v, core, bias in zip(m.u, m.v, m.core, m.bias):
        share = m.gate(y).softmax(-1)
        inner = torch.tanh(torch.einsum("nd,edr->ner", y, v))
        inner = torch.tanh(torch.einsum("ner,ers->nes", inner, core))
        said = start.unsqueeze(1) * (torch.einsum("nes,eds->ned", inner, u) + bias)
        y = y + (said * share.unsqueeze(-1)).sum(1)
    return m.head(torch.cat([y, m.deep(x)], 1))


def behaviour(m, history, target):
    """What was clicked and what is offered through a transformer; how long ago as places."""
    both = torch.cat([m.items(history), m.items(target).unsqueeze(1)], 1)
    y = m.layer(torch.cat([both, m.ago.weight.expand(both.size(0), -1, -1)], -1), src_key_padding_mask=F.pad(history == 0, (0, 1)))
    return m.head(y.flatten(1)).squeeze(-1)


def light_graph(m, user, item):
    """Tables smoothed over a fixed graph of users and items."""
    y = torch.cat([m.users.weight, m.items.weight])
    layers_ = [y]
    for _ in range(2):
        y = m.adjacency @ y
        layers_.append(y)
    users, items = torch.stack(layers_, 1).mean(1).split([USERS, ITEMS])
    return (users[user] * items[item]).sum(-1)


def adjacency():
    links = (torch.rand(USERS, ITEMS, generator=torch.Generator().manual_seed(3)) < 0.4).float()
    links[:, 0] = links[0] = 1
    whole = torch.cat([torch.cat([torch.zeros(USERS, USERS), links], 1), torch.cat([links.t(), torch.zeros(ITEMS, ITEMS)], 1)])
    root = whole.sum(1).rsqrt()
    return root[:, None] * whole * root[None, :]


def relational(m, x, links):
    """Three kinds of links, whose weights are mixtures of two bases."""
    for bases, mixture, own in zip(m.bases, m.mixtures, m.own):
        weights = torch.einsum("rb,bio->rio", mixture, bases)
        count = links.sum(-1, keepdim=True).clamp(min=1)
        x = F.relu(torch.einsum("nruv,nvi,rio->nuo", links / count, x, weights) + own(x))
    return m.head(x.mean(1))


class SampleAndAggregate(nn.Module):
    """GraphSAGE over edges that all samples share: means of neighbours by index_add."""

    def __init__(self):
        super().__init__()
        self.register_buffer("source", torch.tensor([0, 1, 2, 3, 4, 5, 0, 2]))
        self.register_buffer("target", torch.tensor([1, 2, 3, 4, 5, 0, 3, 5]))
        self.own, self.near = each(lambda: nn.Linear(8, 8)), each(lambda: nn.Linear(8, 8, bias=False))
        self.enter, self.head = nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, x):
        x = self.enter(x)
        count = torch.zeros(6).index_add(0, self.target, torch.ones(8)).clamp(min=1)
        for own, near in zip(self.own, self.near):
            mean = torch.zeros_like(x).index_add(1, self.target, x[:, self.source]) / count[None, :, None]
            x = F.normalize(F.relu(own(x) + near(mean)), dim=-1)
        return self.head(x)


def twin_critic(m, state, action):
    """The smaller of two values."""
    x = torch.cat([state, action], -1)
    return torch.min(m.first(x), m.second(x)).squeeze(-1)


class NoisyLinear(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.weight_mu, self.weight_sigma = nn.Parameter(torch.randn(b, a) * 0.3), nn.Parameter(torch.full((b, a), 0.1))
        self.bias_mu, self.bias_sigma = nn.Parameter(torch.randn(b) * 0.3), nn.Parameter(torch.full((b,), 0.1))
        self.register_buffer("weight_epsilon", torch.randn(b, a))
        self.register_buffer("bias_epsilon", torch.randn(b))

    def forward(self, x):
        return F.linear(x, self.weight_mu + self.weight_sigma * self.weight_epsilon, self.bias_mu + self.bias_sigma * self.bias_epsilon)


def noisy_q(m, x):
    """A duelling network of noisy layers."""
    y = F.relu(m.enter(x))
    advantage = m.advantage(y)
    return m.value(y) + advantage - advantage.mean(1, keepdim=True)


def row(name, make, inputs=None, *labels, **options):
    return Row(name, "small", make, TABLE if inputs is None else inputs, *(labels or (FEW,)), **options)


def p(*shape):
    return nn.Parameter(torch.randn(shape) * 0.3)


def several(make):
    return nn.ParameterList(make() for _ in range(2))


ROWS = [
    row("tab_resnet", TabResNet, {"numbers": Values((6,)), "which": Values((2,), below=5)}, Values((), below=2)),
    row("cross_experts", lambda: Call(cross_experts, u=several(lambda: p(3, 12, 4)), v=several(lambda: p(3, 12, 4)), core=several(lambda: p(3, 4, 4)), bias=several(lambda: p(12)),
                                      gate=nn.Linear(12, 3), deep=layers(12, 16, 8), head=nn.Linear(20, 4))),
    row("behaviour_transformer", lambda: Two(behaviour, items=nn.Embedding(ITEMS, 12), ago=nn.Embedding(6, 4), head=layers(96, 16, 1),
                                             layer=nn.TransformerEncoderLayer(16, 2, 32, 0.0, F.leaky_relu, batch_first=True)),
        {"history": Values((5,), below=ITEMS), "target": Values((), below=ITEMS)}, Values(())),
    row("light_graph", lambda: Two(light_graph, users=nn.Embedding(USERS, 8), items=nn.Embedding(ITEMS, 8), adjacency=adjacency()),
        {"user": Values((), below=USERS), "item": Values((), below=ITEMS)}, Values(())),
    row("relational_graph", lambda: Two(relational, bases=several(lambda: p(2, 8, 8)), mixtures=several(lambda: p(3, 2)), own=each(lambda: nn.Linear(8, 8)), head=nn.Linear(8, 4)),
        {"x": Values((5, 8)), "links": Values((3, 5, 5))}),
    row("sample_and_aggregate", SampleAndAggregate, {"x": Values((6, 5))}, Values((6,), below=3)),
    row("twin_critic", lambda: Two(twin_critic, first=layers(8, 16, 16, 1), second=layers(8, 16, 16, 1)), {"state": Values((6,)), "action": Values((2,))}, Values(())),
    row("noisy_q", lambda: Call(noisy_q, enter=nn.Linear(12, 16), value=NoisyLinear(16, 1), advantage=NoisyLinear(16, 4)), None, Values((4,))),
]
