"""Small models of probabilities, games and formulas of a third sample, chosen before anything of it was run."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from row import Call, Uniform, Values
from small_tables import Two, layers
from third_images import p
from third_sequences import linears
from third_tables import TABLE, row


def splines(m, x):
    """A coupling of rational quadratic splines; the negative log likelihood."""
    a, b = x.chunk(2, 1)
    w, h, d = m.net(a).view(-1, 6, 13).split([4, 4, 5], -1)
    w, h, d = 0.01 + 0.96 * F.softmax(w, -1), 0.01 + 0.96 * F.softmax(h, -1), 0.01 + F.softplus(d)
    xs, ys = (F.pad(torch.cumsum(t, -1), (1, 0)) * 6 - 3 for t in (w, h))
    inside = b.clamp(-2.9, 2.9)
    at = (torch.searchsorted(xs.detach().contiguous(), inside.detach().unsqueeze(-1)) - 1).clamp(0, 3)
    take = lambda t: t.gather(-1, at).squeeze(-1)
    x0, y0, d0, d1 = take(xs), take(ys), take(d), d.gather(-1, at + 1).squeeze(-1)
    width, height = 6 * take(w), 6 * take(h)
    s, t = height / width, ((inside - x0) / width).clamp(0, 1)
    bottom = s + (d0 + d1 - 2 * s) * t * (1 - t)
    y = y0 + height * (s * t ** 2 + d0 * t * (1 - t)) / bottom
    slope = s ** 2 * (d1 * t ** 2 + 2 * s * t * (1 - t) + d0 * (1 - t) ** 2) / bottom ** 2
    return (y ** 2).sum(1) / 2 + (a ** 2).sum(1) / 2 - torch.log(slope).sum(1)


def ladder(m, x, noise):
    """A VAE of two levels, its bound the output."""
    h1 = m.up1(x)
    h2 = m.up2(h1)
    mean2, log2 = m.q2(h2).chunk(2, 1)
    z2 = mean2 + torch.exp(0.5 * log2) * noise[:, :3]
    pm, pl = m.p1(z2).chunk(2, 1)
    qm, ql = m.q1(torch.cat([h1, z2], 1)).chunk(2, 1)
    z1 = qm + (0.5 * ql).exp() * noise[:, 3:]
    first = 0.5 * (pl - ql + (ql.exp() + (qm - pm) ** 2) / pl.exp() - 1).sum(1)
    second = 0.5 * (log2.exp() + mean2 ** 2 - 1 - log2).sum(1)
    return F.mse_loss(m.down(z1), x, reduction="none").sum(1) + first + second


def bayesian(m, x, noise):
    """Means and deviations of answers; weights' formulas are avoided by local reparametrization."""
    mean = m.mean(x)
    variance = F.linear(x ** 2, m.deviation.weight ** 2)
    return m.head(torch.relu(mean + torch.sqrt(variance + 1e-6) * noise))


def squashed(m, x, noise):
    """SAC's policy: a tanh of a Gaussian, the log probability beside the action."""
    mean, log = m.net(x).chunk(2, -1)
    log = -5 + 3.5 * (torch.tanh(log) + 1)
    u = mean + log.exp() * noise
    log_p = (-0.5 * noise ** 2 - log - 0.5 * math.log(2 * math.pi)).sum(1, keepdim=True)
    log_p = log_p - (2 * (math.log(2) - u - F.softplus(-2 * u))).sum(1, keepdim=True)
    return torch.cat([torch.tanh(u), log_p], 1)


def mixing(m, agents, state):
    """QMIX: values of agents, mixed by weights that a net makes of the state."""
    q = m.agent(agents).max(-1)[0].unsqueeze(1)
    w1, w2 = torch.abs(m.w1(state)).view(-1, 3, 8), torch.abs(m.w2(state)).view(-1, 8, 1)
    hidden = F.elu(torch.bmm(q, w1) + m.b1(state).unsqueeze(1))
    return (torch.bmm(hidden, w2) + m.b2(state).unsqueeze(1)).squeeze(1)


def unrolled(m, x, actions):
    """MuZero: a model of the game, unrolled three moves."""
    s, out = m.represent(x), []
    for i in range(3):
        s = m.move(torch.cat([s, F.one_hot(actions[:, i], 4).to(s.dtype)], 1))
        low, high = s.min(1, keepdim=True)[0], s.max(1, keepdim=True)[0]
        s = (s - low) / (high - low + 1e-5)
        out.append(torch.cat([m.policy(s), m.value(s), m.reward(s)], 1))
    return torch.stack(out, 1)


def world(m, x, actions):
    """Dreamer's recurrent state: categories with straight-through gradients."""
    h, z, out = torch.zeros(x.size(0), 16), torch.zeros(x.size(0), 12), []
    for i in range(4):
        h = m.cell(F.elu(m.enter(torch.cat([z, actions[:, i]], -1))), h)
        logits = m.post(torch.cat([h, x[:, i]], -1)).view(-1, 3, 4)
        share = F.softmax(logits, -1)
        hard = F.one_hot(share.argmax(-1), 4).float()
        z = (hard + share - share.detach()).flatten(1)
        out.append(m.decode(torch.cat([h, z], -1)))
    return torch.stack(out, 1)


def implicit_quantiles(m, x, levels):
    """IQN: cosines of levels times features."""
    h = m.body(x)
    cosines = torch.cos(math.pi * torch.arange(1, 9, dtype=torch.float32) * levels.unsqueeze(-1))
    y = h.unsqueeze(1) * F.relu(m.level(cosines))
    return m.head(y).mean(1)


class Adapted(nn.Module):
    """LoRA: what is frozen is frozen by an option."""

    def __init__(self):
        super().__init__()
        self.base, self.head = nn.Linear(12, 16), nn.Linear(16, 4)
        self.down, self.up = nn.Linear(12, 2, bias=False), nn.Linear(2, 16, bias=False)
        self.base.requires_grad_(False)

    def forward(self, x):
        return self.head(F.relu(self.base(x) + 4 * self.up(self.down(x))))


def tensor_train(m, x):
    """A layer as a chain of small tensors."""
    y = torch.einsum("nabc,aip->nbcip", x.view(-1, 2, 3, 2), m.a)
    y = torch.einsum("nbcip,pbjq->ncijq", y, m.b)
    return m.head(F.relu(torch.einsum("ncijq,qck->nijk", y, m.c).flatten(1)))


def prototypes(m, support, query):
    """Few-shot: distances to the means of four classes with three examples each."""
    n = support.size(0)
    s = m.net(support.view(-1, 12)).view(n, 4, 3, -1).mean(2)
    q = m.net(query).unsqueeze(1)
    return -((q - s) ** 2).sum(-1)


def bag(m, x):
    """Gated attention over instances."""
    h = m.enter(x)
    share = torch.softmax(m.w(torch.tanh(m.v(h)) * torch.sigmoid(m.u(h))), dim=1)
    return m.head(torch.bmm(share.transpose(2, 1), h).squeeze(1))


def chebyshev_kan(m, x):
    """KAN with Chebyshev's polynomials, by recurrence."""
    for w in (m.first, m.second):
        x = torch.tanh(x)
        t = [torch.ones_like(x), x]
        for _ in range(3):
            t.append(2 * x * t[-1] - t[-2])
        x = torch.einsum("nik,iok->no", torch.stack(t, -1), w)
    return x


def random_features(m, x):
    """A Gaussian process by random Fourier features."""
    return m.head(math.sqrt(2 / 32) * torch.cos(x @ m.turn + m.shift))


ROWS = [
    row("spline_flow", lambda: Call(splines, net=layers(6, 32, 78)), None, None),
    row("ladder", lambda: Two(ladder, up1=layers(12, 8, 8), up2=layers(8, 8, 8), q2=nn.Linear(8, 6), p1=nn.Linear(3, 8), q1=nn.Linear(11, 8), down=layers(4, 8, 12)),
        {**TABLE, "noise": Values((7,))}, None, rate=1e-3),
    row("bayesian", lambda: Two(bayesian, mean=nn.Linear(12, 8), deviation=nn.Linear(12, 8, bias=False), head=nn.Linear(8, 4)), {**TABLE, "noise": Values((8,))}),
    row("squashed_policy", lambda: Two(squashed, net=layers(12, 16, 6)), {**TABLE, "noise": Values((3,))}, Values((4,))),
    row("mixing_network", lambda: Two(mixing, agent=layers(6, 16, 4), w1=nn.Linear(12, 24), b1=nn.Linear(12, 8), w2=nn.Linear(12, 8), b2=layers(12, 8, 1)),
        {"agents": Values((3, 6)), "state": Values((12,))}, Values((1,))),
    row("unrolled_model", lambda: Two(unrolled, represent=layers(12, 16, 8), move=layers(12, 16, 8), **linears(policy=(8, 4), value=(8, 1), reward=(8, 1))),
        {**TABLE, "actions": Values((3,), below=4)}, Values((3, 6))),
    row("world_model", lambda: Two(world, cell=nn.GRUCell(16, 16), enter=nn.Linear(14, 16), post=nn.Linear(28, 12), decode=layers(28, 16, 12)),
        {"x": Values((4, 12)), "actions": Values((4, 2))}, Values((4, 12))),
    row("implicit_quantiles", lambda: Two(implicit_quantiles, body=layers(12, 16, 16), level=nn.Linear(8, 16), head=layers(16, 8, 3)), {**TABLE, "levels": Uniform((5,))}, Values((3,))),
    row("adapted", Adapted, options=("--freeze", "base.*")),
    row("tensor_train", lambda: Call(tensor_train, a=p(2, 2, 3), b=p(3, 3, 2, 3), c=p(3, 2, 2), head=nn.Linear(8, 4))),
    row("prototypes", lambda: Two(prototypes, net=layers(12, 16, 8)), {"support": Values((12, 12)), "query": Values((12,))}),
    row("gated_bag", lambda: Call(bag, enter=layers(12, 16, 8), **linears(v=(8, 8), u=(8, 8), w=(8, 1), head=(8, 2))), {"x": Values((7, 12))}, Values((), below=2)),
    row("chebyshev_kan", lambda: Call(chebyshev_kan, first=p(12, 8, 5), second=p(8, 4, 5))),
    row("random_features", lambda: Call(random_features, turn=torch.randn(12, 32), shift=torch.rand(32) * 6, head=nn.Linear(32, 4))),
]
