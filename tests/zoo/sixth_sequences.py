"""Small models over words, sounds and series of a sixth sample, chosen before anything of it was exported."""
import torch
from torch import nn
from torch.nn import functional as F

from row import Call, Row, Values
from small_tables import Two, layers

WIDTH, WORDS, STEPS = 16, 20, 8
TOKENS, SOUND, SERIES = {"tokens": Values((STEPS,), below=WORDS)}, {"x": Values((12, 40))}, {"x": Values((16, 3))}
FEW, FORECAST = Values((), below=4), Values((4, 3))


def twice(make):
    return nn.ModuleList(make() for _ in range(2))


def p(*shape):
    return nn.Parameter(torch.randn(shape) * 0.3)


def row(name, make, inputs, labels, **options):
    return Row(name, "small", make, inputs, labels, **options)


def enhanced_inference(m, premise, hypothesis):
    """ESIM: two sentences read, compared word by word, read again."""
    a, b = m.read(m.words(premise))[0], m.read(m.words(hypothesis))[0]
    scores = a @ b.transpose(1, 2)
    near_a, near_b = scores.softmax(2) @ b, scores.softmax(1).transpose(1, 2) @ a
    said = []
    for own, near in ((a, near_a), (b, near_b)):
        y = m.compose(F.relu(m.narrow(torch.cat([own, near, own - near, own * near], -1))))[0]
        said += [y.mean(1), y.amax(1)]
    return m.head(torch.cat(said, 1))


def biaffine_parser(m, tokens):
    """Which word is each word's head: a product of both with a matrix between."""
    y = m.read(m.words(tokens))[0]
    head, child = F.elu(m.head(y)), F.elu(m.child(y))
    one = torch.ones_like(head[..., :1])
    return torch.einsum("nid,de,nje->nij", torch.cat([child, one], -1), m.between, head)


def spans(m, tokens):
    """Names of up to three words: each span by its ends and its length."""
    y = m.read(m.words(tokens))[0]
    said = []
    for length in range(3):
        first, last = y[:, :STEPS - length], y[:, length:]
        size = m.lengths.weight[length].expand(first.size(0), first.size(1), -1)
        said.append(m.score(torch.cat([first, last, size], -1)))
    return torch.cat(said, 1)


def attention_free(m, tokens):
    """AFT: keys weigh values by themselves and by how far away they stand, a channel at a time."""
    x = m.words(tokens)
    for q, k, v, out, far in zip(m.q, m.k, m.v, m.out, m.far):
        weight = torch.exp(k(x) - k(x).amax(1, keepdim=True).detach())
        near = torch.exp(torch.tril(far)) * torch.tril(torch.ones(STEPS, STEPS))
        x = x + out(torch.sigmoid(q(x)) * (near @ (weight * v(x))) / (near @ weight))
    return m.head(x)


def synthesizer(m, tokens):
    """Scores that a perceptron makes of each word, without looking at others."""
    x = m.words(tokens)
    for score, value, norm in zip(m.score, m.value, m.norm):
        share = score(x).masked_fill(torch.ones(STEPS, STEPS).triu(1).bool(), float("-inf")).softmax(-1)
        x = norm(x + share @ value(x))
    return m.head(x)


def cosine_attention(m, tokens):
    """cosFormer: positive features, turned by where they stand, without a softmax."""
    x = m.words(tokens)
    q, k, v = m.qkv(x).chunk(3, -1)
    angle = torch.pi / 2 * torch.arange(1, STEPS + 1) / STEPS
    turn = torch.stack([angle.sin(), angle.cos()], -1)
    q, k = (torch.einsum("ntd,ts->ntds", F.relu(y), turn).flatten(2) for y in (q, k))
    state = torch.einsum("ntd,nte->ntde", k, v).cumsum(1)
    total = torch.einsum("ntd,ntd->nt", q, k.cumsum(1)).clamp(min=1e-3)
    return m.head(x + torch.einsum("ntd,ntde->nte", q, state) / total.unsqueeze(-1))


def gated_transformer(m, x):
    """GTrXL: a gate of a recurrent unit in the place of each addition."""
    mask = torch.full((STEPS, STEPS), float("-inf")).triu(1)
    for norms, attend, wide, gates in zip(m.norms, m.attend, m.wide, m.gates):
        for norm, gate, part in zip(norms, gates, (lambda y: attend(y, y, y, attn_mask=mask, need_weights=False)[0], wide)):
            y = F.relu(part(norm(x)))
            z, r = torch.sigmoid(gate[0](torch.cat([x, y], -1)) - torch.tensor([2.0, 0.0]).repeat_interleave(WIDTH)).chunk(2, -1)
            x = (1 - z) * x + z * torch.tanh(gate[1](torch.cat([r * x, y], -1)))
    return m.head(x)


def hungry_hippos(m, tokens):
    """H3: a shifting and a decaying state space between products."""
    x = m.words(tokens)
    q, k, v = m.qkv(x).chunk(3, -1)
    k = m.shift(F.pad(k.transpose(1, 2), (3, 0))).transpose(1, 2)
    steps = torch.arange(STEPS)
    kernel = (m.c * torch.exp(-F.softplus(m.decay).unsqueeze(-1) * steps)).sum(1)
    y = F.pad((k * v).transpose(1, 2), (STEPS - 1, 0))
    y = F.conv1d(y, kernel.flip(-1).unsqueeze(1), groups=WIDTH).transpose(1, 2)
    return m.head(m.norm(x + m.out(q * y)))


def expert_choice(m, x):
    """Experts pick the words of a line, a word may have several or none."""
    scores = m.router(x).softmax(-1)
    weight, which = scores.transpose(1, 2).topk(3, -1)
    picked = x.unsqueeze(1).expand(-1, 4, -1, -1).gather(2, which.unsqueeze(-1).expand(-1, -1, -1, WIDTH))
    y = F.gelu(torch.einsum("nekd,edh->nekh", picked, m.up))
    y = torch.einsum("nekh,ehd->nekd", y, m.down) * weight.unsqueeze(-1)
    back = torch.zeros_like(x).scatter_add(1, which.flatten(1).unsqueeze(-1).expand(-1, -1, WIDTH), y.flatten(1, 2))
    return m.head((x + back).mean(1))


class Attended(nn.Module):
    """Tacotron's decoder: attention that knows where it looked before."""

    def __init__(self):
        super().__init__()
        self.words, self.read = nn.Embedding(WORDS, WIDTH), nn.LSTM(WIDTH, 8, batch_first=True, bidirectional=True)
        self.before, self.cell = nn.Sequential(nn.Linear(6, 12), nn.ReLU()), nn.LSTMCell(12 + WIDTH, 20)
        self.query, self.key, self.where = nn.Linear(20, 10), nn.Linear(WIDTH, 10), nn.Conv1d(2, 10, 3, padding=1)
        self.score, self.frame = nn.Linear(10, 1), nn.Linear(20 + WIDTH, 6)

    def forward(self, tokens, frames):
        seen = self.read(self.words(tokens))[0]
        key, n = self.key(seen), tokens.size(0)
        h = c = torch.zeros(n, 20)
        context, last, total, out = torch.zeros(n, WIDTH), torch.zeros(n, STEPS), torch.zeros(n, STEPS), []
        for t in range(5):
            h, c = self.cell(torch.cat([self.before(frames[:, t]), context], 1), (h, c))
            where = self.where(torch.stack([last, total], 1)).transpose(1, 2)
            last = self.score(torch.tanh(self.query(h).unsqueeze(1) + key + where)).squeeze(-1).softmax(-1)
            total = total + last
            context = (last.unsqueeze(-1) * seen).sum(1)
            out.append(self.frame(torch.cat([h, context], 1)))
        return torch.stack(out, 1)


class DualPath(nn.Module):
    """DPRNN: recurrence within pieces of a sound, then across them."""

    def __init__(self):
        super().__init__()
        self.enter, self.norm = nn.Conv1d(12, WIDTH, 1), nn.GroupNorm(1, WIDTH)
        self.within, self.across = twice(lambda: nn.LSTM(WIDTH, 8, batch_first=True, bidirectional=True)), twice(lambda: nn.LSTM(WIDTH, WIDTH, batch_first=True))
        self.mask = nn.Conv1d(WIDTH, 24, 1)

    def forward(self, x):
        y = self.norm(self.enter(x)).unflatten(2, (5, 8)).permute(0, 2, 3, 1)
        n = x.size(0)
        for within, across in zip(self.within, self.across):
            y = y + within(y.reshape(n * 5, 8, WIDTH))[0].reshape(n, 5, 8, WIDTH)
            z = across(y.transpose(1, 2).reshape(n * 8, 5, WIDTH))[0]
            y = y + z.reshape(n, 8, 5, WIDTH).transpose(1, 2)
        masks = torch.sigmoid(self.mask(y.permute(0, 3, 1, 2).flatten(2))).unflatten(1, (2, 12))
        return masks * x.unsqueeze(1)


def quartz(m, x):
    """Time and channels apart, with batch normalization, repeated, around a residual."""
    y = m.enter(x)
    for block, skip in zip(m.blocks, m.skips):
        y = F.relu(block(y) + skip(y))
    return m.head(y).transpose(1, 2)


def separable(width):
    return nn.Sequential(nn.Conv1d(width, width, 5, padding=2, groups=width, bias=False), nn.Conv1d(width, width, 1, bias=False), nn.BatchNorm1d(width))


def energy_normalized(m, x):
    """LEAF's front end: a smoothed energy divides each channel, by exponents and a pace that are learned."""
    energy = F.softplus(m.filters(x))
    pace, smooth, kept = torch.sigmoid(m.pace), energy[:, :, 0], []
    for t in range(energy.size(2)):
        smooth = (1 - pace) * smooth + pace * energy[:, :, t]
        kept.append(smooth)
    alpha, delta, root = (y.exp().unsqueeze(-1) for y in (m.alpha, m.delta, m.root))
    y = (energy / (1e-3 + torch.stack(kept, 2)) ** alpha.clamp(max=1.0) + delta) ** root - delta ** root
    return m.head(m.read(y).mean(2))


class Judges(nn.Module):
    """HiFi-GAN's judges: a sound folded by several periods, least squares over all they say."""

    def __init__(self):
        super().__init__()
        self.judges = nn.ModuleList(nn.Sequential(nn.Conv2d(1, 8, (3, 1), (2, 1), (1, 0)), nn.LeakyReLU(0.1), nn.Conv2d(8, 8, (3, 1), (2, 1), (1, 0)), nn.LeakyReLU(0.1),
                                                  nn.Conv2d(8, 1, (3, 1), 1, (1, 0))) for _ in range(3))

    def forward(self, real, fake):
        loss = 0.0
        for period, judge in zip((2, 3, 5), self.judges):
            folded = [F.pad(x, (0, -x.size(-1) % period), mode="reflect").unflatten(-1, (-1, period)) for x in (real, fake)]
            loss = loss + ((1 - judge(folded[0])) ** 2).mean() + (judge(folded[1]) ** 2).mean()
        return loss


class Interacting(nn.Module):
    """SCINet's: even and odd steps, each corrected by what the other says, two levels deep."""

    def __init__(self, level):
        super().__init__()
        self.parts = nn.ModuleList(nn.Sequential(nn.ReplicationPad1d(1), nn.Conv1d(3, 6, 2), nn.LeakyReLU(0.01), nn.Conv1d(6, 3, 2), nn.Tanh()) for _ in range(4))
        self.deeper = twice(lambda: Interacting(level - 1)) if level else None

    def forward(self, x):
        even, odd = x[:, :, ::2], x[:, :, 1::2]
        up, down = odd * self.parts[0](even).exp(), even * self.parts[1](odd).exp()
        even, odd = down + self.parts[2](up), up - self.parts[3](down)
        if self.deeper is not None:
            even, odd = self.deeper[0](even), self.deeper[1](odd)
        return torch.stack([even, odd], 3).flatten(2)


def split_series(m, x):
    return m.head(m.tree(x.transpose(1, 2)) + x.transpose(1, 2)).transpose(1, 2)


def time_mixer(m, x):
    """Seasons mixed from fine to coarse, trends from coarse to fine, a forecast of each scale."""
    scales = [x.transpose(1, 2)]
    for _ in range(2):
        scales.append(F.avg_pool1d(scales[-1], 2))
    trends = [F.avg_pool1d(F.pad(s, (2, 2), mode="replicate"), 5, 1) for s in scales]
    seasons = [s - t for s, t in zip(scales, trends)]
    for i in range(2):
        seasons[i + 1] = seasons[i + 1] + m.down[i](seasons[i])
        trends[1 - i] = trends[1 - i] + m.up[1 - i](trends[2 - i])
    return sum(head(s + t) for head, s, t in zip(m.heads, seasons, trends)).transpose(1, 2)


def frequencies(m, x):
    """FEDformer's: a few frequencies of a series, weighted by matrices of their own, by sines instead of an FFT."""
    y = m.enter(x)
    angle = 2 * torch.pi * torch.outer(torch.arange(5), torch.arange(16)) / 16
    real, imaginary = torch.einsum("ft,ntd->nfd", angle.cos(), y), -torch.einsum("ft,ntd->nfd", angle.sin(), y)
    a = torch.einsum("nfd,fde->nfe", real, m.real) - torch.einsum("nfd,fde->nfe", imaginary, m.imaginary)
    b = torch.einsum("nfd,fde->nfe", real, m.imaginary) + torch.einsum("nfd,fde->nfe", imaginary, m.real)
    y = y + (torch.einsum("ft,nfd->ntd", angle.cos(), a) - torch.einsum("ft,nfd->ntd", angle.sin(), b)) / 8
    return m.head(y.transpose(1, 2)).transpose(1, 2)


def smoothing(m, x):
    """ES-RNN: a level smoothed with a learned pace, a network over what is left, undone in the forecast."""
    x, pace = x.exp(), torch.sigmoid(m.pace)
    level, levels = x[:, 0], []
    for t in range(16):
        level = pace * x[:, t] + (1 - pace) * level
        levels.append(level)
    y = m.read(torch.log(x / torch.stack(levels, 1)))[0][:, -1]
    return torch.log(level.unsqueeze(1) * m.head(y).unflatten(1, (4, 3)).exp())


LINE = {"x": Values((STEPS, WIDTH))}
ROWS = [
    row("enhanced_inference", lambda: Two(enhanced_inference, words=nn.Embedding(WORDS, WIDTH), read=nn.LSTM(WIDTH, 8, batch_first=True, bidirectional=True), narrow=nn.Linear(64, WIDTH),
                                          compose=nn.LSTM(WIDTH, 8, batch_first=True, bidirectional=True), head=layers(64, 16, 3, act=nn.Tanh)),
        {"premise": Values((STEPS,), below=WORDS), "hypothesis": Values((6,), below=WORDS)}, Values((), below=3)),
    row("biaffine_parser", lambda: Call(biaffine_parser, words=nn.Embedding(WORDS, WIDTH), read=nn.LSTM(WIDTH, 8, num_layers=2, batch_first=True, bidirectional=True),
                                        head=nn.Linear(WIDTH, 8), child=nn.Linear(WIDTH, 8), between=p(9, 8)), TOKENS, Values((STEPS,), below=STEPS), class_axis=2),
    row("spans", lambda: Call(spans, words=nn.Embedding(WORDS, WIDTH), read=nn.GRU(WIDTH, 8, batch_first=True, bidirectional=True), lengths=nn.Embedding(3, 4),
                              score=layers(36, 16, 5)), TOKENS, Values((21,), below=5)),
    row("attention_free", lambda: Call(attention_free, words=nn.Embedding(WORDS, WIDTH), **{k: twice(lambda: nn.Linear(WIDTH, WIDTH)) for k in ("q", "k", "v", "out")},
                                       far=nn.ParameterList(p(STEPS, STEPS) for _ in range(2)), head=nn.Linear(WIDTH, WORDS)), TOKENS, Values((STEPS,), below=WORDS)),
    row("synthesizer", lambda: Call(synthesizer, words=nn.Embedding(WORDS, WIDTH), score=twice(lambda: layers(WIDTH, 12, STEPS)), value=twice(lambda: nn.Linear(WIDTH, WIDTH)),
                                    norm=twice(lambda: nn.LayerNorm(WIDTH)), head=nn.Linear(WIDTH, WORDS)), TOKENS, Values((STEPS,), below=WORDS)),
    row("cosine_attention", lambda: Call(cosine_attention, words=nn.Embedding(WORDS, WIDTH), qkv=nn.Linear(WIDTH, 3 * WIDTH), head=nn.Linear(WIDTH, WORDS)), TOKENS,
        Values((STEPS,), below=WORDS)),
    row("gated_transformer", lambda: Call(gated_transformer, norms=twice(lambda: twice(lambda: nn.LayerNorm(WIDTH))), attend=twice(lambda: nn.MultiheadAttention(WIDTH, 2, batch_first=True)),
                                          wide=twice(lambda: layers(WIDTH, 32, WIDTH)), gates=twice(lambda: twice(lambda: nn.ModuleList([nn.Linear(32, 32), nn.Linear(32, WIDTH)]))),
                                          head=nn.Linear(WIDTH, 4)), LINE, Values((STEPS,), below=4)),
    row("hungry_hippos", lambda: Call(hungry_hippos, words=nn.Embedding(WORDS, WIDTH), qkv=nn.Linear(WIDTH, 3 * WIDTH), shift=nn.Conv1d(WIDTH, WIDTH, 4, groups=WIDTH), c=p(WIDTH, 4, 1),
                                      decay=p(WIDTH, 4), norm=nn.LayerNorm(WIDTH), out=nn.Linear(WIDTH, WIDTH), head=nn.Linear(WIDTH, WORDS)), TOKENS, Values((STEPS,), below=WORDS)),
    row("expert_choice", lambda: Call(expert_choice, router=nn.Linear(WIDTH, 4), up=p(4, WIDTH, 24), down=p(4, 24, WIDTH), head=nn.Linear(WIDTH, 4)), LINE, FEW),
    row("location_attention", Attended, {"tokens": Values((STEPS,), below=WORDS), "frames": Values((5, 6))}, Values((5, 6))),
    row("dual_path", DualPath, SOUND, Values((2, 12, 40))),
    row("quartz_net", lambda: Call(quartz, enter=nn.Conv1d(12, WIDTH, 5, stride=2, padding=2), blocks=twice(lambda: nn.Sequential(separable(WIDTH), nn.ReLU(), separable(WIDTH))),
                                   skips=twice(lambda: nn.Sequential(nn.Conv1d(WIDTH, WIDTH, 1, bias=False), nn.BatchNorm1d(WIDTH))), head=nn.Conv1d(WIDTH, 9, 1)), SOUND,
        Values((20,), below=9)),
    row("energy_normalized", lambda: Call(energy_normalized, filters=nn.Conv1d(12, 8, 5, stride=2), pace=p(8), alpha=p(8), delta=p(8), root=p(8), read=nn.Conv1d(8, 12, 3),
                                          head=nn.Linear(12, 4)), SOUND, FEW),
    row("period_judges", Judges, {"real": Values((1, 32)), "fake": Values((1, 32))}, None),
    row("split_series", lambda: Call(split_series, tree=Interacting(1), head=nn.Linear(16, 4)), SERIES, FORECAST),
    row("time_mixer", lambda: Call(time_mixer, down=nn.ModuleList([layers(16, 8, 8, act=nn.GELU), layers(8, 4, 4, act=nn.GELU)]),
                                   up=nn.ModuleList([layers(8, 16, 16, act=nn.GELU), layers(4, 8, 8, act=nn.GELU)]), heads=nn.ModuleList(nn.Linear(k, 4) for k in (16, 8, 4))), SERIES, FORECAST),
    row("frequency_mixing", lambda: Call(frequencies, enter=nn.Linear(3, 3), real=p(5, 3, 3), imaginary=p(5, 3, 3), head=nn.Linear(16, 4)), SERIES, FORECAST),
    row("smoothing_rnn", lambda: Call(smoothing, pace=p(3), read=nn.GRU(3, 12, batch_first=True), head=nn.Linear(12, 12)), SERIES, FORECAST),
]
