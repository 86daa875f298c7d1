"""Small models of kinds that people write themselves, chosen after tandem could train the others."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from row import Row, Values, image
from small_tables import Two, each, layers
from architecture import Call

FEW = Values((), below=4)
PIXELS = Values((16, 16), below=4)
STEPS, WIDTH, WORDS = 10, 16, 31
SERIES, TOKENS, TABLE = {"x": Values((STEPS, WIDTH))}, {"tokens": Values((STEPS,), below=WORDS)}, {"x": Values((12,))}
SAME_SERIES, SAME_TOKENS = Values((STEPS, WIDTH)), Values((STEPS,), below=WORDS)
SMALL = {"x": image(16)}
MIXED = {"dense": Values((6,)), "which": Values((3,), below=9)}
HISTORY = {"history": Values((STEPS,), below=WORDS), "item": Values((), below=WORDS)}
GRAPH = {"nodes": Values((6, 5)), "adjacency": Values((6, 6), below=2)}


def p(*shape):
    return nn.Parameter(torch.randn(shape) * 0.3)


def linears(**sizes):
    return {name: nn.Linear(*size) for name, size in sizes.items()}


def conv(a, b, stride=1, size=3):
    return nn.Sequential(nn.Conv2d(a, b, size, stride, size // 2), nn.BatchNorm2d(b), nn.ReLU())


# Images.

def unet_plus_plus(m, x):
    """Every skip is a chain of nodes of its own."""
    up = lambda t: F.interpolate(t, scale_factor=2, mode="bilinear", align_corners=False)
    x00 = m.c00(x)
    x10 = m.c10(F.max_pool2d(x00, 2))
    x01 = m.c01(torch.cat([x00, up(x10)], 1))
    x20 = m.c20(F.max_pool2d(x10, 2))
    x11 = m.c11(torch.cat([x10, up(x20)], 1))
    return m.head(m.c02(torch.cat([x00, x01, up(x11)], 1)))


def attention_unet(m, x):
    low = m.down(F.max_pool2d(m.first(x), 2))
    high, gate = m.first(x), F.interpolate(low, scale_factor=2, mode="nearest")
    share = torch.sigmoid(m.share(F.relu(m.of_high(high) + m.of_gate(gate))))
    return m.head(torch.cat([high * share, gate], 1))


def high_resolution(m, x):
    """Two streams that exchange what they know."""
    high = m.stem(x)
    low = m.down(high)
    for a, b, to_low, to_high in zip(m.high, m.low, m.to_low, m.to_high):
        high, low = a(high), b(low)
        high, low = F.relu(high + F.interpolate(to_high(low), size=high.shape[2:], mode="nearest")), F.relu(low + to_low(high))
    return m.head(high)


def center_net(m, x):
    """Heat map, size and offset of boxes, each from its own head."""
    y = m.up(m.body(x))
    return torch.cat([torch.sigmoid(m.heat(y)), m.size(y), m.offset(y)], 1)


def cycle_gan():
    def block(c):
        return nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(c, c, 3), nn.InstanceNorm2d(c), nn.ReLU(), nn.ReflectionPad2d(1), nn.Conv2d(c, c, 3), nn.InstanceNorm2d(c))
    return Call(lambda m, x: torch.tanh(m.out(m.enter(x) + m.block(m.enter(x)))), enter=nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.InstanceNorm2d(8, affine=True), nn.LeakyReLU(0.2)),
                block=block(8), out=nn.ConvTranspose2d(8, 3, 4, 2, 1))


def modulated(m, x, style):
    """StyleGAN2: filters scaled for each sample and normalized."""
    n = x.shape[0]
    w = m.weight.unsqueeze(0) * (1 + m.style(style)).view(n, 1, 4, 1, 1)
    w = w * torch.rsqrt((w ** 2).sum((2, 3, 4), keepdim=True) + 1e-8)
    y = torch.einsum("nockl,nckluv->nouv", w, F.unfold(x, 3, padding=1).view(n, 4, 3, 3, 8, 8))
    return F.leaky_relu(y + m.bias.view(1, -1, 1, 1), 0.2)


def cbam(m, x):
    y = m.conv(x)
    share = torch.sigmoid(m.mlp(y.mean((2, 3))) + m.mlp(y.amax((2, 3))))
    y = y * share[:, :, None, None]
    where = torch.cat([y.mean(1, keepdim=True), y.amax(1, keepdim=True)], 1)
    return m.head((y * torch.sigmoid(m.where(where))).mean((2, 3)))


def non_local(m, x):
    y = m.conv(x)
    a, b, c = (t.flatten(2) for t in (m.a(y), m.b(y), m.c(y)))
    z = (c @ torch.softmax(a.transpose(1, 2) @ b, -1).transpose(1, 2)).view(*a.shape[:2], *y.shape[2:])
    return m.head((y + m.d(z)).mean((2, 3)))


def involution(m, x):
    n, c, h, w = x.shape
    kernel = m.make(x).view(n, 1, 9, h, w)
    return m.head((kernel * F.unfold(x, 3, padding=1).view(n, c, 9, h, w)).sum(2))


def pixel_cnn(m, x):
    y = F.relu(F.conv2d(x, m.first * m.first_mask, padding=2))
    return m.head(F.relu(F.conv2d(y, m.second * m.second_mask, padding=1)))


def make_pixel_cnn():
    def mask(size, own):
        t = torch.ones(size, size)
        t[size // 2, size // 2 + own:] = 0
        t[size // 2 + 1:] = 0
        return t.view(1, 1, size, size).clone()
    return Call(pixel_cnn, first=p(8, 1, 5, 5), second=p(8, 8, 3, 3), first_mask=mask(5, 0), second_mask=mask(3, 1), head=nn.Conv2d(8, 4, 1))


def cellular(m, x):
    """A neural cellular automaton: the same small step four times."""
    for _ in range(4):
        x = x + m.after(F.relu(m.before(F.pad(x, (1, 1, 1, 1), mode="circular"))))
    return x[:, :4]


def coordinates(m, x):
    """CoordConv."""
    n, _, h, w = x.shape
    ys = torch.linspace(-1, 1, h).view(1, 1, h, 1).expand(n, 1, h, w)
    xs = torch.linspace(-1, 1, w).view(1, 1, 1, w).expand(n, 1, h, w)
    return m.head(F.relu(m.conv(torch.cat([x, ys, xs], 1))).amax((2, 3)))


def slots(m, x):
    """Slot attention: slots compete for the places of the image."""
    places = m.enter(m.norm(x.flatten(2).transpose(1, 2)))
    k, v, s = m.k(places), m.v(places), m.slots.expand(x.shape[0], -1, -1)
    for _ in range(3):
        share = torch.softmax(k @ m.q(m.slot_norm(s)).transpose(1, 2) / 4, -1) + 1e-8
        update = (share / share.sum(1, keepdim=True)).transpose(1, 2) @ v
        s = m.gru(update.reshape(-1, 16), s.reshape(-1, 16)).view(-1, 3, 16)
    return m.head(s.mean(1))


def unet_3d(m, x):
    y = m.first(x)
    z = m.second(F.max_pool3d(y, 2))
    return m.head(torch.cat([y, F.interpolate(z, scale_factor=2, mode="trilinear", align_corners=True)], 1))


# Sequences.

def text_cnn(m, tokens):
    x = m.words(tokens).transpose(1, 2)
    return m.head(torch.cat([F.relu(c(x)).amax(2) for c in m.convs], 1))


def hierarchical(m, tokens):
    """Words to sentences, sentences to a document, by attention with a learned question."""
    n = tokens.shape[0]
    w = m.word(m.words(tokens).view(n * 3, 5, WIDTH))[0]
    s = (torch.softmax(w @ m.ask_word, 1).unsqueeze(2) * w).sum(1).view(n, 3, WIDTH)
    d = m.sentence(s)[0]
    return m.head((torch.softmax(d @ m.ask_sentence, 1).unsqueeze(2) * d).sum(1))


def quasi_recurrent(m, x):
    z, f, o = m.conv(F.pad(x.transpose(1, 2), (1, 0))).transpose(1, 2).chunk(3, 2)
    z, f, o = torch.tanh(z), torch.sigmoid(f), torch.sigmoid(o)
    c, ys = torch.zeros_like(z[:, 0]), []
    for i in range(STEPS):
        c = f[:, i] * c + (1 - f[:, i]) * z[:, i]
        ys.append(o[:, i] * c)
    return m.out(torch.stack(ys, 1))


def retention(m, x):
    """RetNet: decays in place of the softmax."""
    n = x.shape[0]
    q, k, v = (t.view(n, STEPS, 4, 4).transpose(1, 2) for t in m.qkv(x).chunk(3, 2))
    distance = (torch.arange(STEPS)[:, None] - torch.arange(STEPS)[None]).to(x.dtype)
    decay = torch.log(1 - 2.0 ** (-1 - torch.arange(4, dtype=x.dtype))).view(4, 1, 1)
    d = torch.where(distance >= 0, torch.exp(distance * decay), torch.zeros(()))
    y = m.norm(((q @ k.transpose(2, 3)) * d @ v).transpose(1, 2).reshape(n * STEPS, WIDTH)).view(n, STEPS, WIDTH)
    return m.out(F.silu(m.gate(x)) * y)


def performer(m, x):
    """Attention by random features, their matrix a buffer."""
    q, k, v = m.qkv(x).chunk(3, 2)
    feature = lambda t: torch.exp(t @ m.features - (t ** 2).sum(2, keepdim=True) / 2) / 4
    q, k = feature(q / 2), feature(k / 2)
    return m.out((q @ (k.transpose(1, 2) @ v)) / (q @ k.sum(1, keepdim=True).transpose(1, 2)))


def reformer(m, x):
    """Steps sorted by a hash; each chunk attends to itself."""
    n = x.shape[0]
    order = (x @ m.turn).argmax(2).mul(STEPS).add(torch.arange(STEPS)).argsort(1)
    index = order.unsqueeze(2).expand(-1, -1, WIDTH)
    q = m.qk(x).gather(1, index).view(n, 2, 5, WIDTH)
    v = m.v(x).gather(1, index).view(n, 2, 5, WIDTH)
    y = (torch.softmax(q @ F.normalize(q, dim=3).transpose(2, 3) / 4, -1) @ v).view(n, STEPS, WIDTH)
    return m.out(torch.zeros_like(y).scatter(1, index, y))


def hopfield(m, x):
    """A modern Hopfield layer: stored patterns, three updates."""
    y = m.enter(x)
    for _ in range(3):
        y = torch.softmax(2 * y @ m.patterns.t(), -1) @ m.patterns
    return m.out(y)


def hyena(m, x):
    """Long convolutions of filters that a network of the place makes, gated."""
    v, a, b = m.enter(x).chunk(3, 2)
    filters = m.filters(m.places).t().unsqueeze(1).flip(2)
    y = F.conv1d(F.pad((v * a).transpose(1, 2), (STEPS - 1, 0)), filters, groups=WIDTH).transpose(1, 2)
    return m.out(y * b)


def fourier_operator(m, x):
    """A Fourier neural operator in one dimension."""
    f = torch.fft.rfft(x.transpose(1, 2), dim=2)
    real, imaginary = f.real[:, :, :4], f.imag[:, :, :4]
    a = torch.einsum("bik,iok->bok", real, m.real) - torch.einsum("bik,iok->bok", imaginary, m.imaginary)
    b = torch.einsum("bik,iok->bok", real, m.imaginary) + torch.einsum("bik,iok->bok", imaginary, m.real)
    angle = 2 * math.pi * torch.arange(4).view(4, 1) * torch.arange(STEPS).view(1, -1) / STEPS
    y = (a @ torch.cos(angle) - b @ torch.sin(angle)) / STEPS
    return m.out(F.gelu(y.transpose(1, 2) + m.skip(x)))


def memory_network(m, history, item):
    """Three hops of questions to a memory of sentences."""
    u, keys, values = m.ask(item), m.key(history), m.value(history)
    for _ in range(3):
        u = m.turn(u) + (torch.softmax(keys @ u.unsqueeze(2), 1) * values).sum(1)
    return m.head(u)


def turing_machine(m, x):
    """A memory that is addressed by content, read and written at every step."""
    memory = m.memory.unsqueeze(0).expand(x.shape[0], -1, -1)
    h, ys = m.first.unsqueeze(0).expand(x.shape[0], -1), []
    for i in range(4):
        h = torch.tanh(m.step(torch.cat([x[:, i], h], 1)))
        share = torch.softmax(5 * F.cosine_similarity(m.key(h).unsqueeze(1), memory, dim=2), 1).unsqueeze(2)
        memory = memory * (1 - share * torch.sigmoid(m.erase(h)).unsqueeze(1)) + share * m.add_(h).unsqueeze(1)
        ys.append((share * memory).sum(1))
    return torch.stack(ys, 1)


def pointer(m, x):
    """A pointer network: at each step a distribution over the inputs."""
    memory, (h, c) = m.encoder(x)
    h, c, out, y = h[0], c[0], [], x.mean(1)
    for _ in range(4):
        h, c = m.decoder(y, (h, c))
        score = m.score(torch.tanh(m.memory(memory) + m.state(h).unsqueeze(1))).squeeze(2)
        y = (torch.softmax(score, 1).unsqueeze(2) * x).sum(1)
        out.append(score)
    return torch.stack(out, 1)


def liquid(m, x):
    """A liquid time constant network by fused Euler steps."""
    h = torch.zeros_like(x[:, 0])
    for i in range(STEPS):
        f = torch.sigmoid(m.f(torch.cat([x[:, i], h], 1)))
        h = (h + 0.1 * f * m.a) / (1 + 0.1 * (1 + f))
    return m.head(h)


def conformer(m, x):
    y = x + 0.5 * m.first(x)
    y = y + m.attend(y, y, y, need_weights=False)[0]
    z = F.glu(m.point(y.transpose(1, 2)), 1)
    y = y + m.mix(F.silu(m.norm(m.depth(z)))).transpose(1, 2)
    return m.last(y + 0.5 * m.second(y))


# Tables, recommendations, time series.

def ft_transformer(m, dense, which):
    """Every number and category a token, a token of its own for the answer."""
    numbers = dense.unsqueeze(2) * m.weight + m.bias
    words = m.table(which + torch.arange(3) * 9)
    t = torch.cat([m.token.expand(dense.shape[0], -1, -1), numbers, words], 1)
    return m.head(m.encoder(t)[:, 0])


def cross_network(m, x):
    """DCN v2."""
    y = x
    for layer in m.crosses:
        y = x * layer(y) + y
    return m.head(torch.cat([y, m.deep(x)], 1))


def compressed_interactions(m, which):
    """xDeepFM's CIN."""
    x = m.table(which)
    y, sums = x, []
    for w in (m.first, m.second):
        y = torch.einsum("bid,bjd,oij->bod", x, y, w)
        sums.append(y.sum(2))
    return m.head(torch.cat(sums, 1))


def interest(m, history, item):
    """DIN: the item asks the history."""
    h, i = m.items(history), m.items(item).unsqueeze(1)
    i = i.expand_as(h)
    share = m.score(torch.cat([h, i, h - i, h * i], 2))
    return m.head(torch.cat([(share * h).sum(1), i[:, 0]], 1))


def self_attentive(m, tokens):
    """SASRec: a causal transformer whose scores are products with the items."""
    x = m.items(tokens) + m.places
    mask = torch.triu(torch.ones(STEPS, STEPS, dtype=torch.bool), 1)
    y = x + m.attend(m.norm(x), x, x, attn_mask=mask, need_weights=False)[0]
    return (y + m.net(y)) @ m.items.weight.t()


def deep_ar(m, x):
    """A Gaussian's negative log likelihood of the next value at each step."""
    y = m.rnn(x[:, :-1])[0]
    mean, deviation = m.mean(y), F.softplus(m.deviation(y)) + 0.1
    return (((x[:, 1:, :1] - mean) / deviation) ** 2 / 2 + torch.log(deviation)).mean((1, 2))


def gated_residual(m, x):
    y = m.b(F.elu(m.a(x)))
    return m.norm(x + F.glu(m.gate(y), -1))


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.gate, self.norm = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        return gated_residual(self, x)


def temporal_fusion(m, x):
    y = m.select(x) * torch.softmax(m.share(x), -1)
    y = m.first(m.rnn(y)[0] + y)
    z = m.attend(y, y, y, need_weights=False)[0]
    return m.head(m.second(y + z))


def decomposition(m, x):
    """DLinear: a trend by a moving mean, and the rest."""
    t = x.transpose(1, 2)
    trend = F.avg_pool1d(F.pad(t, (2, 2), mode="replicate"), 5, 1)
    return (m.trend(trend) + m.rest(t - trend)).transpose(1, 2)


def n_hits(m, x):
    rest, total = x, 0.0
    for pool, net in zip((4, 2, 1), m.nets):
        back, knots = net(F.max_pool1d(rest.unsqueeze(1), pool).squeeze(1)).split([12, 2], 1)
        rest, total = rest - back, total + F.interpolate(knots.unsqueeze(1), size=4, mode="linear", align_corners=False).squeeze(1)
    return total


# Graphs, points, flows, others.

def dense_attention(m, nodes, adjacency):
    """GAT over a dense adjacency."""
    h = m.enter(nodes)
    score = F.leaky_relu(m.left(h) + m.right(h).transpose(1, 2), 0.2)
    share = torch.softmax(score.masked_fill(adjacency + torch.eye(6, dtype=torch.int64) == 0, -1e9), -1)
    return m.head(F.elu(share @ h).mean(1))


def isomorphism(m, nodes, adjacency):
    h = nodes
    for net, e in zip(m.nets, (m.e0, m.e1)):
        h = net((1 + e) * h + adjacency.to(h.dtype) @ h)
    return m.head(h.sum(1))


def equivariant(m, x):
    """EGNN: distances make messages, and move the points."""
    h = m.h.expand(x.shape[0], 6, -1)
    for edge, node, move in zip(m.edges, m.nodes, m.moves):
        difference = x.unsqueeze(2) - x.unsqueeze(1)
        d = (difference ** 2).sum(3, keepdim=True)
        message = edge(torch.cat([h.unsqueeze(2).expand(-1, -1, 6, -1), h.unsqueeze(1).expand(-1, 6, -1, -1), d], 3))
        x = x + (difference / (d + 1) * move(message)).mean(2)
        h = h + node(torch.cat([h, message.sum(2)], 2))
    return m.head(h.mean(1))


def made(m, x):
    """A masked autoregressive flow's density."""
    h = F.relu(F.linear(x, m.w1 * m.m1, m.b1))
    mean, scale = F.linear(h, m.w2 * m.m2, m.b2).chunk(2, 1)
    scale = torch.tanh(scale)
    return (((x - mean) * torch.exp(-scale)) ** 2 / 2 + scale).sum(1)


def make_made():
    degrees = torch.arange(16) % 11 + 1
    m1 = (degrees[:, None] >= torch.arange(1, 13)[None]).float()
    m2 = (torch.arange(1, 13)[:, None] > degrees[None]).float().repeat(2, 1)
    return Call(made, w1=p(16, 12), m1=m1, b1=p(16), w2=p(24, 16), m2=m2, b2=p(24))


def deep_equilibrium(m, x):
    z = torch.zeros_like(x)
    for _ in range(6):
        z = m.norm(torch.tanh(m.f(z) + m.enter(x)))
    return m.head(z)


def deep_operator(m, x, y):
    """DeepONet."""
    return (m.branch(x) * m.trunk(y)).sum(1, keepdim=True) + m.bias


def softmaxes(m, tokens):
    """A mixture of softmaxes."""
    h = m.rnn(m.words(tokens))[0]
    share = torch.softmax(m.share(h), -1).unsqueeze(3)
    each_ = torch.softmax(torch.tanh(m.latent(h)).view(-1, STEPS, 3, WIDTH) @ m.words.weight.t(), -1)
    return torch.log((share * each_).sum(2) + 1e-8)


def arc_face(m, x):
    return 16 * F.linear(F.normalize(m.net(x)), F.normalize(m.centres))


def encoder_of(width=WIDTH):
    return nn.TransformerEncoderLayer(width, 2, 32, 0.0, batch_first=True, activation="gelu", norm_first=True)


def attention():
    return nn.MultiheadAttention(WIDTH, 4, batch_first=True)


def row(name, make, inputs=None, labels=FEW, **options):
    return Row(name, "small", make, TABLE if inputs is None else inputs, labels, **options)


ROWS = [
    row("unet_plus_plus", lambda: Call(unet_plus_plus, c00=conv(3, 8), c10=conv(8, 8), c20=conv(8, 8), c01=conv(16, 8), c11=conv(16, 8), c02=conv(24, 8), head=nn.Conv2d(8, 4, 1)),
        SMALL, PIXELS, class_axis=1),
    row("attention_unet", lambda: Call(attention_unet, first=conv(3, 8), down=conv(8, 8), of_high=nn.Conv2d(8, 4, 1), of_gate=nn.Conv2d(8, 4, 1), share=nn.Conv2d(4, 1, 1),
                                       head=nn.Conv2d(16, 4, 1)), SMALL, PIXELS, class_axis=1),
    row("high_resolution", lambda: Call(high_resolution, stem=conv(3, 8), down=conv(8, 16, 2), high=each(lambda: conv(8, 8)), low=each(lambda: conv(16, 16)),
                                        to_low=each(lambda: nn.Conv2d(8, 16, 3, 2, 1)), to_high=each(lambda: nn.Conv2d(16, 8, 1)), head=nn.Conv2d(8, 4, 1)), SMALL, PIXELS, class_axis=1),
    row("center_net", lambda: Call(center_net, body=nn.Sequential(conv(3, 8, 2), conv(8, 16, 2)), up=nn.Sequential(nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.ReLU()),
                                   heat=nn.Conv2d(8, 2, 1), size=nn.Conv2d(8, 2, 1), offset=nn.Conv2d(8, 2, 1)), SMALL, Values((6, 8, 8))),
    row("cycle_gan", cycle_gan, SMALL, Values((3, 16, 16))),
    row("style_gan", lambda: Two(modulated, weight=p(6, 4, 3, 3), bias=p(6), style=nn.Linear(5, 4)), {"x": image(8, 4), "style": Values((5,))}, Values((6, 8, 8))),
    row("cbam", lambda: Call(cbam, conv=conv(3, 8), mlp=layers(8, 4, 8), where=nn.Conv2d(2, 1, 7, padding=3), head=nn.Linear(8, 4)), SMALL),
    row("non_local", lambda: Call(non_local, conv=conv(3, 8, 2), a=nn.Conv2d(8, 4, 1), b=nn.Conv2d(8, 4, 1), c=nn.Conv2d(8, 4, 1), d=nn.Conv2d(4, 8, 1), head=nn.Linear(8, 4)), SMALL),
    row("involution", lambda: Call(involution, make=nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 9, 1)), head=nn.Conv2d(3, 4, 1)), SMALL, PIXELS, class_axis=1),
    row("pixel_cnn", make_pixel_cnn, {"x": image(16, 1)}, PIXELS, class_axis=1),
    row("cellular_automaton", lambda: Call(cellular, before=nn.Conv2d(8, 16, 3), after=nn.Conv2d(16, 8, 1)), {"x": image(8, 8)}, Values((4, 8, 8))),
    row("coord_conv", lambda: Call(coordinates, conv=nn.Conv2d(5, 8, 3), head=nn.Linear(8, 4)), SMALL),
    row("slot_attention", lambda: Call(slots, norm=nn.LayerNorm(3), enter=nn.Linear(3, 16), slots=p(1, 3, 16), slot_norm=nn.LayerNorm(16), gru=nn.GRUCell(16, 16), head=nn.Linear(16, 4),
                                       **linears(q=(16, 16), k=(16, 16), v=(16, 16))), {"x": image(8)}),
    row("unet_3d", lambda: Call(unet_3d, first=nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU()),
                                second=nn.Sequential(nn.Conv3d(4, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU()), head=nn.Conv3d(8, 3, 1)), {"x": Values((1, 8, 8, 8))},
        Values((8, 8, 8), below=3), class_axis=1),
    row("text_cnn", lambda: Call(text_cnn, words=nn.Embedding(WORDS, WIDTH), convs=nn.ModuleList(nn.Conv1d(WIDTH, 8, k) for k in (2, 3, 4)), head=nn.Linear(24, 4)), TOKENS),
    row("hierarchical_attention", lambda: Call(hierarchical, words=nn.Embedding(WORDS, WIDTH), word=nn.GRU(WIDTH, 8, batch_first=True, bidirectional=True), ask_word=p(WIDTH),
                                               sentence=nn.GRU(WIDTH, 8, batch_first=True, bidirectional=True), ask_sentence=p(WIDTH), head=nn.Linear(WIDTH, 4)),
        {"tokens": Values((15,), below=WORDS)}),
    row("qrnn", lambda: Call(quasi_recurrent, conv=nn.Conv1d(WIDTH, 3 * WIDTH, 2), out=nn.Linear(WIDTH, WIDTH)), SERIES, SAME_SERIES),
    row("retnet", lambda: Call(retention, norm=nn.GroupNorm(4, WIDTH), **linears(qkv=(WIDTH, 48), gate=(WIDTH, WIDTH), out=(WIDTH, WIDTH))), SERIES, SAME_SERIES),
    row("performer", lambda: Call(performer, features=torch.randn(WIDTH, 12), **linears(qkv=(WIDTH, 48), out=(WIDTH, WIDTH))), SERIES, SAME_SERIES),
    row("reformer", lambda: Call(reformer, turn=torch.randn(WIDTH, 4), **linears(qk=(WIDTH, WIDTH), v=(WIDTH, WIDTH), out=(WIDTH, WIDTH))), SERIES, SAME_SERIES),
    row("hopfield", lambda: Call(hopfield, patterns=p(8, WIDTH), **linears(enter=(WIDTH, WIDTH), out=(WIDTH, WIDTH))), SERIES, SAME_SERIES),
    row("hyena", lambda: Call(hyena, places=torch.randn(STEPS, 3), filters=layers(3, 16, WIDTH, act=nn.SiLU), **linears(enter=(WIDTH, 48), out=(WIDTH, WIDTH))), SERIES, SAME_SERIES),
    row("fourier_operator", lambda: Call(fourier_operator, real=p(WIDTH, WIDTH, 4), imaginary=p(WIDTH, WIDTH, 4), **linears(skip=(WIDTH, WIDTH), out=(WIDTH, WIDTH))), SERIES, SAME_SERIES),
    row("memory_network", lambda: Two(memory_network, ask=nn.Embedding(WORDS, WIDTH), key=nn.Embedding(WORDS, WIDTH), value=nn.Embedding(WORDS, WIDTH),
                                      **linears(turn=(WIDTH, WIDTH), head=(WIDTH, 4))), HISTORY),
    row("turing_machine", lambda: Call(turing_machine, memory=p(6, 8), first=p(WIDTH), **linears(step=(2 * WIDTH, WIDTH), key=(WIDTH, 8), erase=(WIDTH, 8), add_=(WIDTH, 8))), SERIES,
        Values((4, 8))),
    row("pointer_network", lambda: Call(pointer, encoder=nn.LSTM(WIDTH, WIDTH, batch_first=True), decoder=nn.LSTMCell(WIDTH, WIDTH),
                                        **linears(memory=(WIDTH, 8), state=(WIDTH, 8), score=(8, 1))), SERIES, Values((4,), below=STEPS)),
    row("liquid", lambda: Call(liquid, f=nn.Linear(2 * WIDTH, WIDTH), a=p(WIDTH), head=nn.Linear(WIDTH, 4)), SERIES),
    row("conformer", lambda: Call(conformer, first=layers(WIDTH, 32, WIDTH, act=nn.SiLU), second=layers(WIDTH, 32, WIDTH, act=nn.SiLU), attend=attention(), point=nn.Conv1d(WIDTH, 32, 1),
                                  depth=nn.Conv1d(WIDTH, WIDTH, 5, padding=2, groups=WIDTH), norm=nn.BatchNorm1d(WIDTH), mix=nn.Conv1d(WIDTH, WIDTH, 1), last=nn.LayerNorm(WIDTH)),
        SERIES, SAME_SERIES),
    row("ft_transformer", lambda: Two(ft_transformer, weight=p(6, WIDTH), bias=p(6, WIDTH), table=nn.Embedding(27, WIDTH), token=p(1, 1, WIDTH), encoder=encoder_of(), head=nn.Linear(WIDTH, 4)),
        MIXED),
    row("cross_network", lambda: Call(cross_network, crosses=each(lambda: nn.Linear(12, 12)), deep=layers(12, 16, 8), head=nn.Linear(20, 4))),
    row("xdeepfm", lambda: Call(compressed_interactions, table=nn.Embedding(9, 8), first=p(4, 5, 5), second=p(4, 5, 4), head=nn.Linear(8, 4)), {"which": Values((5,), below=9)}),
    row("interest_network", lambda: Two(interest, items=nn.Embedding(WORDS, WIDTH), score=layers(64, 16, 1, act=nn.PReLU), head=layers(32, 16, 2)), HISTORY, Values((), below=2)),
    row("sasrec", lambda: Call(self_attentive, items=nn.Embedding(WORDS, WIDTH), places=p(STEPS, WIDTH), norm=nn.LayerNorm(WIDTH), attend=attention(), net=layers(WIDTH, WIDTH, WIDTH)),
        TOKENS, SAME_TOKENS),
    row("deep_ar", lambda: Call(deep_ar, rnn=nn.LSTM(WIDTH, 8, 2, batch_first=True), **linears(mean=(8, 1), deviation=(8, 1))), SERIES, None),
    row("temporal_fusion", lambda: Call(temporal_fusion, rnn=nn.LSTM(WIDTH, WIDTH, batch_first=True), first=Gated(), second=Gated(), attend=attention(),
                                        **linears(select=(WIDTH, WIDTH), share=(WIDTH, WIDTH), head=(WIDTH, 3))), SERIES, Values((STEPS, 3))),
    row("dlinear", lambda: Call(decomposition, **linears(trend=(STEPS, 4), rest=(STEPS, 4))), SERIES, Values((4, WIDTH))),
    row("n_hits", lambda: Call(n_hits, nets=nn.ModuleList(layers(n, 16, 14) for n in (3, 6, 12))), None, Values((4,))),
    row("gat_dense", lambda: Two(dense_attention, **linears(enter=(5, 8), left=(8, 1), right=(8, 1), head=(8, 4))), GRAPH),
    row("graph_isomorphism", lambda: Two(isomorphism, nets=nn.ModuleList([layers(5, 8, 8), layers(8, 8, 8)]), e0=p(1), e1=p(1), head=nn.Linear(8, 4)), GRAPH),
    row("egnn", lambda: Call(equivariant, h=p(1, 1, 8), edges=each(lambda: layers(17, 16, 8, act=nn.SiLU)), nodes=each(lambda: layers(16, 16, 8, act=nn.SiLU)),
                             moves=each(lambda: layers(8, 8, 1, act=nn.SiLU)), head=nn.Linear(8, 4)), {"x": Values((6, 3))}),
    row("masked_flow", make_made, None, None),
    row("deep_equilibrium", lambda: Call(deep_equilibrium, norm=nn.LayerNorm(12), **linears(f=(12, 12), enter=(12, 12), head=(12, 4)))),
    row("deep_o_net", lambda: Two(deep_operator, branch=layers(12, 16, 8, act=nn.Tanh), trunk=layers(2, 16, 8, act=nn.Tanh), bias=p(1)), {"x": Values((12,)), "place": Values((2,))}, Values((1,))),
    row("mixture_of_softmaxes", lambda: Call(softmaxes, words=nn.Embedding(WORDS, WIDTH), rnn=nn.GRU(WIDTH, WIDTH, batch_first=True), **linears(share=(WIDTH, 3), latent=(WIDTH, 48))),
        TOKENS, SAME_TOKENS),
    row("arc_face", lambda: Call(arc_face, net=layers(12, 16, 8), centres=p(4, 8))),
]
