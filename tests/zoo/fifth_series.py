"""Small models over sounds, words, series and tables of a fifth sample, chosen before anything of it was run."""
import torch
from torch import nn
from torch.nn import functional as F

from row import Call, Row, Values
from small_tables import layers

WIDTH, WORDS = 16, 20
SOUND, TOKENS, TABLE = {"x": Values((12, 40))}, {"tokens": Values((8,), below=WORDS)}, {"x": Values((12,))}
FEW = Values((), below=4)


class Res2Block(nn.Module):
    """ECAPA-TDNN's: a chain of dilated convolutions over parts of the channels, and a gate from the mean."""

    def __init__(self, width, dilation):
        super().__init__()
        self.enter, self.leave = (nn.Sequential(nn.Conv1d(width, width, 1), nn.ReLU(), nn.BatchNorm1d(width)) for _ in range(2))
        self.chain = nn.ModuleList(nn.Sequential(nn.Conv1d(width // 4, width // 4, 3, padding=dilation, dilation=dilation), nn.ReLU(), nn.BatchNorm1d(width // 4)) for _ in range(3))
        self.gate = nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Conv1d(width, 4, 1), nn.ReLU(), nn.Conv1d(4, width, 1), nn.Sigmoid())

    def forward(self, x):
        parts = list(self.enter(x).chunk(4, 1))
        y = [parts[0]]
        for conv, part in zip(self.chain, parts[1:]):
            y.append(conv(part + y[-1] if len(y) > 1 else part))
        y = self.leave(torch.cat(y, 1))
        return x + y * self.gate(y)


class Ecapa(nn.Module):
    """Speakers: three such blocks joined, means and deviations weighted by attention that sees the whole's."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Sequential(nn.Conv1d(12, WIDTH, 5, padding=2), nn.ReLU(), nn.BatchNorm1d(WIDTH))
        self.blocks = nn.ModuleList(Res2Block(WIDTH, d) for d in (2, 3, 4))
        self.joined = nn.Conv1d(3 * WIDTH, 24, 1)
        self.attend = nn.Sequential(nn.Conv1d(72, 8, 1), nn.ReLU(), nn.BatchNorm1d(8), nn.Tanh(), nn.Conv1d(8, 24, 1))
        self.norm, self.head = nn.BatchNorm1d(48), nn.Linear(48, 4)

    def forward(self, x):
        x, outs = self.enter(x), []
        for block in self.blocks:
            x = block(x)
            outs.append(x)
        y = F.relu(self.joined(torch.cat(outs, 1)))
        mean, deviation = y.mean(2, keepdim=True), torch.sqrt(y.var(2, keepdim=True) + 1e-4)
        share = self.attend(torch.cat([y, mean.expand_as(y), deviation.expand_as(y)], 1)).softmax(2)
        mean = (y * share).sum(2)
        deviation = torch.sqrt(((y * y * share).sum(2) - mean * mean).clamp(min=1e-4))
        return self.head(self.norm(torch.cat([mean, deviation], 1)))


def sound_events(m, x):
    """Frames' probabilities by convolutions and recurrence; those of a clip are weighted by themselves."""
    y = m.conv(x.unsqueeze(1))
    n, c, f, t = y.shape
    y, _ = m.rnn(y.permute(0, 3, 1, 2).reshape(n, t, c * f))
    p = torch.sigmoid(m.head(y)).clamp(1e-7, 1.0)
    return (p * p).sum(1) / p.sum(1)


class WaveUNet(nn.Module):
    """Halves by dropping every second sample, doubles by interpolation, with what was there joined."""

    def __init__(self):
        super().__init__()
        widths = (12, 16, 20, 24)
        self.down = nn.ModuleList(nn.Conv1d(a, b, 5, padding=2) for a, b in zip(widths, widths[1:]))
        self.middle = nn.Conv1d(24, 24, 5, padding=2)
        self.up = nn.ModuleList(nn.Conv1d(a + b, b, 5, padding=2) for a, b in ((24, 24), (24, 20), (20, 16)))
        self.out = nn.Conv1d(28, 12, 1)

    def forward(self, x):
        y, kept = x, []
        for conv in self.down:
            y = F.leaky_relu(conv(y), 0.1)
            kept.append(y)
            y = y[:, :, ::2]
        y = F.leaky_relu(self.middle(y), 0.1)
        for conv, other in zip(self.up, reversed(kept)):
            y = F.interpolate(y, scale_factor=2, mode="linear", align_corners=True)
            y = F.leaky_relu(conv(torch.cat([y, other], 1)), 0.1)
        return torch.tanh(self.out(torch.cat([y, x], 1)))


class NormalizedBlock(nn.Module):
    """nGPT's: matrices of unit rows, and steps on the sphere of learned sizes."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 64, bias=False), nn.Linear(32, WIDTH, bias=False)
        self.step_a, self.step_m = nn.Parameter(torch.full((WIDTH,), 0.2)), nn.Parameter(torch.full((WIDTH,), 0.2))
        self.scale = nn.Parameter(torch.ones(2, 1, 8))

    def forward(self, x):
        n, t, _ = x.shape

        def heads(layer):
            return F.linear(x, F.normalize(layer.weight, dim=1)).view(n, t, 2, 8).transpose(1, 2)

        q, k = (F.normalize(y, dim=-1) * self.scale for y in (heads(self.q), heads(self.k)))
        y = F.scaled_dot_product_attention(q, k, heads(self.v), is_causal=True, scale=8 ** 0.5).transpose(1, 2).reshape(n, t, WIDTH)
        y = F.normalize(F.linear(y, F.normalize(self.o.weight, dim=0)), dim=-1)
        x = F.normalize(x + self.step_a * (y - x), dim=-1)
        u, gate = F.linear(x, F.normalize(self.up.weight, dim=1)).chunk(2, -1)
        y = F.normalize(F.linear(u * F.silu(gate), F.normalize(self.down.weight, dim=0)), dim=-1)
        return F.normalize(x + self.step_m * (y - x), dim=-1)


def normalized_gpt(m, tokens):
    x = F.normalize(m.words(tokens), dim=-1)
    for block in m.blocks:
        x = block(x)
    return m.sharpness * m.head(x)


def test_time_training(m, x):
    """TTT-linear: the state is a matrix that takes a step of gradient descent for each token."""
    k, v, q, rate = m.k(x), m.v(x), m.q(x), torch.sigmoid(m.rate(x))
    w, out = m.start.expand(x.size(0), -1, -1), []
    for t in range(x.size(1)):
        error = torch.einsum("nij,nj->ni", w, k[:, t]) - v[:, t]
        w = w - rate[:, t].unsqueeze(-1) * error.unsqueeze(2) * k[:, t].unsqueeze(1)
        out.append(torch.einsum("nij,nj->ni", w, q[:, t]))
    return m.head(m.norm(torch.stack(out, 1)) + x)


def hierarchical_gates(m, x):
    """HGRN: each layer's forget gates stay above a bound that grows with depth."""
    bounds = m.bounds.softmax(0).cumsum(0)
    bounds = bounds - bounds[:1]
    for bound, enter, gate, out in zip(bounds, m.enter, m.gate, m.out):
        f = bound + (1 - bound) * torch.sigmoid(gate(x))
        y, h, hs = F.silu(enter(x)), torch.zeros(x.size(0), WIDTH), []
        for t in range(x.size(1)):
            h = f[:, t] * h + (1 - f[:, t]) * y[:, t]
            hs.append(h)
        x = x + out(torch.stack(hs, 1))
    return m.head(x[:, -1])


def non_stationary(m, x):
    """Attention over a normalized series, with the scale and the shift of its scores learned from what was taken out."""
    mean, scale = x.mean(1, keepdim=True), torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
    y = m.enter((x - mean) / scale)
    tau = m.tau(torch.cat([x.flatten(1), scale.flatten(1)], 1)).exp().unsqueeze(-1)
    delta = m.delta(torch.cat([x.flatten(1), mean.flatten(1)], 1)).unsqueeze(1)
    q, k, v = m.qkv(y).chunk(3, -1)
    y = m.norm(y + ((q @ k.transpose(1, 2) * tau + delta) / 4).softmax(-1) @ v)
    return m.head(y.transpose(1, 2)).transpose(1, 2) * scale + mean


def batch_ensemble(m, x):
    """Four members that share matrices and have vectors of their own; the mean of what they say."""
    x = x.unsqueeze(1).expand(-1, 4, -1)
    for r, layer, s, bias in zip(m.r, m.layers, m.s, m.biases):
        x = F.relu(layer(x * r) * s + bias)
    return m.head(x).mean(1)


def gated_tabular(m, x):
    """GANDALF: stages that pick features by sparse shares of learned logits."""
    h, state = x, x
    for logits, gate, update in zip(m.masks, m.gates, m.updates):
        share = F.relu(logits.softmax(-1) - 0.02)
        picked = torch.cat([share * x, state], -1)
        z, r = torch.sigmoid(gate(picked)).chunk(2, -1)
        h = torch.tanh(update(torch.cat([r * state, share * x], -1)))
        state = (1 - z) * state + z * h
    return m.head(state)


def p(*shape):
    return nn.Parameter(torch.randn(shape) * 0.3)


def row(name, make, inputs, labels, **options):
    return Row(name, "small", make, inputs, labels, **options)


def twice(make):
    return nn.ModuleList(make() for _ in range(2))


def vectors(*shapes):
    return nn.ParameterList(p(*s) for s in shapes)


ROWS = [
    row("ecapa_tdnn", Ecapa, SOUND, FEW),
    row("sound_events", lambda: Call(sound_events, conv=nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.GLU(1), nn.AvgPool2d((2, 2))),
                                    rnn=nn.GRU(24, 8, batch_first=True, bidirectional=True), head=nn.Linear(16, 5)), SOUND, Values((5,))),
    row("wave_u_net", WaveUNet, SOUND, Values((12, 40))),
    row("normalized_gpt", lambda: Call(normalized_gpt, words=nn.Embedding(WORDS, WIDTH), blocks=twice(NormalizedBlock), head=nn.Linear(WIDTH, WORDS, bias=False), sharpness=p(WORDS)),
        TOKENS, Values((8,), below=WORDS)),
    row("test_time_training", lambda: Call(test_time_training, k=nn.Linear(WIDTH, 8), v=nn.Linear(WIDTH, WIDTH), q=nn.Linear(WIDTH, 8), rate=nn.Linear(WIDTH, 1), start=p(1, WIDTH, 8),
                                          norm=nn.LayerNorm(WIDTH), head=nn.Linear(WIDTH, 5)), {"x": Values((6, WIDTH))}, Values((6,), below=5)),
    row("hierarchical_gates", lambda: Call(hierarchical_gates, bounds=p(3, WIDTH), enter=nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3)),
                                          gate=nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3)), out=nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3)),
                                          head=nn.Linear(WIDTH, 4)), {"x": Values((6, WIDTH))}, FEW),
    row("non_stationary", lambda: Call(non_stationary, enter=nn.Linear(3, 3), qkv=nn.Linear(3, 9), norm=nn.LayerNorm(3), tau=layers(27, 16, 1), delta=layers(27, 16, 8), head=nn.Linear(8, 4)),
        {"x": Values((8, 3))}, Values((4, 3))),
    row("batch_ensemble", lambda: Call(batch_ensemble, r=vectors((4, 12), (4, 16)), s=vectors((4, 16), (4, 16)), biases=vectors((4, 16), (4, 16)),
                                      layers=nn.ModuleList([nn.Linear(12, 16, bias=False), nn.Linear(16, 16, bias=False)]), head=nn.Linear(16, 4)), TABLE, FEW),
    row("gated_tabular", lambda: Call(gated_tabular, masks=vectors((12,), (12,)), gates=twice(lambda: nn.Linear(24, 24)), updates=twice(lambda: nn.Linear(24, 12)),
                                     head=nn.Linear(12, 4)), TABLE, FEW),
]
