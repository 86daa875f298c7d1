"""Small models over words, sounds and series of a fourth sample, chosen before anything of it was run."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from row import Call, Row, Values
from small_tables import Two, layers

WIDTH, WORDS = 16, 20
SERIES = {"x": Values((8, WIDTH))}
TOKENS = {"tokens": Values((8,), below=WORDS)}
SAME_SERIES, SAME_TOKENS = Values((8, WIDTH)), Values((8,), below=WORDS)
FEW = Values((), below=4)


class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads, steps):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(steps, steps)).view(1, 1, steps, steps))

    def forward(self, x):
        n, t, c = x.size()
        q, k, v = (y.view(n, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(x).split(c, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        return self.out((F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(n, t, c))


class NanoGPT(nn.Module):
    """Words and places, two blocks, and a head that shares the words' table."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(12, WIDTH)
        self.blocks = nn.ModuleList(nn.ModuleDict({"one": nn.LayerNorm(WIDTH), "attend": CausalSelfAttention(WIDTH, 4, 12), "two": nn.LayerNorm(WIDTH),
                                                   "mlp": nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))}) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.size(1), device=tokens.device))
        for block in self.blocks:
            x = x + block["attend"](block["one"](x))
            x = x + block["mlp"](block["two"](x))
        return self.head(self.norm(x))


def deep_speech(m, x):
    """Strided convolutions over a spectrogram with hard bounds, then recurrence in both directions, whose halves are summed."""
    y = F.hardtanh(m.conv(x.unsqueeze(1)), 0, 20)
    n, c, f, t = y.shape
    y = y.view(n, c * f, t).permute(2, 0, 1).contiguous()
    y, _ = m.rnn(y)
    y = y.view(t, n, 2, -1).sum(2)
    return m.out(m.norm(y.view(t * n, -1))).view(t, n, -1).transpose(0, 1)


def transducer(m, sound, target):
    """Scores for each pair of a frame and a letter."""
    encoded, _ = m.encode(sound)
    spoken, _ = m.predict(F.pad(m.letters(target), (0, 0, 1, 0)))
    both = torch.tanh(m.a(encoded).unsqueeze(2) + m.b(spoken).unsqueeze(1))
    return m.out(both).flatten(1, 2)


def independent(m, x):
    """Each unit recurs with itself alone."""
    for enter, own in zip(m.enter, m.own):
        h, out, y = torch.zeros(x.size(0), own.size(0), dtype=x.dtype), [], enter(x)
        for t in range(x.size(1)):
            h = F.relu(y[:, t] + own.clamp(-1.0, 1.0) * h)
            out.append(h)
        x = torch.stack(out, 1)
    return m.head(x[:, -1])


def latent(m, x):
    """Keys and values from a narrow latent; one rotated key for all heads beside it."""
    n, t, _ = x.shape
    q = m.q(x).view(n, t, 2, 12).transpose(1, 2)
    q, q_turned = q.split([8, 4], dim=-1)
    both = m.down(x)
    k, v = m.up(m.norm(both[..., :8])).view(n, t, 2, 16).transpose(1, 2).split([8, 8], dim=-1)
    angle = torch.outer(torch.arange(t, dtype=torch.float32), torch.tensor([1.0, 0.01]))
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)

    def turn(y):
        a, b = y.chunk(2, -1)
        return y * cos + torch.cat([-b, a], -1) * sin
    k_turned = turn(both[..., 8:].unsqueeze(1)).expand(-1, 2, -1, -1)
    y = F.scaled_dot_product_attention(torch.cat([q, turn(q_turned)], -1), torch.cat([k, k_turned], -1), v, is_causal=True)
    return m.out(y.transpose(1, 2).reshape(n, t, 16))


def moving_average(m, x):
    """Attention whose queries and keys see an exponential average of the past."""
    t = x.size(1)
    keep = torch.sigmoid(m.keep)
    lag = (torch.arange(t)[:, None] - torch.arange(t)[None, :])
    kernel = torch.where(lag[..., None] >= 0, (1 - keep) * keep ** lag.clamp(min=0)[..., None], 0.0)
    smooth = torch.einsum("tsc,nsc->ntc", kernel, x)
    z = F.silu(m.z(smooth))
    q, k = z * m.scale[0] + m.shift[0], z * m.scale[1] + m.shift[1]
    scores = (q @ k.transpose(1, 2) / t).masked_fill(lag < 0, 0.0)
    y = F.relu(scores).square() @ F.silu(m.v(x))
    gate = torch.sigmoid(m.gate(smooth))
    return gate * m.out(y) + (1 - gate) * x


def soft_experts(m, x):
    """Each expert takes mixtures of all tokens, each token a mixture of what all experts say."""
    scores = torch.einsum("ntd,des->ntes", x, m.slots)
    dispatch, combine = scores.softmax(1), scores.flatten(2).softmax(2).view_as(scores)
    mixed = torch.einsum("ntd,ntes->nesd", x, dispatch)
    said = torch.einsum("nesh,ehd->nesd", F.gelu(torch.einsum("nesd,edh->nesh", mixed, m.first)), m.second)
    return m.out(x + torch.einsum("nesd,ntes->ntd", said, combine))


def switch_dispatch(m, x):
    """One expert a token, and for each expert places for three tokens; those beyond pass by."""
    share = m.route(x).softmax(-1)
    best, which = share.max(-1)
    chosen = F.one_hot(which, 4).to(x.dtype)
    place = (torch.cumsum(chosen, 1) - 1) * chosen
    kept = chosen * (place < 3)
    dispatch = kept.unsqueeze(-1) * F.one_hot(place.long(), 8).to(x.dtype)[..., :3]
    mixed = torch.einsum("ntec,ntd->necd", dispatch, x)
    said = torch.stack([expert(mixed[:, i]) for i, expert in enumerate(m.experts)], 1)
    return x + torch.einsum("ntec,necd->ntd", dispatch * best[..., None, None], said)


class MegaByte(nn.Module):
    """A transformer over patches of letters, and one within each."""

    def __init__(self, patch=4):
        super().__init__()
        self.patch, self.letters, self.places = patch, nn.Embedding(WORDS, 8), nn.Parameter(torch.randn(1, 3, 32) * 0.1)
        layer = dict(dim_feedforward=32, dropout=0.0, batch_first=True, norm_first=True)
        self.wide, self.narrow = nn.TransformerEncoderLayer(32, 4, **layer), nn.TransformerEncoderLayer(8, 2, **layer)
        self.start, self.out = nn.Parameter(torch.randn(1, 1, 8)), nn.Linear(8, WORDS)

    def mask(self, n):
        return nn.Transformer.generate_square_subsequent_mask(n)

    def forward(self, tokens):
        n, t = tokens.shape
        letters = self.letters(tokens).view(n, t // self.patch, self.patch, 8)
        patches = F.pad(letters.flatten(2)[:, :-1], (0, 0, 1, 0)) + self.places[:, :t // self.patch]
        y = self.wide(patches, src_mask=self.mask(t // self.patch), is_causal=True).view(-1, self.patch, 8)
        before = torch.cat([self.start.expand(y.size(0), -1, -1), letters.flatten(0, 1)[:, :-1]], 1)
        return self.out(self.narrow(y + before, src_mask=self.mask(self.patch), is_causal=True)).view(n, t, WORDS)


class Demucs(nn.Module):
    """A U-Net over a wave, with gates and a recurrent bottleneck."""

    def __init__(self):
        super().__init__()
        self.scale = 0.5
        self.down = nn.ModuleList(nn.Sequential(nn.Conv1d(a, b, 8, 4, 2), nn.ReLU(), nn.Conv1d(b, 2 * b, 1), nn.GLU(1)) for a, b in ((1, 8), (8, 16)))
        self.rnn, self.back = nn.LSTM(16, 16, 2, bidirectional=True), nn.Linear(32, 16)
        self.up = nn.ModuleList([nn.Sequential(nn.Conv1d(16, 32, 3, padding=1), nn.GLU(1), nn.ConvTranspose1d(16, 8, 8, 4, 2), nn.ReLU()),
                                 nn.Sequential(nn.Conv1d(8, 16, 3, padding=1), nn.GLU(1), nn.ConvTranspose1d(8, 1, 8, 4, 2))])

    def forward(self, x):
        size = x.std(dim=-1, keepdim=True)
        y, skips = x / (0.001 + size), []
        for down in self.down:
            y = down(y)
            skips.append(y)
        y = self.back(self.rnn(y.permute(2, 0, 1))[0]).permute(1, 2, 0)
        for up in self.up:
            y = up(y + skips.pop())
        return y * size


def multi_period(m, x):
    """Judges a wave that is folded to rows of two and of three."""
    said = []
    for period, net in zip((2, 3), m.nets):
        y = F.pad(x, (0, (period - x.shape[-1] % period) % period), mode="reflect")
        y = y.view(y.size(0), 1, y.shape[-1] // period, period)
        said.append(torch.flatten(net(y), 1))
    return torch.cat(said, 1).mean(1, keepdim=True)


class LSTNet(nn.Module):
    """Convolution and recurrence, recurrence over every fourth step, and a linear part of the last steps."""

    def __init__(self, variables=6, steps=16, skip=4):
        super().__init__()
        self.variables, self.skip, self.count = variables, skip, (steps - 3 + 1) // skip
        self.conv, self.rnn, self.rnn_skip = nn.Conv2d(1, 8, (3, variables)), nn.GRU(8, 8), nn.GRU(8, 4)
        self.out, self.linear = nn.Linear(8 + skip * 4, variables), nn.Linear(5, 1)

    def forward(self, x):
        n = x.size(0)
        c = F.relu(self.conv(x.view(-1, 1, x.size(1), self.variables))).squeeze(3)
        _, r = self.rnn(c.permute(2, 0, 1).contiguous())
        s = c[:, :, -self.count * self.skip:].contiguous().view(n, 8, self.count, self.skip)
        s = s.permute(2, 0, 3, 1).contiguous().view(self.count, n * self.skip, 8)
        _, s = self.rnn_skip(s)
        y = self.out(torch.cat([r.squeeze(0), s.view(n, self.skip * 4)], 1))
        z = self.linear(x[:, -5:, :].permute(0, 2, 1).contiguous().view(-1, 5)).view(-1, self.variables)
        return y + z


class ResidualDense(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.net, self.skip, self.norm = layers(a, 16, b), nn.Linear(a, b), nn.LayerNorm(b)

    def forward(self, x):
        return self.norm(self.net(x) + self.skip(x))


def tide(m, past, known):
    """Dense layers over the past and what is known of the future; each future step is told what is known of it again."""
    size = past.std(dim=1, keepdim=True, unbiased=False) + 1e-5
    mean = past.mean(dim=1, keepdim=True)
    y = (past - mean) / size
    features = m.features(known)
    code = m.encode(torch.cat([y, features.flatten(1)], 1))
    steps = m.decode(code).view(-1, 4, 3)
    out = m.step(torch.cat([steps, features[:, -4:]], -1)).squeeze(-1) + m.residual(y)
    return out * size + mean


class Inception(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.narrow = nn.Conv1d(a, 4, 1, bias=False)
        self.wide = nn.ModuleList(nn.Conv1d(4, 4, k, padding="same", bias=False) for k in (3, 6, 9))
        self.pooled, self.norm = nn.Sequential(nn.MaxPool1d(3, 1, 1), nn.Conv1d(a, 4, 1, bias=False)), nn.BatchNorm1d(16)

    def forward(self, x):
        y = self.narrow(x)
        return F.relu(self.norm(torch.cat([conv(y) for conv in self.wide] + [self.pooled(x)], 1)))


def inception_time(m, x):
    y = m.b(m.a(x))
    return m.head(F.relu(y + m.skip(x)).mean(-1))


def linears(**sizes):
    return {name: nn.Linear(*size) for name, size in sizes.items()}


def p(*shape):
    return nn.Parameter(torch.randn(shape) * 0.3)


def row(name, make, inputs=None, *labels, **options):
    return Row(name, "small", make, SERIES if inputs is None else inputs, *(labels or (FEW,)), **options)


def judge(size):
    return nn.Sequential(nn.Conv2d(1, 8, (5, 1), (3, 1), (2, 0)), nn.LeakyReLU(0.1), nn.Conv2d(8, 1, (3, 1), 1, (1, 0)))


ROWS = [
    row("nano_gpt", NanoGPT, TOKENS, SAME_TOKENS),
    row("deep_speech", lambda: Call(deep_speech, conv=nn.Sequential(nn.Conv2d(1, 4, (5, 3), (2, 1), (2, 1)), nn.BatchNorm2d(4)), rnn=nn.GRU(32, 8, bidirectional=True), norm=nn.BatchNorm1d(8),
                                    out=nn.Linear(8, 7, bias=False)), {"x": Values((16, 6))}, Values((6,), below=7)),
    row("transducer", lambda: Two(transducer, encode=nn.LSTM(8, 12, batch_first=True), letters=nn.Embedding(7, 8), predict=nn.LSTM(8, 12, batch_first=True),
                                  **linears(a=(12, 16), b=(12, 16), out=(16, 8))), {"sound": Values((6, 8)), "target": Values((3,), below=7)}, Values((24,), below=8)),
    row("independent_rnn", lambda: Call(independent, enter=nn.ModuleList([nn.Linear(WIDTH, 12), nn.Linear(12, 12)]), own=nn.ParameterList([p(12), p(12)]), head=nn.Linear(12, 4))),
    row("latent_attention", lambda: Call(latent, norm=nn.RMSNorm(8, eps=1e-6), **linears(q=(WIDTH, 24), down=(WIDTH, 12), up=(8, 32), out=(16, WIDTH))), None, SAME_SERIES),
    row("moving_average", lambda: Call(moving_average, keep=p(WIDTH), scale=p(2, 8), shift=p(2, 8), **linears(z=(WIDTH, 8), v=(WIDTH, 24), gate=(WIDTH, WIDTH), out=(24, WIDTH))), None,
        SAME_SERIES),
    row("soft_experts", lambda: Call(soft_experts, slots=p(WIDTH, 3, 2), first=p(3, WIDTH, 24), second=p(3, 24, WIDTH), out=nn.Linear(WIDTH, WIDTH)), None, SAME_SERIES),
    row("switch_dispatch", lambda: Call(switch_dispatch, route=nn.Linear(WIDTH, 4), experts=nn.ModuleList(layers(WIDTH, 24, WIDTH) for _ in range(4))), None, SAME_SERIES),
    row("mega_byte", MegaByte, {"tokens": Values((12,), below=WORDS)}, Values((12,), below=WORDS)),
    row("demucs", Demucs, {"x": Values((1, 64))}, Values((1, 64))),
    row("multi_period", lambda: Call(multi_period, nets=nn.ModuleList(judge(k) for k in (2, 3))), {"x": Values((1, 32))}, Values((1,))),
    row("lst_net", LSTNet, {"x": Values((16, 6))}, Values((6,))),
    row("tide", lambda: Two(tide, features=ResidualDense(3, 2), encode=ResidualDense(36, 12), decode=ResidualDense(12, 12), step=ResidualDense(5, 1), residual=nn.Linear(12, 4)),
        {"past": Values((12,)), "known": Values((12, 3))}, Values((4,))),
    row("inception_time", lambda: Call(inception_time, a=Inception(3), b=Inception(16), skip=nn.Sequential(nn.Conv1d(3, 16, 1, bias=False), nn.BatchNorm1d(16)), head=nn.Linear(16, 4)),
        {"x": Values((3, 24))}),
]
