"""Small models of kinds that people write themselves, chosen after the unseen ones had been mended."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from row import Row, Values, image
from small_tables import Two, each, layers
from unseen_small_rows import FEW, GRAPH, SAME_SERIES, SAME_TOKENS, SERIES, SMALL, STEPS, TABLE, TOKENS, WIDTH, WORDS, attention, conv, encoder_of, linears, p
from architecture import Call

FIELDS = {"which": Values((5,), below=9)}
CLOUD = {"x": Values((12, 3))}
SOUND = {"x": Values((1, 160))}


# Images.

def pyramid_pooling(m, x):
    y = m.body(x)
    return m.head(torch.cat([F.adaptive_max_pool2d(y, k).flatten(1) for k in (1, 2, 4)], 1))


def octave(m, x):
    """Convolutions that exchange high and low frequencies."""
    high, low = m.high(x), m.low(F.avg_pool2d(x, 2))
    y = F.relu(m.hh(high) + F.interpolate(m.lh(low), scale_factor=2, mode="nearest"))
    z = F.relu(m.ll(low) + m.hl(F.avg_pool2d(high, 2)))
    return m.head(torch.cat([y.mean((2, 3)), z.mean((2, 3))], 1))


def dense_residual(m, x):
    """ESRGAN: dense blocks, residuals of a fifth, twice the size."""
    y = m.enter(x)
    for a, b, c in zip(m.a, m.b, m.c):
        t = F.leaky_relu(a(y), 0.2)
        u = F.leaky_relu(b(torch.cat([y, t], 1)), 0.2)
        y = y + 0.2 * c(torch.cat([y, t, u], 1))
    return m.out(F.interpolate(y, scale_factor=2, mode="nearest"))


def architecture_search(m, x):
    """DARTS: operators weighed by a softmax."""
    share = torch.softmax(m.alpha, -1)
    for i, (a, b) in enumerate(zip(m.a, m.b)):
        x = share[i, 0] * a(x) + share[i, 1] * b(x) + share[i, 2] * x + share[i, 3] * F.avg_pool2d(x, 3, 1, 1)
    return m.head(x.mean((2, 3)))


def single_shot(m, x):
    """SSD: boxes and classes of two sizes in one list."""
    high = m.high(x)
    low = m.low(high)
    rows = [head(y).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 7) for head, y in zip(m.heads, (high, low))]
    return torch.cat(rows, 1)


def detection_transformer(m, x):
    """DETR: places by sines, queries that are learned."""
    y = m.body(x)
    n, c, h, w = y.shape
    at = torch.arange(h * w, dtype=y.dtype)
    rate = 10000 ** (-torch.arange(0, c, 2, dtype=y.dtype) / c)
    angle = at[:, None] * rate[None]
    memory = m.encoder(y.flatten(2).transpose(1, 2) + torch.cat([angle.sin(), angle.cos()], 1))
    z = m.decoder(m.queries.unsqueeze(0).repeat(n, 1, 1), memory)
    return torch.cat([m.classes(z), m.boxes(z).sigmoid()], 2)


def temporal_shift(m, x):
    """TSM: a part of the channels comes from the frame before, a part from the one behind."""
    n, t, c, h, w = x.shape
    y = m.first(x.reshape(n * t, c, h, w)).view(n, t, 8, h, w)
    left, right = F.pad(y[:, 1:, :2], (0, 0, 0, 0, 0, 0, 0, 1)), F.pad(y[:, :-1, 2:4], (0, 0, 0, 0, 0, 0, 1, 0))
    y = m.second(torch.cat([left, right, y[:, :, 4:]], 2).view(n * t, 8, h, w))
    return m.head(y.mean((2, 3)).view(n, t, -1).mean(1))


def conv_gru(m, x):
    h = torch.zeros_like(x[:, 0]).repeat(1, 2, 1, 1)
    for i in range(3):
        z, r = torch.sigmoid(m.gates(torch.cat([x[:, i], h], 1))).chunk(2, 1)
        h = (1 - z) * h + z * torch.tanh(m.new(torch.cat([x[:, i], r * h], 1)))
    return m.head(h.amax((2, 3)))


def text_recognition(m, x):
    """CRNN: columns of an image as steps."""
    return m.head(m.rnn(m.body(x).mean(2).transpose(1, 2))[0])


def conditional_filters(m, x):
    """CondConv: each sample's filters are a mixture."""
    n, c, h, w = x.shape
    share = torch.sigmoid(m.share(x.mean((2, 3))))
    filters = torch.einsum("ne,eoi->noi", share, m.experts)
    y = torch.bmm(filters, F.unfold(x, 3, padding=1)).view(n, 8, h, w)
    return m.head(F.relu(y).mean((2, 3)))


def question_about_image(m, x, tokens):
    """FiLM: a question scales and shifts the features."""
    scale, shift = m.film(m.rnn(m.words(tokens))[1][0]).chunk(2, 1)
    y = m.norm(m.body(x))
    return m.head(F.relu((1 + scale[:, :, None, None]) * y + shift[:, :, None, None]).amax((2, 3)))


# Sequences.

def speaker(m, x):
    """ECAPA: squeeze and excitation along time, then weighed mean and deviation."""
    y = F.relu(m.enter(x.transpose(1, 2)))
    y = y * torch.sigmoid(m.up(F.relu(m.down(y.mean(2, keepdim=True)))))
    share = torch.softmax(m.share(torch.tanh(m.ask(y))), 2)
    mean = (share * y).sum(2)
    return m.head(torch.cat([mean, ((share * y ** 2).sum(2) - mean ** 2).clamp(min=1e-6).sqrt()], 1))


def sinc(m, x):
    """SincNet: band filters made from learned edges."""
    low = m.low.abs() + 0.01
    high = low + m.band.abs() + 0.01
    t = m.places
    filters = (torch.sin(2 * math.pi * high * t) - torch.sin(2 * math.pi * low * t)) / (math.pi * t) * m.window
    return m.head(F.leaky_relu(F.conv1d(x, filters.unsqueeze(1), stride=4), 0.2).abs().amax(2))


def separation(m, x):
    """Conv-TasNet: masks over a learned basis, two voices."""
    y = F.relu(m.basis(x))
    z = m.enter(m.norm(y))
    for a, d, b in zip(m.wide, m.depth, m.narrow):
        z = z + b(F.relu(d(F.relu(a(z)))))
    masks = torch.sigmoid(m.masks(z)).unflatten(1, (2, 8))
    n = x.shape[0]
    return m.back((masks * y.unsqueeze(1)).flatten(0, 1)).view(n, 2, -1)


def universal(m, tokens):
    """One layer three times, each with its own step's vector."""
    x = m.words(tokens)
    for i in range(3):
        x = m.layer(x + m.steps[i])
    return m.out(x)


def talking_heads(m, x):
    n = x.shape[0]
    q, k, v = (t.view(n, STEPS, 4, 4).transpose(1, 2) for t in m.qkv(x).chunk(3, 2))
    score = torch.einsum("nhqk,hg->ngqk", q @ k.transpose(2, 3) / 2, m.before)
    share = torch.einsum("nhqk,hg->ngqk", torch.softmax(score, -1), m.after)
    return m.out((share @ v).transpose(1, 2).reshape(n, STEPS, WIDTH))


def relative_bias(m, x):
    """T5's buckets of distances, looked up in a table."""
    n = x.shape[0]
    q, k, v = (t.view(n, STEPS, 4, 4).transpose(1, 2) for t in m.qkv(x).chunk(3, 2))
    distance = torch.arange(STEPS)[None] - torch.arange(STEPS)[:, None]
    bias = m.table(distance.clamp(-4, 4) + 4).permute(2, 0, 1)
    return m.out((torch.softmax(q @ k.transpose(2, 3) / 2 + bias, -1) @ v).transpose(1, 2).reshape(n, STEPS, WIDTH))


def sparse_attention(m, x):
    """Sparsemax in place of softmax: sorted, summed up, cut off."""
    q, k, v = m.qkv(x).chunk(3, 2)
    z = q @ k.transpose(1, 2) / 4
    ordered = z.sort(dim=-1, descending=True)[0]
    sums, at = ordered.cumsum(-1), torch.arange(1, STEPS + 1, dtype=x.dtype)
    kept = (1 + at * ordered > sums).to(x.dtype)
    count = kept.sum(-1, keepdim=True)
    threshold = ((kept * ordered).sum(-1, keepdim=True) - 1) / count
    return m.out(F.relu(z - threshold) @ v)


def ordered_neurons(m, x):
    """ON-LSTM: master gates are summed softmaxes."""
    h = c = torch.zeros_like(x[:, 0])
    out = []
    for i in range(4):
        z = m.step(torch.cat([x[:, i], h], 1))
        f, g, o, u, mf, mi = z.chunk(6, 1)
        mf, mi = torch.cumsum(torch.softmax(mf, 1), 1), 1 - torch.cumsum(torch.softmax(mi, 1), 1)
        both = mf * mi
        c = (torch.sigmoid(f) * both + mf - both) * c + (torch.sigmoid(g) * both + mi - both) * torch.tanh(u)
        h = torch.sigmoid(o) * torch.tanh(c)
        out.append(h)
    return m.out(torch.stack(out, 1))


def delta_rule(m, x):
    """Fast weights: each step writes what its key does not yet recall."""
    n = x.shape[0]
    q, k, v = m.qkv(x).chunk(3, 2)
    k, rate = F.normalize(F.silu(k), dim=2), torch.sigmoid(m.rate(x))
    memory, out = x.new_zeros(n, WIDTH, WIDTH), []
    for i in range(STEPS):
        old = torch.einsum("nij,nj->ni", memory, k[:, i])
        memory = memory + torch.einsum("ni,nj->nij", rate[:, i] * (v[:, i] - old), k[:, i])
        out.append(torch.einsum("nij,nj->ni", memory, q[:, i]))
    return m.out(torch.stack(out, 1))


def legendre(m, x):
    """A Legendre memory unit: its matrices are buffers."""
    h, memory = torch.zeros_like(x[:, 0]), x.new_zeros(x.shape[0], 6)
    for i in range(STEPS):
        u = m.write(torch.cat([x[:, i], h], 1))
        memory = memory @ m.a + u * m.b
        h = torch.tanh(m.step(torch.cat([x[:, i], h, memory], 1)))
    return m.head(h)


def echo_state(m, x):
    """Only what reads the reservoir is trained."""
    h, out = x.new_zeros(x.shape[0], 20), []
    for i in range(STEPS):
        h = 0.7 * h + 0.3 * torch.tanh(x[:, i] @ m.enter + h @ m.inner)
        out.append(h)
    return m.out(torch.stack(out, 1))


def minimal_gru(m, x):
    """Without a loop: logarithms of gates summed up."""
    gate, new = m.gate(x), m.new(x)
    decay, enter = -F.softplus(gate), -F.softplus(-gate) + torch.log(F.softplus(new) + 0.1)
    total = decay.cumsum(1)
    return m.out(torch.exp(total + torch.logcumsumexp(enter - total, 1)))


# Tables, time series.

def field_attention(m, which):
    """AutoInt."""
    x = m.table(which + 9 * torch.arange(5))
    for a, r in zip(m.attend, m.rest):
        x = F.relu(a(x, x, x, need_weights=False)[0] + r(x))
    return m.head(x.flatten(1))


def additive(m, x):
    """A neural additive model: a net for each number."""
    h = F.relu(torch.einsum("ni,ih->nih", x - m.centre, torch.exp(m.first)))
    return torch.einsum("nih,iho->no", h, m.second) + m.bias


def many_gates(m, x):
    """MMoE: experts shared by two tasks."""
    y = torch.stack([F.relu(e(x)) for e in m.experts], 1)
    return torch.cat([t((torch.softmax(g(x), 1).unsqueeze(2) * y).sum(1)) for g, t in zip(m.gates, m.tasks)], 1)


def neural_process(m, x, place):
    """A conditional neural process: pairs make a mean, a mean answers for places."""
    r = m.encode(x).mean(1, keepdim=True)
    return m.decode(torch.cat([r.expand(-1, place.shape[1], -1), place], 2))


def relations(m, x):
    """A relation network: every pair of objects."""
    n, k, c = x.shape
    pairs = torch.cat([x.unsqueeze(1).expand(n, k, k, c), x.unsqueeze(2).expand(n, k, k, c)], 3)
    return m.f(m.g(pairs).sum((1, 2)))


def tensor_network(m, x):
    a, b = x.chunk(2, 1)
    return m.head(torch.tanh(F.bilinear(a, b, m.weight, m.bias) + m.both(x)))


def planar_flow(m, x):
    total = 0.0
    for u, w, b in zip(m.u, m.w, m.b):
        t = torch.tanh(x @ w + b)
        total = total + torch.log((1 + (1 - t ** 2) * (u @ w)).abs() + 1e-6)
        x = x + t.unsqueeze(1) * u
    return (x ** 2).sum(1) / 2 - total


def reversible_normalized(m, x):
    """RevIN around a linear forecast."""
    mean = x.mean(1, keepdim=True)
    deviation = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
    y = m.net((((x - mean) / deviation) * m.scale + m.shift).transpose(1, 2)).transpose(1, 2)
    return (y - m.shift) / (m.scale + 1e-10) * deviation + mean


def inverted(m, x):
    """iTransformer: each series is a token."""
    return m.out(m.encoder(m.enter(x.transpose(1, 2)))).transpose(1, 2)


def auto_correlation(m, x):
    """Autoformer: the best delays by a Fourier transform, their values rolled and added."""
    q, k, v = (t.transpose(1, 2) for t in m.qkv(x).chunk(3, 2))
    both = torch.fft.rfft(q, dim=2) * torch.conj(torch.fft.rfft(k, dim=2))
    score, delay = torch.fft.irfft(both, n=STEPS, dim=2).mean(1).topk(2, 1)
    share = torch.softmax(score, 1)
    at = (torch.arange(STEPS).view(1, 1, -1) + delay.unsqueeze(2)) % STEPS
    y = sum(share[:, i].view(-1, 1, 1) * v.gather(2, at[:, i].unsqueeze(1).expand_as(v)) for i in range(2))
    return m.out(y.transpose(1, 2))


# Graphs and points.

def continuous_filters(m, x):
    """SchNet: filters made of distances."""
    d = ((x.unsqueeze(2) - x.unsqueeze(1)) ** 2).sum(3, keepdim=True).add(1e-8).sqrt()
    basis = torch.exp(-2 * (d - m.centres) ** 2)
    h = m.atom.expand(x.shape[0], x.shape[1], -1)
    for f, a, b in zip(m.filters, m.a, m.b):
        h = h + b((a(h).unsqueeze(1) * f(basis)).sum(2))
    return m.head(h).sum(1)


def chebyshev(m, nodes, adjacency):
    a = adjacency.to(nodes.dtype)
    a = a / (a.sum(2, keepdim=True) + 1)
    t0, t1 = nodes, a @ nodes
    t2 = 2 * a @ t1 - t0
    return m.head(F.relu(m.w(torch.cat([t0, t1, t2], 2))).mean(1))


def gated_graph(m, nodes, adjacency):
    n = nodes.shape[0]
    h, a = m.enter(nodes), adjacency.to(nodes.dtype)
    for _ in range(2):
        h = m.gru((a @ m.message(h)).reshape(-1, 8), h.reshape(-1, 8)).view(n, 6, 8)
    return m.head(h.amax(1))


def neighbours(m, x):
    """PointNet++: the nearest four of every third point."""
    centre = x[:, ::3]
    at = (-torch.cdist(centre, x)).topk(4, 2)[1]
    near = torch.gather(x.unsqueeze(1).expand(-1, 4, -1, -1), 2, at.unsqueeze(3).expand(-1, -1, -1, 3))
    return m.head(m.net(near - centre.unsqueeze(2)).amax(2).amax(1))


def two_heads(m, x):
    """AlphaZero: moves and a value."""
    y = m.body(x)
    y = F.relu(y + m.block(y))
    return torch.cat([m.moves(F.relu(m.policy(y)).flatten(1)), torch.tanh(m.value(y.mean((2, 3))))], 1)


def distributional(m, x):
    """C51: a duelling pair of heads, a distribution of returns for each action."""
    h = m.body(x)
    value, advantage = m.value(h).view(-1, 1, 7), m.advantage(h).view(-1, 3, 7)
    q = torch.softmax(value + advantage - advantage.mean(1, keepdim=True), 2)
    return (q * m.returns).sum(2)


def row(name, make, inputs=None, labels=FEW, **options):
    return Row(name, "small", make, TABLE if inputs is None else inputs, labels, **options)


def weight_normed():
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(12, 16)), nn.Tanh(), nn.utils.parametrizations.weight_norm(nn.Linear(16, 4)))


def sinc_net():
    places = (torch.arange(1, 18).float() - 9.25) / 8
    return Call(sinc, low=p(6, 1), band=p(6, 1), places=places, window=torch.hamming_window(17), head=nn.Linear(6, 4))


def convs(*pairs, size=3):
    return nn.ModuleList(nn.Conv2d(a, b, size, padding=size // 2) for a, b in pairs)


ROWS = [
    row("pyramid_pooling", lambda: Call(pyramid_pooling, body=conv(3, 8, 2), head=nn.Linear(8 * 21, 4)), SMALL),
    row("octave", lambda: Call(octave, high=conv(3, 8), low=conv(3, 8), hh=nn.Conv2d(8, 8, 3, padding=1), hl=nn.Conv2d(8, 8, 1), lh=nn.Conv2d(8, 8, 1), ll=nn.Conv2d(8, 8, 3, padding=1),
                               head=nn.Linear(16, 4)), SMALL),
    row("esrgan", lambda: Call(dense_residual, enter=nn.Conv2d(3, 8, 3, padding=1), a=convs((8, 4), (8, 4)), b=convs((12, 4), (12, 4)), c=convs((16, 8), (16, 8)),
                               out=nn.Conv2d(8, 3, 3, padding=1)), {"x": image(8)}, Values((3, 16, 16))),
    row("darts", lambda: Call(architecture_search, alpha=p(2, 4), a=convs((3, 3), (3, 3)), b=convs((3, 3), (3, 3), size=5), head=nn.Linear(3, 4)), SMALL),
    row("single_shot", lambda: Call(single_shot, high=conv(3, 8, 2), low=conv(8, 16, 2), heads=nn.ModuleList([nn.Conv2d(8, 14, 3, padding=1), nn.Conv2d(16, 14, 3, padding=1)])), SMALL,
        Values((160, 7))),
    row("detection_transformer", lambda: Call(detection_transformer, body=nn.Sequential(conv(3, 8, 2), conv(8, 16, 2)), encoder=encoder_of(), queries=p(5, WIDTH),
                                              decoder=nn.TransformerDecoderLayer(WIDTH, 2, 32, 0.0, batch_first=True), **linears(classes=(WIDTH, 3), boxes=(WIDTH, 4))), SMALL, Values((5, 7))),
    row("temporal_shift", lambda: Call(temporal_shift, first=conv(3, 8), second=conv(8, 8), head=nn.Linear(8, 4)), {"x": Values((4, 3, 8, 8))}),
    row("conv_gru", lambda: Call(conv_gru, gates=nn.Conv2d(12, 16, 3, padding=1), new=nn.Conv2d(12, 8, 3, padding=1), head=nn.Linear(8, 4)), {"x": Values((3, 4, 8, 8))}),
    row("text_recognition", lambda: Call(text_recognition, body=nn.Sequential(conv(1, 8), nn.MaxPool2d(2), conv(8, 16), nn.MaxPool2d((2, 1))),
                                         rnn=nn.LSTM(16, 8, bidirectional=True, batch_first=True), head=nn.Linear(16, 11)), {"x": Values((1, 16, 20))}, Values((10,), below=11)),
    row("conditional_filters", lambda: Call(conditional_filters, share=nn.Linear(3, 4), experts=p(4, 8, 27), head=nn.Linear(8, 4)), SMALL),
    row("question_about_image", lambda: Two(question_about_image, words=nn.Embedding(WORDS, 8), rnn=nn.GRU(8, 8, batch_first=True), film=nn.Linear(8, 16), body=nn.Conv2d(3, 8, 3),
                                            norm=nn.BatchNorm2d(8, affine=False), head=nn.Linear(8, 4)), {"x": image(8), **TOKENS}),
    row("speaker", lambda: Call(speaker, enter=nn.Conv1d(WIDTH, 16, 3, padding=2, dilation=2), down=nn.Conv1d(16, 4, 1), up=nn.Conv1d(4, 16, 1), ask=nn.Conv1d(16, 8, 1),
                                share=nn.Conv1d(8, 16, 1), head=nn.Linear(32, 4)), SERIES),
    row("sinc_net", sinc_net, SOUND),
    row("separation", lambda: Call(separation, basis=nn.Conv1d(1, 8, 16, 8), norm=nn.GroupNorm(1, 8), enter=nn.Conv1d(8, 8, 1), wide=each(lambda: nn.Conv1d(8, 16, 1)),
                                   depth=nn.ModuleList(nn.Conv1d(16, 16, 3, padding=d, dilation=d, groups=16) for d in (1, 2)), narrow=each(lambda: nn.Conv1d(16, 8, 1)),
                                   masks=nn.Conv1d(8, 16, 1), back=nn.ConvTranspose1d(8, 1, 16, 8)), SOUND, Values((2, 160))),
    row("universal_transformer", lambda: Call(universal, words=nn.Embedding(WORDS, WIDTH), layer=encoder_of(), steps=p(3, WIDTH), out=nn.Linear(WIDTH, WORDS)), TOKENS, SAME_TOKENS),
    row("talking_heads", lambda: Call(talking_heads, before=p(4, 4), after=p(4, 4), **linears(qkv=(WIDTH, 48), out=(WIDTH, WIDTH))), SERIES, SAME_SERIES),
    row("relative_bias", lambda: Call(relative_bias, table=nn.Embedding(9, 4), **linears(qkv=(WIDTH, 48), out=(WIDTH, WIDTH))), SERIES, SAME_SERIES),
    row("sparsemax", lambda: Call(sparse_attention, **linears(qkv=(WIDTH, 48), out=(WIDTH, WIDTH))), SERIES, SAME_SERIES),
    row("ordered_neurons", lambda: Call(ordered_neurons, **linears(step=(2 * WIDTH, 6 * WIDTH), out=(WIDTH, WIDTH))), SERIES, Values((4, WIDTH))),
    row("delta_rule", lambda: Call(delta_rule, **linears(qkv=(WIDTH, 48), rate=(WIDTH, 1), out=(WIDTH, WIDTH))), SERIES, SAME_SERIES),
    row("legendre_memory", lambda: Call(legendre, a=torch.randn(6, 6) * 0.3, b=torch.randn(1, 6), **linears(write=(2 * WIDTH, 1), step=(2 * WIDTH + 6, WIDTH), head=(WIDTH, 4))), SERIES),
    row("echo_state", lambda: Call(echo_state, enter=torch.randn(WIDTH, 20) * 0.3, inner=torch.randn(20, 20) * 0.2, out=nn.Linear(20, 3)), SERIES, Values((STEPS, 3))),
    row("minimal_gru", lambda: Call(minimal_gru, **linears(gate=(WIDTH, WIDTH), new=(WIDTH, WIDTH), out=(WIDTH, WIDTH))), SERIES, SAME_SERIES),
    row("auto_int", lambda: Call(field_attention, table=nn.Embedding(45, WIDTH), attend=each(attention), rest=each(lambda: nn.Linear(WIDTH, WIDTH)), head=nn.Linear(5 * WIDTH, 4)), FIELDS),
    row("additive_model", lambda: Call(additive, centre=p(12), first=p(12, 8), second=p(12, 8, 4), bias=p(4))),
    row("many_gates", lambda: Call(many_gates, experts=nn.ModuleList(nn.Linear(12, 8) for _ in range(3)), gates=each(lambda: nn.Linear(12, 3)), tasks=each(lambda: nn.Linear(8, 1))), None,
        Values((2,))),
    row("neural_process", lambda: Two(neural_process, encode=layers(3, 16, 8), decode=layers(9, 16, 1)), {"x": Values((6, 3)), "place": Values((5, 1))}, Values((5, 1))),
    row("relation_network", lambda: Call(relations, g=layers(6, 16, 8), f=layers(8, 8, 4)), CLOUD),
    row("tensor_network", lambda: Call(tensor_network, weight=p(5, 6, 6), bias=p(5), both=nn.Linear(12, 5), head=nn.Linear(5, 4))),
    row("planar_flow", lambda: Call(planar_flow, u=p(3, 12), w=p(3, 12), b=p(3)), None, None),
    row("reversible_normalization", lambda: Call(reversible_normalized, net=nn.Linear(STEPS, 4), scale=p(WIDTH), shift=p(WIDTH)), SERIES, Values((4, WIDTH)), rate=1e-4),
    row("inverted_transformer", lambda: Call(inverted, enter=nn.Linear(STEPS, WIDTH), encoder=encoder_of(), out=nn.Linear(WIDTH, 4)), SERIES, Values((4, WIDTH))),
    row("auto_correlation", lambda: Call(auto_correlation, **linears(qkv=(WIDTH, 48), out=(WIDTH, WIDTH))), SERIES, SAME_SERIES),
    row("sch_net", lambda: Call(continuous_filters, centres=torch.linspace(0, 4, 8), atom=p(1, 1, 8), filters=each(lambda: layers(8, 8, 8, act=nn.Softplus)),
                                a=each(lambda: nn.Linear(8, 8)), b=each(lambda: layers(8, 8, 8, act=nn.Softplus)), head=nn.Linear(8, 1)), CLOUD, Values((1,)), rate=1e-5),  # its first gradient's norm is 80
    row("chebyshev_graph", lambda: Two(chebyshev, **linears(w=(15, 8), head=(8, 4))), GRAPH),
    row("gated_graph", lambda: Two(gated_graph, gru=nn.GRUCell(8, 8), **linears(enter=(5, 8), message=(8, 8), head=(8, 4))), GRAPH),
    row("point_net_plus_plus", lambda: Call(neighbours, net=layers(3, 16, 8), head=nn.Linear(8, 4)), CLOUD),
    row("two_heads", lambda: Call(two_heads, body=conv(3, 8), block=nn.Sequential(conv(8, 8), nn.Conv2d(8, 8, 3, padding=1)), policy=nn.Conv2d(8, 2, 1), moves=nn.Linear(128, 9),
                                  value=nn.Linear(8, 1)), {"x": image(8)}, Values((10,))),
    row("distributional_q", lambda: Call(distributional, body=layers(12, 16, 8), value=nn.Linear(8, 7), advantage=nn.Linear(8, 21), returns=torch.linspace(-1, 1, 7)), None, Values((3,))),
    row("weight_normed", weight_normed),
]
