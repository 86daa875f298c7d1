"""Small models over sequences and text of a third sample, chosen before anything of it was run."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from row import Call, Row, Values
from small_tables import Two, each, layers
from third_images import FEW, p

STEPS, WIDTH, WORDS = 12, 16, 31
SERIES, TOKENS = {"x": Values((STEPS, WIDTH))}, {"tokens": Values((STEPS,), below=WORDS)}
SAME_SERIES, SAME_TOKENS = Values((STEPS, WIDTH)), Values((STEPS,), below=WORDS)
SENTENCES = {"first": Values((8,), below=WORDS), "second": Values((7,), below=WORDS)}


def linears(**sizes):
    return {name: nn.Linear(*size) for name, size in sizes.items()}


def heads_of(x, heads=2):
    n, t, c = x.shape
    return x.view(n, t, heads, c // heads).transpose(1, 2)


def joined(x):
    n, h, t, c = x.shape
    return x.transpose(1, 2).contiguous().view(n, t, h * c)


class RootMeanSquare(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def transformer_xl(m, x):
    """Scores of distances, shifted by a pad and a view."""
    q, k, v = (heads_of(t) for t in m.qkv(x).chunk(3, -1))
    rate = 1 / 10000 ** (torch.arange(0, WIDTH, 2.0) / WIDTH)
    angle = torch.arange(STEPS - 1, -1, -1.0)[:, None] * rate
    r = heads_of(m.r(torch.cat([angle.sin(), angle.cos()], -1)).unsqueeze(0))
    content = (q + m.u[None, :, None]) @ k.transpose(-2, -1)
    place = (q + m.v[None, :, None]) @ r.transpose(-2, -1)
    n, h, t, s = place.shape
    place = F.pad(place, (1, 0)).view(n, h, s + 1, t)[:, :, 1:].reshape(n, h, t, s)
    score = (content + place) / math.sqrt(WIDTH // 2)
    score = score.masked_fill(torch.triu(torch.ones(t, s), 1).bool(), float("-inf"))
    return m.norm(x + m.out(joined(F.softmax(score, -1) @ v)))


def rotary_complex(m, tokens):
    """Places as turns of complex numbers, as Llama's authors wrote it."""
    x = m.words(tokens)
    n, t, _ = x.shape
    h = m.first(x)
    q, k, v = m.q(h).view(n, t, 2, 8), m.k(h).view(n, t, 2, 8), m.v(h).view(n, t, 2, 8)
    rates = 1.0 / (10000.0 ** (torch.arange(0, 8, 2)[:4].float() / 8))
    angles = torch.outer(torch.arange(t).float(), rates)
    turns = torch.polar(torch.ones_like(angles), angles).view(1, t, 1, 4)
    q = torch.view_as_real(torch.view_as_complex(q.reshape(n, t, 2, 4, 2)) * turns).flatten(3)
    k = torch.view_as_real(torch.view_as_complex(k.reshape(n, t, 2, 4, 2)) * turns).flatten(3)
    y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
    x = x + m.o(joined(y))
    h = m.second(x)
    x = x + m.down(F.silu(m.gate(h)) * m.up(h))
    return m.out(m.last(x))


def rotary_halves(m, x):
    """Half of each head turned, keys of one head shared by all queries."""
    n, t, _ = x.shape
    q, k, v = m.q(x).view(n, t, 4, 4).transpose(1, 2), m.k(x).unsqueeze(1), m.v(x).unsqueeze(1)
    angle = torch.outer(torch.arange(t).float(), m.rates)
    angle = torch.cat([angle, angle], -1)
    turn = lambda z: z * angle.cos() + torch.cat([-z[..., 2:], z[..., :2]], -1) * angle.sin()
    causal = torch.full((t, t), float("-inf")).triu(1)
    return m.out(joined(torch.softmax(turn(q) @ turn(k).transpose(2, 3) * 0.5 + causal, -1) @ v))


def state_space_dual(m, x):
    """Mamba 2: decays as sums along segments, one product for all steps."""
    n, t, _ = x.shape
    z, u, b, c, step = m.enter(x).split([16, 16, 4, 4, 2], -1)
    u = F.silu(m.conv(F.pad(u.transpose(1, 2), (3, 0))).transpose(1, 2))
    step = F.softplus(step + m.bias)
    a = (-torch.exp(m.a) * step).transpose(1, 2)
    total = torch.cumsum(a, -1)
    segments = (total[..., :, None] - total[..., None, :]).masked_fill(~torch.tril(torch.ones(t, t, dtype=torch.bool)), -torch.inf)
    score = torch.einsum("bls,bts->blt", c, b)[:, None] * torch.exp(segments)
    y = torch.einsum("bhlt,bth,bthp->blhp", score, step, u.view(n, t, 2, 8)) + m.skip[:, None] * u.view(n, t, 2, 8)
    return m.out(m.norm(y.reshape(n, t, 16) * F.silu(z)))


def receptance(m, x):
    """RWKV's mixing of time, in logarithms, and of channels."""
    before = F.pad(x, (0, 0, 1, -1))
    k, v, r = m.k(x * m.mix_k + before * (1 - m.mix_k)), m.v(x * m.mix_v + before * (1 - m.mix_v)), torch.sigmoid(m.r(x * m.mix_r + before * (1 - m.mix_r)))
    a, b, top, out = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), torch.full_like(k[:, 0], -1e38), []
    for i in range(STEPS):
        q = torch.maximum(top, m.first + k[:, i])
        e, f = torch.exp(top - q), torch.exp(m.first + k[:, i] - q)
        out.append((e * a + f * v[:, i]) / (e * b + f))
        q = torch.maximum(top + m.decay, k[:, i])
        e, f = torch.exp(top + m.decay - q), torch.exp(k[:, i] - q)
        a, b, top = e * a + f * v[:, i], e * b + f, q
    return m.out(r * torch.stack(out, 1))


def gated_linear(m, x):
    """Linear attention whose gates forget, step by step."""
    n = x.shape[0]
    q, k, v = (t.view(n, STEPS, 2, 8) for t in m.qkv(x).chunk(3, -1))
    g = torch.exp(F.logsigmoid(m.gate(x)).view(n, STEPS, 2, 8) / 16)
    state, out = torch.zeros(n, 2, 8, 8), []
    for i in range(STEPS):
        state = state * g[:, i].unsqueeze(-1) + k[:, i].unsqueeze(-1) * v[:, i].unsqueeze(-2)
        out.append((q[:, i].unsqueeze(-2) @ state).squeeze(-2))
    return m.out(m.norm(torch.stack(out, 1)).flatten(2) * F.silu(m.o(x)))


def nearest_memory(m, x):
    """Each step reads the three keys of a table that are nearest."""
    q = F.normalize(m.q(x), dim=-1)
    score, at = (q @ F.normalize(m.keys, dim=-1).t()).topk(3, dim=-1)
    return x + m.out((F.softmax(score * 4, -1).unsqueeze(-1) * m.values[at]).sum(-2))


def coverage(m, tokens, target):
    """A summarizer: attention that knows what it has attended to."""
    memory, state = m.encoder(m.words(tokens))
    h, seen, out = state[0], torch.zeros(tokens.shape[0], STEPS), []
    for i in range(5):
        h = m.cell(m.words(target[:, i]), h)
        score = m.score(torch.tanh(m.memory(memory) + m.state(h).unsqueeze(1) + m.seen(seen.unsqueeze(2)))).squeeze(2)
        share = torch.softmax(score, 1)
        seen = seen + share
        context = torch.bmm(share.unsqueeze(1), memory).squeeze(1)
        copy = torch.zeros(tokens.shape[0], WORDS).scatter_add(1, tokens, share)
        gate = torch.sigmoid(m.gate(torch.cat([h, context], 1)))
        out.append(torch.log(gate * torch.softmax(m.out(torch.cat([h, context], 1)), 1) + (1 - gate) * copy + 1e-8))
    return torch.stack(out, 1)


def light_convolution(m, x):
    """Each step makes its own filter."""
    n, t, c = x.shape
    u, gate = m.enter(x).chunk(2, -1)
    u = u * torch.sigmoid(gate)
    share = F.softmax(m.filters(u).view(n, t, 4, 3), -1)
    patches = F.pad(u, (0, 0, 2, 0)).unfold(1, 3, 1).reshape(n, t, 4, 4, 3)
    return m.out((patches * share.unsqueeze(3)).sum(-1).reshape(n, t, c))


def tree(m, x):
    """A tree LSTM over eight leaves."""
    h, c = torch.tanh(m.leaf(x)), m.cell(x)
    while h.shape[1] > 1:
        pair = torch.cat([h[:, 0::2], h[:, 1::2]], -1)
        i, fl, fr, o, u = m.node(pair).chunk(5, -1)
        c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(fl) * c[:, 0::2] + torch.sigmoid(fr) * c[:, 1::2]
        h = torch.sigmoid(o) * torch.tanh(c)
    return m.head(h.squeeze(1))


def characters(m, letters):
    """Words from their letters, then a tagger."""
    n, t, k = letters.shape
    y = m.letters(letters.view(n * t, k)).transpose(1, 2)
    y = F.relu(m.conv(y)).max(dim=2)[0].view(n, t, -1)
    return m.out(m.rnn(y)[0])


def inference(m, first, second):
    """ESIM: two sentences aligned both ways."""
    a, b = m.enter(m.words(first))[0], m.enter(m.words(second))[0]
    e = torch.matmul(a, b.transpose(1, 2))
    aa, bb = torch.matmul(F.softmax(e, dim=2), b), torch.matmul(F.softmax(e, dim=1).transpose(1, 2), a)
    a, b = (m.compose(F.relu(m.project(torch.cat([s, t, s - t, s * t], -1))))[0] for s, t in ((a, aa), (b, bb)))
    return m.head(torch.cat([a.mean(1), a.max(1)[0], b.mean(1), b.max(1)[0]], -1))


def answer_span(m, first, second):
    """BiDAF: where in the first text the second one's answer starts."""
    c, q = m.enter(m.words(first))[0], m.enter(m.words(second))[0]
    n, t, d = c.shape
    j = q.shape[1]
    cc, qq = c.unsqueeze(2).expand(n, t, j, d), q.unsqueeze(1).expand(n, t, j, d)
    s = m.similar(torch.cat([cc, qq, cc * qq], 3)).squeeze(3)
    to_query = torch.bmm(F.softmax(s, 2), q)
    to_context = torch.bmm(F.softmax(s.max(2)[0], 1).unsqueeze(1), c).repeat(1, t, 1)
    return m.start(m.model(torch.cat([c, to_query, c * to_query, c * to_context], 2))[0]).squeeze(2)


def halting(m, x):
    """Adaptive computation time, four turns at most."""
    h, left, out = x, torch.ones_like(x[..., :1]), torch.zeros_like(x)
    for i in range(4):
        h = m.norm(h + m.net(h))
        stop = torch.sigmoid(m.stop(h)) if i < 3 else torch.ones_like(left)
        out = out + left * stop * h
        left = left * (1 - stop)
    return m.out(out)


def stack(m, x):
    """A recurrent net that pushes to, and pops from, a soft stack."""
    n = x.shape[0]
    h, s, out = torch.zeros(n, WIDTH), torch.zeros(n, 5, 8), []
    for i in range(6):
        h = torch.tanh(m.step(torch.cat([x[:, i], h, s[:, 0]], 1)))
        push, pop, stay = torch.softmax(m.act(h), 1).unsqueeze(2).chunk(3, 1)
        pushed = torch.cat([torch.tanh(m.new(h)).unsqueeze(1), s[:, :-1]], 1)
        popped = torch.cat([s[:, 1:], torch.zeros(n, 1, 8)], 1)
        s = push * pushed + pop * popped + stay * s
        out.append(h)
    return m.out(torch.stack(out, 1))


def hyper_lstm(m, x):
    """A small LSTM scales the gates of a larger one."""
    n = x.shape[0]
    h, c, a, b = (torch.zeros(n, k) for k in (WIDTH, WIDTH, 8, 8))
    for i in range(5):
        a, b = m.small(torch.cat([x[:, i], h], 1), (a, b))
        z = m.by_x(a) * m.x(x[:, i]) + m.by_h(a) * m.h(h) + m.bias(a)
        gi, gf, go, g = z.chunk(4, 1)
        c = torch.sigmoid(gf + 1) * c + torch.sigmoid(gi) * torch.tanh(m.norm(g))
        h = torch.sigmoid(go) * torch.tanh(c)
    return m.head(h)


def recurrent_memory(m, tokens):
    """Segments of a text with a memory that one hands to the next."""
    x = m.words(tokens)
    memory, out = m.memory.expand(x.size(0), -1, -1), []
    for part in x.split(4, dim=1):
        y = m.layer(torch.cat([memory, part], 1))
        memory, y = y[:, :2], y[:, 2:]
        out.append(y)
    return m.out(torch.cat(out, 1))


def depths(m, x):
    """Mixture of depths: only the half of the steps with the best scores passes the layer."""
    score = m.score(x).squeeze(-1)
    best, at = torch.topk(score, STEPS // 2, dim=1, sorted=False)
    index = at.unsqueeze(-1).expand(-1, -1, WIDTH)
    y = m.layer(torch.gather(x, 1, index)) * torch.sigmoid(best).unsqueeze(-1)
    return m.out(x.scatter_add(1, index, y))


def sinkhorn(m, x):
    """Blocks sorted softly by rows and columns that sum to one."""
    n = x.shape[0]
    blocks = x.view(n, 4, 3, WIDTH)
    s = m.sort(blocks.mean(2))
    for _ in range(4):
        s = s - torch.logsumexp(s, dim=2, keepdim=True)
        s = s - torch.logsumexp(s, dim=1, keepdim=True)
    moved = torch.einsum("nij,njkc->nikc", s.exp(), blocks)
    k, v = m.kv(torch.cat([moved, blocks], 2)).chunk(2, -1)
    y = torch.softmax(m.q(blocks) @ k.transpose(2, 3) / 4, -1) @ v
    return m.out(y.reshape(n, STEPS, WIDTH))


def row(name, make, inputs=None, labels=FEW, **options):
    return Row(name, "small", make, SERIES if inputs is None else inputs, labels, **options)


def both_ways(width=WIDTH, kind=nn.LSTM):
    return kind(width, 8, batch_first=True, bidirectional=True)


def block():
    return nn.TransformerEncoderLayer(WIDTH, 2, 32, 0.0, batch_first=True, activation="gelu", norm_first=True)


ROWS = [
    row("transformer_xl", lambda: Call(transformer_xl, u=p(2, 8), v=p(2, 8), norm=nn.LayerNorm(WIDTH), **linears(qkv=(WIDTH, 48), r=(WIDTH, WIDTH), out=(WIDTH, WIDTH))), None, SAME_SERIES),
    row("rotary_complex", lambda: Call(rotary_complex, words=nn.Embedding(WORDS, WIDTH), first=RootMeanSquare(WIDTH), second=RootMeanSquare(WIDTH), last=RootMeanSquare(WIDTH),
                                       **linears(q=(WIDTH, WIDTH), k=(WIDTH, WIDTH), v=(WIDTH, WIDTH), o=(WIDTH, WIDTH), gate=(WIDTH, 32), up=(WIDTH, 32), down=(32, WIDTH), out=(WIDTH, WORDS))),
        TOKENS, SAME_TOKENS),
    row("rotary_halves", lambda: Call(rotary_halves, rates=torch.tensor([1.0, 0.03]), **linears(q=(WIDTH, WIDTH), k=(WIDTH, 4), v=(WIDTH, 4), out=(WIDTH, WIDTH))), None, SAME_SERIES),
    row("state_space_dual", lambda: Call(state_space_dual, conv=nn.Conv1d(WIDTH, WIDTH, 4, groups=WIDTH), bias=p(2), a=p(2), skip=p(2), norm=RootMeanSquare(WIDTH),
                                         **linears(enter=(WIDTH, 42), out=(WIDTH, WIDTH))), None, SAME_SERIES),
    row("receptance", lambda: Call(receptance, mix_k=p(WIDTH), mix_v=p(WIDTH), mix_r=p(WIDTH), first=p(WIDTH), decay=p(WIDTH),
                                   **linears(k=(WIDTH, WIDTH), v=(WIDTH, WIDTH), r=(WIDTH, WIDTH), out=(WIDTH, WIDTH))), None, SAME_SERIES),
    row("gated_linear_attention", lambda: Call(gated_linear, norm=nn.LayerNorm(8), **linears(qkv=(WIDTH, 48), gate=(WIDTH, WIDTH), o=(WIDTH, WIDTH), out=(WIDTH, WIDTH))), None, SAME_SERIES),
    row("nearest_memory", lambda: Call(nearest_memory, keys=p(10, 8), values=p(10, WIDTH), **linears(q=(WIDTH, 8), out=(WIDTH, WIDTH))), None, SAME_SERIES),
    row("coverage", lambda: Two(coverage, words=nn.Embedding(WORDS, WIDTH), encoder=nn.GRU(WIDTH, WIDTH, batch_first=True), cell=nn.GRUCell(WIDTH, WIDTH),
                                **linears(memory=(WIDTH, 8), state=(WIDTH, 8), seen=(1, 8), score=(8, 1), gate=(32, 1), out=(32, WORDS))),
        {"tokens": SAME_TOKENS, "target": Values((5,), below=WORDS)}, Values((5,), below=WORDS)),
    row("light_convolution", lambda: Call(light_convolution, **linears(enter=(WIDTH, 32), filters=(WIDTH, 12), out=(WIDTH, WIDTH))), None, SAME_SERIES),
    row("tree_lstm", lambda: Call(tree, **linears(leaf=(WIDTH, 8), cell=(WIDTH, 8), node=(16, 40), head=(8, 4))), {"x": Values((8, WIDTH))}),
    row("characters", lambda: Call(characters, letters=nn.Embedding(20, 8), conv=nn.Conv1d(8, WIDTH, 3, padding=1), rnn=both_ways(), out=nn.Linear(16, 7)), {"letters": Values((6, 5), below=20)},
        Values((6,), below=7)),
    row("inference", lambda: Two(inference, words=nn.Embedding(WORDS, WIDTH), enter=both_ways(), project=nn.Linear(64, WIDTH), compose=both_ways(), head=nn.Linear(64, 3)), SENTENCES,
        Values((), below=3)),
    row("answer_span", lambda: Two(answer_span, words=nn.Embedding(WORDS, WIDTH), enter=both_ways(), similar=nn.Linear(48, 1), model=both_ways(64), start=nn.Linear(16, 1)), SENTENCES,
        Values((), below=8)),
    row("adaptive_time", lambda: Call(halting, norm=nn.LayerNorm(WIDTH), net=layers(WIDTH, 32, WIDTH), **linears(stop=(WIDTH, 1), out=(WIDTH, WIDTH))), None, SAME_SERIES),
    row("soft_stack", lambda: Call(stack, **linears(step=(2 * WIDTH + 8, WIDTH), act=(WIDTH, 3), new=(WIDTH, 8), out=(WIDTH, 5))), None, Values((6,), below=5)),
    row("hyper_lstm", lambda: Call(hyper_lstm, small=nn.LSTMCell(2 * WIDTH, 8), norm=nn.LayerNorm(WIDTH),
                                   **linears(by_x=(8, 64), by_h=(8, 64), bias=(8, 64), x=(WIDTH, 64), h=(WIDTH, 64), head=(WIDTH, 4)))),
    row("recurrent_memory", lambda: Call(recurrent_memory, words=nn.Embedding(WORDS, WIDTH), memory=p(1, 2, WIDTH), layer=block(), out=nn.Linear(WIDTH, WORDS)), TOKENS, SAME_TOKENS),
    row("mixture_of_depths", lambda: Call(depths, score=nn.Linear(WIDTH, 1), layer=block(), out=nn.Linear(WIDTH, WIDTH)), None, SAME_SERIES),
    row("sinkhorn_attention", lambda: Call(sinkhorn, **linears(sort=(WIDTH, 4), q=(WIDTH, WIDTH), kv=(WIDTH, 32), out=(WIDTH, WIDTH))), None, SAME_SERIES),
]
