"""Small models over tables, graphs, points and policies of a sixth sample, chosen before anything of it was exported."""
import torch
from torch import nn
from torch.nn import functional as F

from row import Call, Row, Values
from small_tables import Three, Two, layers

NODES, WIDTH = 6, 8
FEW, KIND, REACHED = Values((), below=4), Values((), below=3), Values(())


def twice(make):
    return nn.ModuleList(make() for _ in range(2))


def p(*shape):
    return nn.Parameter(torch.randn(shape) * 0.3)


def row(name, make, inputs, labels, **options):
    return Row(name, "small", make, inputs, labels, **options)


def periodic_numbers(m, x):
    """Each number by sines of learned frequencies, through a layer of its own."""
    y = 2 * torch.pi * m.frequencies * x.unsqueeze(-1)
    y = torch.cat([y.cos(), y.sin()], -1)
    y = F.relu(torch.einsum("nfk,fkd->nfd", y, m.weight) + m.bias)
    return m.head(y.flatten(1))


def domain_adversary(m, x, domain):
    """DANN: the features' gradient from the judge of domains is turned round; both losses are the output."""
    y = m.features(x)
    turned = 1.5 * y.detach() - 0.5 * y
    return F.softplus(-m.task(y).squeeze(1) * x[:, 0]).mean() + F.cross_entropy(m.judge(turned), domain)


def bilinear_interactions(m, which):
    """FiBiNET: fields weighed by their means, and products by pairs with a matrix between, of both."""
    v = m.table(which + m.offsets)
    weighed = v * m.weigh(v.mean(-1)).unsqueeze(-1)
    left, right = torch.triu_indices(4, 4, 1)
    pairs = [(m.between(y)[:, left] * y[:, right]).flatten(1) for y in (v, weighed)]
    return m.head(torch.cat(pairs, 1))


class Graphormer(nn.Module):
    """Attention over nodes with a bias by how far apart they are, and tables of degrees."""

    def __init__(self):
        super().__init__()
        self.enter, self.degree, self.far = nn.Linear(5, WIDTH), nn.Embedding(NODES + 1, WIDTH), nn.Embedding(4, 2)
        self.all = nn.Parameter(torch.randn(1, 1, WIDTH) * 0.3)
        self.qkv, self.out = twice(lambda: nn.Linear(WIDTH, 3 * WIDTH)), twice(lambda: nn.Linear(WIDTH, WIDTH))
        self.norms, self.wide = twice(lambda: twice(lambda: nn.LayerNorm(WIDTH))), twice(lambda: layers(WIDTH, 16, WIDTH, act=nn.GELU))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x, far):
        n = x.size(0)
        y = torch.cat([self.all.expand(n, -1, -1), self.enter(x) + self.degree((far == 1).sum(-1))], 1)
        bias = F.pad(self.far(far).permute(0, 3, 1, 2), (1, 0, 1, 0))
        for qkv, out, (a, b), wide in zip(self.qkv, self.out, self.norms, self.wide):
            q, k, v = qkv(a(y)).view(n, NODES + 1, 3, 2, WIDTH // 2).permute(2, 0, 3, 1, 4)
            share = (q @ k.transpose(-1, -2) / 2 + bias).softmax(-1)
            y = y + out((share @ v).transpose(1, 2).flatten(2))
            y = y + wide(b(y))
        return self.head(y[:, 0])


class Equivariant(nn.Module):
    """PaiNN: numbers and vectors of atoms, told to each other along directions."""

    def __init__(self):
        super().__init__()
        self.kinds, self.told, self.near = nn.Embedding(5, WIDTH), twice(lambda: layers(WIDTH, WIDTH, 3 * WIDTH, act=nn.SiLU)), twice(lambda: nn.Linear(6, 3 * WIDTH))
        self.u, self.v = (twice(lambda: nn.Linear(WIDTH, WIDTH, bias=False)) for _ in range(2))
        self.mix, self.head = twice(lambda: layers(2 * WIDTH, WIDTH, 3 * WIDTH, act=nn.SiLU)), layers(WIDTH, WIDTH, 1, act=nn.SiLU)

    def forward(self, kinds, places):
        s = self.kinds(kinds)
        v = torch.zeros(*s.shape, 3)
        apart = places.unsqueeze(2) - places.unsqueeze(1)
        far = torch.sqrt((apart ** 2).sum(-1) + 1e-6)
        basis = torch.sin(far.unsqueeze(-1) * torch.arange(1, 7) * torch.pi / 5) / far.unsqueeze(-1)
        cut = 0.5 * (torch.cos(torch.pi * far / 5) + 1) * (far < 5) * (1 - torch.eye(NODES))
        for told, near, u, w, mix in zip(self.told, self.near, self.u, self.v, self.mix):
            a, b, c = (told(s).unsqueeze(1) * near(basis) * cut.unsqueeze(-1)).chunk(3, -1)
            s, v = s + a.sum(2), v + (b.unsqueeze(-1) * v.unsqueeze(1) + c.unsqueeze(-1) * (apart / far.unsqueeze(-1)).unsqueeze(3)).sum(2)
            vu, vw = u(v.transpose(2, 3)).transpose(2, 3), w(v.transpose(2, 3)).transpose(2, 3)
            length = torch.sqrt((vw ** 2).sum(-1) + 1e-6)
            a, b, c = mix(torch.cat([s, length], -1)).chunk(3, -1)
            s, v = s + a + b * (vu * vw).sum(-1), v + c.unsqueeze(-1) * vu
        return self.head(s).sum((1, 2))


def skeletons(m, x):
    """ST-GCN: joints by three parts of a graph with learned weights, frames by convolutions."""
    for graph, mask, space, time in zip((m.parts, m.parts), m.masks, m.space, m.time):
        y = space(x).unflatten(1, (3, -1))
        x = F.relu(time(torch.einsum("nkctv,kvw->nctw", y, graph * mask)))
    return m.head(x.mean((2, 3)))


def folding(m, x):
    """FoldingNet: a grid folded twice into a cloud; the loss is how far each point is from the other cloud."""
    code = m.read(x).amax(1)
    y = m.grid.expand(x.size(0), -1, -1)
    for fold in m.folds:
        y = fold(torch.cat([code.unsqueeze(1).expand(-1, 9, -1), y], -1))
    far = ((x.unsqueeze(2) - y.unsqueeze(1)) ** 2).sum(-1)
    return far.amin(1).mean() + far.amin(2).mean()


def clipped_policy(m, state, action, before):
    """PPO: a clipped ratio of probabilities, a value and an entropy; advantages stand behind the states."""
    y = m.body(state[:, :6])
    log, value = m.policy(y).log_softmax(-1), m.value(y).squeeze(-1)
    ratio = torch.exp(log.gather(1, action.unsqueeze(1)).squeeze(1) - before)
    gain, wanted = state[:, 6], state[:, 7]
    clipped = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
    return clipped + 0.5 * F.mse_loss(value, wanted) + 0.01 * (log.exp() * log).sum(-1).mean()


def mu_zero(m, x, actions):
    """A hidden state unrolled by actions, whose gradient is halved at each of them."""
    h, said = m.represent(x), []
    for t in range(3):
        h = torch.cat([h, m.action(actions[:, t])], 1)
        h = m.dynamics(h)
        low, high = h.amin(1, keepdim=True), h.amax(1, keepdim=True)
        h = (h - low) / (high - low + 1e-5)
        h = 0.5 * h + (0.5 * h).detach()
        said.append(torch.cat([m.policy(h), m.value(h), m.reward(h)], 1))
    return torch.stack(said, 1)


def spiking(m, x):
    """Neurons that leak and fire; the step's gradient is that of a sigmoid."""
    current, volts, total = m.first(x), torch.zeros(x.size(0), 16), 0.0
    leak = torch.sigmoid(m.leak)
    for _ in range(5):
        volts = leak * volts + current
        soft = torch.sigmoid(4 * (volts - 1))
        spike = soft + ((volts > 1).to(soft.dtype) - soft).detach()
        volts = volts - spike.detach()
        total = total + m.second(spike)
    return total / 5


def barlow_twins(m, a, b):
    """Metric learning: two views' features should correlate one by one, over the batch."""
    a, b = m.norm(m.body(a)), m.norm(m.body(b))
    c = a.t() @ b / a.size(0)
    return ((c.diagonal() - 1) ** 2).sum() + 0.005 * (c ** 2).sum() - 0.005 * (c.diagonal() ** 2).sum()


def radial_flow(m, x):
    """A normalizing flow of radii around learned centres; minus its log-likelihood."""
    total = torch.zeros(x.size(0))
    for centre, a, b in zip(m.centres, m.a, m.b):
        alpha = F.softplus(a)
        beta = F.softplus(b) - alpha
        d = x - centre
        r = torch.sqrt((d ** 2).sum(1, keepdim=True) + 1e-8)
        h = 1 / (alpha + r)
        total = total + (3 * torch.log1p(beta * h) + torch.log1p(beta * h - beta * r * h ** 2)).squeeze(1)
        x = x + beta * h * d
    return (0.5 * (x ** 2).sum(1) - total).mean()


def hyper_lora(m, x, task):
    """Changes of low rank to a layer, made for each sample by a network that sees its task."""
    a, b = m.make(m.tasks(task)).split([12 * 2, 16 * 2], 1)
    y = torch.bmm(x.unsqueeze(1), a.view(-1, 12, 2))
    y = F.gelu(m.base(x) + torch.bmm(y, b.view(-1, 2, 16)).squeeze(1))
    return m.head(y)


def joints():
    """Three parts: itself, towards the middle, away from it."""
    towards = torch.zeros(5, 5)
    towards[torch.tensor([0, 1, 3, 4]), torch.tensor([1, 2, 2, 3])] = 0.5
    return torch.stack([torch.eye(5), towards, towards.t()])


def grid():
    along = torch.linspace(-1, 1, 3)
    return torch.stack(torch.meshgrid(along, along, indexing="ij"), -1).view(9, 2)


TABLE = {"x": Values((12,))}
ROWS = [
    row("periodic_numbers", lambda: Call(periodic_numbers, frequencies=p(12, 6), weight=p(12, 12, 4), bias=p(12, 4), head=layers(48, 24, 4)), TABLE, FEW),
    row("domain_adversary", lambda: Two(domain_adversary, features=layers(12, 16, 8, act=nn.Tanh), task=nn.Linear(8, 1), judge=layers(8, 8, 3)), {**TABLE, "domain": KIND}, None),
    row("bilinear_interactions", lambda: Call(bilinear_interactions, table=nn.Embedding(28, WIDTH), weigh=nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 4), nn.ReLU()),
                                              between=nn.Linear(WIDTH, WIDTH, bias=False), head=layers(96, 16, 2), offsets=torch.arange(0, 28, 7)), {"which": Values((4,), below=7)}, Values((), below=2)),
    row("graphormer", Graphormer, {"x": Values((NODES, 5)), "far": Values((NODES, NODES), below=4)}, KIND),
    row("equivariant_messages", Equivariant, {"kinds": Values((NODES,), below=5), "places": Values((NODES, 3))}, REACHED, rate=0.001),
    row("skeletons", lambda: Call(skeletons, parts=joints(), masks=nn.ParameterList(nn.Parameter(torch.ones(3, 5, 5)) for _ in range(2)),
                                  space=nn.ModuleList([nn.Conv2d(3, 24, 1), nn.Conv2d(8, 36, 1)]),
                                  time=nn.ModuleList(nn.Sequential(nn.BatchNorm2d(k), nn.ReLU(), nn.Conv2d(k, k, (3, 1), padding=(1, 0)), nn.BatchNorm2d(k)) for k in (8, 12)),
                                  head=nn.Linear(12, 4)), {"x": Values((3, 8, 5))}, FEW),
    row("folding", lambda: Call(folding, read=layers(3, 16, 12), grid=grid(), folds=nn.ModuleList([layers(14, 16, 3), layers(15, 16, 3)])), {"x": Values((16, 3))}, None),
    row("clipped_policy", lambda: Three(clipped_policy, body=layers(6, 16, 16, act=nn.Tanh), policy=nn.Linear(16, 4), value=nn.Linear(16, 1)),
        {"state": Values((8,)), "action": FEW, "before": Values(())}, None),
    row("mu_zero", lambda: Two(mu_zero, represent=layers(12, 16, 8), action=nn.Embedding(4, 4), dynamics=layers(12, 16, 8), policy=nn.Linear(8, 4), value=nn.Linear(8, 1), reward=nn.Linear(8, 1)),
        {**TABLE, "actions": Values((3,), below=4)}, Values((3, 6))),
    row("spiking", lambda: Call(spiking, first=nn.Linear(12, 16), second=nn.Linear(16, 4), leak=p(16)), TABLE, FEW),
    row("barlow_twins", lambda: Two(barlow_twins, body=layers(12, 16, 8), norm=nn.BatchNorm1d(8, affine=False)), {"a": Values((12,)), "b": Values((12,))}, None, rate=0.001),
    row("radial_flow", lambda: Call(radial_flow, centres=nn.ParameterList(p(4) for _ in range(3)), a=nn.ParameterList(p(1) for _ in range(3)), b=nn.ParameterList(p(1) for _ in range(3))),
        {"x": Values((4,))}, None),
    row("hyper_lora", lambda: Two(hyper_lora, tasks=nn.Embedding(3, 6), make=layers(6, 16, 56), base=nn.Linear(12, 16), head=nn.Linear(16, 4)), {**TABLE, "task": KIND}, FEW),
]
