"""Small models over tables, graphs, series, sounds and control of a seventh sample, chosen before anything of it was exported."""
import torch
from torch import nn
from torch.nn import functional as F

from row import Call, Row, Uniform, Values
from small_tables import Three, Two, layers

NODES, WIDTH = 6, 8
FEW, KIND, NUMBER = Values((), below=4), Values((), below=3), Values(())
TABLE, WHICH, SERIES, SOUND = {"x": Values((12,))}, {"which": Values((4,), below=7)}, {"x": Values((16, 3))}, {"x": Values((1, 64))}
GRAPH = {"x": Values((NODES, 5)), "near": Values((NODES, NODES), below=2)}


def several(count, make):
    return nn.ModuleList(make() for _ in range(count))


def p(*shape):
    return nn.Parameter(torch.randn(shape) * 0.3)


def row(name, make, inputs, labels, **options):
    return Row(name, "small", make, inputs, labels, **options)


def edges(near):
    """The adjacency with loops, each row divided by its sum."""
    a = near.to(torch.float32) + torch.eye(NODES)
    return a / a.sum(-1, keepdim=True)


def neural_factorization(m, which):
    """NFM: half of the squared sum minus the sum of squares, through a perceptron."""
    v = m.table(which + m.offsets)
    pooled = 0.5 * (v.sum(1) ** 2 - (v ** 2).sum(1))
    return m.deep(m.norm(pooled)) + m.linear(which + m.offsets).sum(1)


def attentional_factorization(m, which):
    """AFM: products of pairs of fields, weighed by attention."""
    v = m.table(which + m.offsets)
    a, b = torch.triu_indices(4, 4, 1)
    pairs = v[:, a] * v[:, b]
    weight = m.score(torch.relu(m.attend(pairs))).softmax(1)
    return m.head((weight * pairs).sum(1))


def product_network(m, which):
    """PNN: inner and outer products of fields beside the fields."""
    v = m.table(which + m.offsets)
    inner = (v @ v.transpose(1, 2)).flatten(1)
    total = v.sum(1)
    outer = (total.unsqueeze(2) * total.unsqueeze(1)).flatten(1)
    return m.deep(torch.cat([v.flatten(1), m.inner(inner), m.outer(outer)], 1))


class Set2Set(nn.Module):
    """Messages by a network of the edge, a recurrent update, and a readout that asks the set three times."""

    def __init__(self):
        super().__init__()
        self.enter, self.edge, self.update = nn.Linear(5, WIDTH), nn.Embedding(2, WIDTH * WIDTH), nn.GRUCell(WIDTH, WIDTH)
        self.ask, self.head = nn.LSTMCell(2 * WIDTH, WIDTH), nn.Linear(2 * WIDTH, 3)

    def forward(self, x, near):
        h = torch.tanh(self.enter(x))
        by_edge = self.edge(near).unflatten(-1, (WIDTH, WIDTH))
        for _ in range(2):
            told = torch.einsum("nijde,nje->nid", by_edge, h)
            h = self.update(told.flatten(0, 1), h.flatten(0, 1)).view_as(h)
        q = torch.zeros(x.size(0), 2 * WIDTH)
        state = (torch.zeros(x.size(0), WIDTH), torch.zeros(x.size(0), WIDTH))
        for _ in range(3):
            state = self.ask(q, state)
            share = (h @ state[0].unsqueeze(2)).softmax(1)
            q = torch.cat([state[0], (share * h).sum(1)], 1)
        return self.head(q)


def initial_residual(m, x, near):
    """GCNII: each layer adds the first features and is near the identity."""
    a = edges(near)
    first = y = torch.relu(m.enter(x))
    for i, layer in enumerate(m.layers):
        y = 0.9 * (a @ y) + 0.1 * first
        strength = 0.5 / (i + 1)
        y = torch.relu((1 - strength) * y + strength * layer(y))
    return m.head(y.mean(1))


def gated_convolution_graph(m, x, near):
    """GatedGCN: edges have features and gates, both with residuals."""
    h, e = m.enter(x), m.edge(near)
    for a, b, c, u, v in zip(m.a, m.b, m.c, m.u, m.v):
        e = e + torch.relu(a(h).unsqueeze(2) + b(h).unsqueeze(1) + c(e))
        gate = torch.sigmoid(e)
        h = h + torch.relu(u(h) + (gate * v(h).unsqueeze(1)).sum(2) / (gate.sum(2) + 1e-6))
    return m.head(h.mean(1))


def gravity_network(m, x):
    """GravNet: neighbours in a learned space, weighed by a Gaussian of how far they are."""
    place, said = m.place(x), m.said(x)
    far = ((place.unsqueeze(2) - place.unsqueeze(1)) ** 2).sum(-1)
    near, which = (-far).topk(3, -1)
    picked = said.unsqueeze(1).expand(-1, x.size(1), -1, -1).gather(2, which.unsqueeze(-1).expand(-1, -1, -1, WIDTH))
    weighed = picked * torch.exp(10 * near).unsqueeze(-1)
    return m.head(torch.cat([x, weighed.mean(2), weighed.amax(2)], -1).mean(1))


def mesh_messages(m, x):
    """MeshGraphNets: edges of a fixed mesh, updated from both ends, summed at each node."""
    h, e = m.node(x), m.edge(x[:, m.sender] - x[:, m.receiver])
    for on_edge, on_node in zip(m.on_edge, m.on_node):
        e = e + on_edge(torch.cat([e, h[:, m.sender], h[:, m.receiver]], -1))
        total = torch.zeros_like(h).index_add(1, m.receiver, e)
        h = h + on_node(torch.cat([h, total], -1))
    return m.head(h)


def symplectic_network(m, x):
    """SympNet: gradients of ridge functions move places and momenta by turns, so that volumes stay."""
    q, momentum = x.chunk(2, 1)
    for i, (k, a, b) in enumerate(zip(m.k, m.a, m.b)):
        if i % 2:
            q = q + (torch.tanh(momentum @ k + b) * a) @ k.t()
        else:
            momentum = momentum + (torch.tanh(q @ k + b) * a) @ k.t()
    return torch.cat([q, momentum], 1)


def koopman(m, x, control):
    """A linear map of encoded states and controls, unrolled."""
    z, said = m.encode(x), []
    for t in range(4):
        z = z @ m.a + control[:, t] @ m.b
        said.append(m.decode(z))
    return torch.stack(said, 1)


def decaying_recurrence(m, x, seen, since):
    """GRU-D: missing numbers decay to a mean, the state decays, too."""
    h, last = torch.zeros(x.size(0), WIDTH), torch.zeros(x.size(0), 3)
    for t in range(6):
        decay = torch.exp(-torch.relu(m.decay_x(since[:, t])))
        known = seen[:, t].to(x.dtype)
        last = known * x[:, t] + (1 - known) * last
        filled = known * x[:, t] + (1 - known) * (decay * last + (1 - decay) * m.mean)
        h = h * torch.exp(-torch.relu(m.decay_h(since[:, t])))
        h = m.cell(torch.cat([filled, known], 1), h)
    return m.head(h)


def multi_scale_isometric(m, x):
    """MICN: trends by means of windows, the rest by convolutions of several strides that are put together again."""
    y = x.transpose(1, 2)
    trend = sum(F.avg_pool1d(F.pad(y, (k // 2, k // 2), mode="replicate"), k, 1) for k in (3, 5)) / 2
    season, parts = m.enter(y - trend), []
    for down, across, up in zip(m.down, m.across, m.up):
        z = torch.tanh(down(season))
        z = torch.tanh(across(F.pad(z, (z.size(2) - 1, 0)))) + z
        parts.append(torch.tanh(up(z)) + season)
    season = m.merge(torch.stack(parts, 2)).squeeze(2)
    return (m.forecast(trend) + m.leave(season)[:, :, -4:]).transpose(1, 2)


def two_stage_attention(m, x):
    """Crossformer: attention along time, then among series by way of a few routers."""
    y = m.enter(x.transpose(1, 2).unflatten(2, (4, 4)))
    n = y.size(0)
    for time, gather, spread, router, wide in zip(m.time, m.gather, m.spread, m.routers, m.wide):
        z = y.flatten(0, 1)
        y = y + time(z, z, z, need_weights=False)[0].view_as(y)
        z = y.transpose(1, 2).flatten(0, 1)
        met = router.unsqueeze(0).expand(n, -1, -1, -1).flatten(0, 1)
        met = gather(met, z, z, need_weights=False)[0]
        y = y + spread(z, met, met, need_weights=False)[0].view(n, 4, 3, WIDTH).transpose(1, 2)
        y = y + wide(y)
    return m.head(y.flatten(2)).transpose(1, 2)


def random_kernels(m, x):
    """ROCKET: convolutions that nobody trains; maxima and the share above zero go through a layer that is trained."""
    said = []
    for filters, bias, dilation in ((m.f1, m.b1, 1), (m.f2, m.b2, 2)):
        y = F.conv1d(x.transpose(1, 2), filters, bias, padding="same", dilation=dilation)
        said += [y.amax(2), torch.sigmoid(10 * y).mean(2)]
    return m.head(torch.cat(said, 1))


def lstm_beside_convolutions(m, x):
    """LSTM-FCN: a recurrence over the turned series beside convolutions with squeeze and excitation."""
    h = m.lstm(x.transpose(1, 2))[0][:, -1]
    y = x.transpose(1, 2)
    for block, squeeze in zip(m.blocks, m.squeezes):
        y = block(y)
        y = y * squeeze(y.mean(2)).unsqueeze(2)
    return m.head(torch.cat([h, y.mean(2)], 1))


def dueling_q(m, x):
    """A value and advantages without their mean."""
    y = m.body(x)
    gain = m.gain(y)
    return m.value(y) + gain - gain.mean(1, keepdim=True)


def curiosity(m, state, after, action):
    """ICM: which action led there, and how well the next features are foretold; the loss is the output."""
    a, b = m.features(state), m.features(after)
    done = m.actions(action)
    foretold = m.forward_model(torch.cat([a, done], 1))
    inverse = F.cross_entropy(m.inverse(torch.cat([a, b], 1)), action)
    return 0.2 * F.mse_loss(foretold, b.detach()) + 0.8 * inverse


def sylvester_flow(m, x):
    """A flow by triangular matrices between reflections; minus its log-likelihood."""
    total = torch.zeros(x.size(0))
    for v, r1, r2, b in zip(m.v, m.r1, m.r2, m.b):
        q = torch.eye(4) - 2 * v.unsqueeze(1) * v.unsqueeze(0) / (v ** 2).sum()
        upper, other = torch.triu(r1, 1) + torch.diag(torch.tanh(torch.diagonal(r1))), torch.triu(r2, 1) + torch.diag(torch.tanh(torch.diagonal(r2)))
        h = torch.tanh(x @ q @ other.t() + b)
        x = x + h @ upper.t() @ q.t()
        slope = (1 - h ** 2) * torch.diagonal(upper) * torch.diagonal(other)
        total = total + torch.log((1 + slope).abs()).sum(1)
    return (0.5 * (x ** 2).sum(1) - total).mean()


def autoregressive_density(m, bits):
    """NADE: hidden sums grow bit by bit; the loss is the negative log-likelihood."""
    x = bits.to(torch.float32)
    a, total = m.c.expand(x.size(0), -1), torch.zeros(x.size(0))
    for i in range(6):
        logit = torch.sigmoid(a) @ m.v[i] + m.b[i]
        total = total + F.binary_cross_entropy_with_logits(logit, x[:, i], reduction="none")
        a = a + x[:, i].unsqueeze(1) * m.w[i]
    return total.mean()


def ordinal_ranks(m, x, rank):
    """CORAL: one score, as many thresholds as ranks less one; the loss is the output."""
    score = m.body(x) + m.thresholds
    above = (rank.unsqueeze(1) > torch.arange(4)).to(x.dtype)
    return F.binary_cross_entropy_with_logits(score, above)


def uncertain_tasks(m, x, y, kind):
    """Two losses weighed by learned variances."""
    h = m.body(x)
    first, second = F.mse_loss(m.number(h).squeeze(1), y), F.cross_entropy(m.kind(h), kind)
    a, b = m.log_variance
    return 0.5 * torch.exp(-a) * first + torch.exp(-b) * second + 0.5 * (a + b)


def monotone_lattice(m, x):
    """Piecewise linear calibrators with positive slopes, then a multilinear lattice of two of them."""
    slopes = F.softplus(m.slopes)
    steps = (torch.sigmoid(x[:, :2]).unsqueeze(2) * 5 - torch.arange(5)).clamp(0, 1)
    u, v = torch.sigmoid((steps * slopes).sum(2) - 2).unbind(1)
    corners = torch.stack([(1 - u) * (1 - v), (1 - u) * v, u * (1 - v), u * v], 1)
    return corners @ m.corners + m.rest(x[:, 2:])


def counted_hurdle(m, x, count):
    """Zero-inflated Poisson regression; the loss is the negative log-likelihood without its constant."""
    y, said = count.to(torch.float32), m.body(x)
    log_rate, zero = said[:, 0].clamp(-4, 4), said[:, 1]
    positive = -F.logsigmoid(-zero) + torch.exp(log_rate) - y * log_rate
    none = -torch.log(torch.sigmoid(zero) + torch.sigmoid(-zero) * torch.exp(-torch.exp(log_rate)))
    return torch.where(count == 0, none, positive).mean()


def pitch_network(m, x):
    """CREPE: convolutions of a frame of sound, pooled, one of many pitches."""
    for block in m.blocks:
        x = F.max_pool1d(block(x), 2)
    return m.head(x.transpose(1, 2).flatten(1))


def flow_of_sound(m, x):
    """WaveGlow: groups of samples, invertible 1x1 convolutions and affine couplings; minus its log-likelihood."""
    y = x.view(-1, 16, 4).transpose(1, 2)
    total = 0.0
    for mix, start, gate, end in zip(m.mix, m.start, m.gate, m.end):
        y = F.conv1d(y, (mix + 2 * torch.eye(4)).unsqueeze(2))
        a, b = y.chunk(2, 1)
        t, s = gate(start(a)).chunk(2, 1)
        shift, scale = end(torch.tanh(t) * torch.sigmoid(s)).chunk(2, 1)
        y, total = torch.cat([a, b * torch.exp(scale) + shift], 1), total + scale.sum((1, 2))
    return (0.5 * (y ** 2).sum((1, 2)) - total).mean() / 64


def haar_operator(m, x):
    """A neural operator over Haar wavelets: two levels down, layers by level, and up again."""
    y = m.enter(x.transpose(1, 2))
    for low, high in zip(m.low, m.high):
        kept, rest = [], y
        for _ in range(2):
            even, odd = rest[:, :, ::2], rest[:, :, 1::2]
            rest, detail = (even + odd) / 2 ** 0.5, (even - odd) / 2 ** 0.5
            kept.append(torch.einsum("nct,cd->ndt", detail, high))
        rest = torch.einsum("nct,cdt->ndt", rest, low)
        for detail in reversed(kept):
            rest = torch.stack([rest + detail, rest - detail], 3).flatten(2) / 2 ** 0.5
        y = y + F.gelu(rest)
    return m.leave(y).transpose(1, 2)


def scales_and_numbers(m, x):
    """RealMLP: a learned scale of each number, layers scaled by the root of their width, a learned slope of the activation."""
    y = x * m.scale
    for weight, bias, slope in zip(m.weights, m.biases, m.slopes):
        y = y @ weight / weight.size(0) ** 0.5 + bias
        y = y + slope * (F.selu(y) - y)
    return m.head(y)


OFFSETS = {"offsets": torch.arange(0, 28, 7)}
MESH = {"sender": torch.tensor([0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 0]), "receiver": torch.tensor([1, 0, 2, 1, 3, 2, 4, 3, 5, 4, 0, 5])}
ROWS = [
    row("neural_factorization", lambda: Call(neural_factorization, table=nn.Embedding(28, WIDTH), linear=nn.Embedding(28, 2), norm=nn.BatchNorm1d(WIDTH),
                                             deep=layers(WIDTH, 16, 2), **OFFSETS), WHICH, Values((), below=2)),
    row("attentional_factorization", lambda: Call(attentional_factorization, table=nn.Embedding(28, WIDTH), attend=nn.Linear(WIDTH, 6), score=nn.Linear(6, 1, bias=False),
                                                  head=nn.Linear(WIDTH, 2), **OFFSETS), WHICH, Values((), below=2)),
    row("product_network", lambda: Call(product_network, table=nn.Embedding(28, WIDTH), inner=nn.Linear(16, 8), outer=nn.Linear(64, 8), deep=layers(48, 16, 2), **OFFSETS),
        WHICH, Values((), below=2)),
    row("set_to_set_readout", Set2Set, GRAPH, KIND),
    row("initial_residual", lambda: Two(initial_residual, enter=nn.Linear(5, WIDTH), layers=several(3, lambda: nn.Linear(WIDTH, WIDTH, bias=False)), head=nn.Linear(WIDTH, 3)), GRAPH, KIND),
    row("gated_convolution_graph", lambda: Two(gated_convolution_graph, enter=nn.Linear(5, WIDTH), edge=nn.Embedding(2, WIDTH), head=nn.Linear(WIDTH, 3),
                                               **{k: several(2, lambda: nn.Linear(WIDTH, WIDTH)) for k in "abcuv"}), GRAPH, KIND),
    row("gravity_network", lambda: Call(gravity_network, place=nn.Linear(5, 3), said=nn.Linear(5, WIDTH), head=layers(5 + 2 * WIDTH, 16, 3)), {"x": Values((10, 5))}, KIND),
    row("mesh_messages", lambda: Call(mesh_messages, node=nn.Linear(5, WIDTH), edge=nn.Linear(5, WIDTH), on_edge=several(2, lambda: layers(3 * WIDTH, WIDTH, WIDTH)),
                                      on_node=several(2, lambda: layers(2 * WIDTH, WIDTH, WIDTH)), head=nn.Linear(WIDTH, 2), **MESH), {"x": Values((NODES, 5))}, Values((NODES, 2))),
    row("symplectic_network", lambda: Call(symplectic_network, k=nn.ParameterList(p(2, 10) for _ in range(4)), a=nn.ParameterList(p(10) for _ in range(4)),
                                           b=nn.ParameterList(p(10) for _ in range(4))), {"x": Values((4,))}, Values((4,))),
    row("koopman", lambda: Two(koopman, encode=layers(6, 16, WIDTH), decode=layers(WIDTH, 16, 6), a=p(WIDTH, WIDTH), b=p(2, WIDTH)),
        {"x": Values((6,)), "control": Values((4, 2))}, Values((4, 6))),
    row("decaying_recurrence", lambda: Three(decaying_recurrence, decay_x=nn.Linear(3, 3), decay_h=nn.Linear(3, WIDTH), mean=p(3), cell=nn.GRUCell(6, WIDTH), head=nn.Linear(WIDTH, 2)),
        {"x": Values((6, 3)), "seen": Values((6, 3), below=2), "since": Uniform((6, 3))}, Values((), below=2)),
    row("multi_scale_isometric", lambda: Call(multi_scale_isometric, enter=nn.Conv1d(3, WIDTH, 1), down=nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, k, k) for k in (2, 4)),
                                              across=nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 16 // k) for k in (2, 4)),
                                              up=nn.ModuleList(nn.ConvTranspose1d(WIDTH, WIDTH, k, k) for k in (2, 4)), merge=nn.Conv2d(WIDTH, WIDTH, (2, 1)),
                                              forecast=nn.Linear(16, 4), leave=nn.Conv1d(WIDTH, 3, 1)), SERIES, Values((4, 3))),
    row("two_stage_attention", lambda: Call(two_stage_attention, enter=nn.Linear(4, WIDTH), routers=nn.ParameterList(p(4, 2, WIDTH) for _ in range(2)), head=nn.Linear(4 * WIDTH, 4),
                                            wide=several(2, lambda: layers(WIDTH, 16, WIDTH, act=nn.GELU)),
                                            **{k: several(2, lambda: nn.MultiheadAttention(WIDTH, 2, batch_first=True)) for k in ("time", "gather", "spread")}), SERIES, Values((4, 3))),
    row("random_kernels", lambda: Call(random_kernels, f1=torch.randn(6, 3, 5), b1=torch.randn(6), f2=torch.randn(6, 3, 5), b2=torch.randn(6), head=nn.Linear(24, 4)), SERIES, FEW),
    row("lstm_beside_convolutions", lambda: Call(lstm_beside_convolutions, lstm=nn.LSTM(16, WIDTH, batch_first=True),
                                                 blocks=nn.ModuleList(nn.Sequential(nn.Conv1d(a, b, 3, padding=1), nn.BatchNorm1d(b), nn.ReLU()) for a, b in ((3, 8), (8, 12))),
                                                 squeezes=nn.ModuleList(nn.Sequential(nn.Linear(c, 4, bias=False), nn.ReLU(), nn.Linear(4, c, bias=False), nn.Sigmoid()) for c in (8, 12)),
                                                 head=nn.Linear(WIDTH + 12, 4)), SERIES, FEW),
    row("dueling_q", lambda: Call(dueling_q, body=layers(12, 16, 16), value=nn.Linear(16, 1), gain=nn.Linear(16, 4)), TABLE, Values((4,))),
    row("curiosity", lambda: Three(curiosity, features=layers(8, 16, WIDTH), actions=nn.Embedding(4, 4), forward_model=layers(12, 16, WIDTH), inverse=layers(16, 16, 4)),
        {"state": Values((8,)), "after": Values((8,)), "action": FEW}, None),
    row("sylvester_flow", lambda: Call(sylvester_flow, v=nn.ParameterList(p(4) for _ in range(2)), r1=nn.ParameterList(p(4, 4) for _ in range(2)),
                                       r2=nn.ParameterList(p(4, 4) for _ in range(2)), b=nn.ParameterList(p(4) for _ in range(2))), {"x": Values((4,))}, None),
    row("autoregressive_density", lambda: Call(autoregressive_density, c=p(10), v=p(6, 10), b=p(6), w=p(6, 10)), {"bits": Values((6,), below=2)}, None),
    row("ordinal_ranks", lambda: Two(ordinal_ranks, body=layers(12, 16, 1), thresholds=p(4)), {**TABLE, "rank": Values((), below=5)}, None),
    row("uncertain_tasks", lambda: Three(uncertain_tasks, body=layers(12, 16, 16), number=nn.Linear(16, 1), kind=nn.Linear(16, 3), log_variance=p(2)),
        {**TABLE, "number": NUMBER, "kind": KIND}, None),
    row("monotone_lattice", lambda: Call(monotone_lattice, slopes=p(2, 5), corners=p(4, 2), rest=nn.Linear(10, 2)), TABLE, Values((), below=2)),
    row("counted_hurdle", lambda: Two(counted_hurdle, body=layers(12, 16, 2, act=nn.Tanh)), {**TABLE, "count": Values((), below=4)}, None),
    row("pitch_network", lambda: Call(pitch_network, blocks=nn.ModuleList(nn.Sequential(nn.Conv1d(a, b, k, padding="same"), nn.ReLU(), nn.BatchNorm1d(b))
                                                                          for a, b, k in ((1, 8, 9), (8, 12, 5))), head=nn.Linear(192, 10)), SOUND, Values((), below=10)),
    row("flow_of_sound", lambda: Call(flow_of_sound, mix=nn.ParameterList(p(4, 4) for _ in range(2)), start=several(2, lambda: nn.Conv1d(2, 8, 1)),
                                      gate=several(2, lambda: nn.Conv1d(8, 16, 3, padding=1)), end=several(2, lambda: nn.Conv1d(8, 4, 1))), SOUND, None),
    row("haar_operator", lambda: Call(haar_operator, enter=nn.Conv1d(3, WIDTH, 1), low=nn.ParameterList(p(WIDTH, WIDTH, 4) for _ in range(2)),
                                      high=nn.ParameterList(p(WIDTH, WIDTH) for _ in range(2)), leave=nn.Conv1d(WIDTH, 2, 1)), SERIES, Values((16, 2))),
    row("scales_and_numbers", lambda: Call(scales_and_numbers, scale=p(12), weights=nn.ParameterList([p(12, 16), p(16, 16)]), biases=nn.ParameterList([p(16), p(16)]),
                                           slopes=nn.ParameterList([p(16), p(16)]), head=nn.Linear(16, 4)), TABLE, FEW),
]
