"""Small models over sequences: recurrent, attention and convolutions in time."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from row import Call, Mask, Row, Values

WORDS, STEPS, WIDTH = 31, 10, 16
TOKENS = {"tokens": Values((STEPS,), below=WORDS)}
SERIES = {"x": Values((STEPS, WIDTH))}
SAME = Values((STEPS,), below=WORDS)
FEW = Values((), below=4)


class Recurrent(nn.Module):
    """Text to classes by a recurrent layer's last step; `pick` takes (outputs, state)."""

    def __init__(self, kind, layers=1, both=False, pick=None, batch_first=True, **options):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.batch_first, self.pick = batch_first, pick or (lambda y, h: y[:, -1])
        self.layer = kind(WIDTH, 12, layers, batch_first=batch_first, bidirectional=both, **options)
        self.head = nn.Linear(24 if both else options.get("proj_size") or 12, 4)

    def forward(self, tokens):
        x = self.words(tokens)
        y, state = self.layer(x if self.batch_first else x.transpose(0, 1))
        return self.head(self.pick(y if self.batch_first else y.transpose(0, 1), state))


class Tagger(nn.Module):
    """A class for every step, from both directions."""

    def __init__(self, kind):
        super().__init__()
        self.words, self.layer, self.head = nn.Embedding(WORDS, WIDTH), kind(WIDTH, 8, batch_first=True, bidirectional=True), nn.Linear(16, WORDS)

    def forward(self, tokens):
        return self.head(self.layer(self.words(tokens))[0])


class Given(nn.Module):
    """A language model whose first state is an input."""

    def __init__(self):
        super().__init__()
        self.words, self.layer, self.head = nn.Embedding(WORDS, WIDTH), nn.GRU(WIDTH, 8, batch_first=True), nn.Linear(8, WORDS)

    def forward(self, tokens, state):
        return self.head(self.layer(self.words(tokens), state.unsqueeze(0))[0])


class Cells(nn.Module):
    """A cell called step by step."""

    def __init__(self, cell):
        super().__init__()
        self.words, self.cell, self.head = nn.Embedding(WORDS, WIDTH), cell(WIDTH, 8), nn.Linear(8, WORDS)

    def forward(self, tokens):
        x, state, steps = self.words(tokens), None, []
        for i in range(STEPS):
            state = self.cell(x[:, i], state)
            steps.append(state[0] if isinstance(state, tuple) else state)
        return self.head(torch.stack(steps, 1))


class Seq2Seq(nn.Module):
    """An encoder's state starts the decoder, whose steps attend to the encoder's."""

    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.encoder, self.decoder = nn.LSTM(WIDTH, 12, batch_first=True), nn.LSTM(WIDTH, 12, batch_first=True)
        self.head = nn.Linear(24, WORDS)

    def forward(self, source, target):
        memory, state = self.encoder(self.source(source))
        y, _ = self.decoder(self.target(target), state)
        shares = torch.softmax(y @ memory.transpose(1, 2), 2)
        return self.head(torch.cat([y, shares @ memory], 2))


class Transformer(nn.Module):
    """PyTorch's own encoder, with a causal mask or one for padding."""

    def __init__(self, causal=False, padded=False, norm_first=False):
        super().__init__()
        self.words, self.positions = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.randn(STEPS, WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 32, dropout=0.0, batch_first=True, norm_first=norm_first)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(WIDTH, WORDS)
        self.causal, self.padded = causal, padded

    def forward(self, tokens, present=None):
        mask = nn.Transformer.generate_square_subsequent_mask(STEPS) if self.causal else None
        x = self.words(tokens) + self.positions
        return self.head(self.encoder(x, mask, src_key_padding_mask=present == 0 if self.padded else None, is_causal=self.causal))


class EncoderDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.net = nn.Transformer(WIDTH, 4, 1, 1, 32, dropout=0.0, batch_first=True)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(STEPS)
        return self.head(self.net(self.words(source), self.words(target), tgt_mask=mask, tgt_is_causal=True))


def scaled(m, x):
    """scaled_dot_product_attention, causal."""
    n, s, c = x.shape
    q, k, v = (t.view(n, s, 4, c // 4).transpose(1, 2) for t in m.qkv(x).chunk(3, 2))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return m.out(y.transpose(1, 2).reshape(n, s, c))


def einsum_attention(m, x):
    q, k, v = (torch.einsum("bsc,chd->bshd", x, w) for w in (m.q, m.k, m.v))
    shares = torch.softmax(torch.einsum("bshd,bthd->bhst", q, k) / 2, -1)
    return torch.einsum("bhst,bthd,hdc->bsc", shares, v, m.o)


def make_einsum():
    def p(*shape):
        return nn.Parameter(torch.randn(shape) * 0.3)
    return Call(einsum_attention, q=p(WIDTH, 4, 4), k=p(WIDTH, 4, 4), v=p(WIDTH, 4, 4), o=p(4, 4, WIDTH))


def linear_attention(m, x):
    """Causal attention with a kernel of features: sums by cumsum."""
    q, k, v = (F.elu(m.q(x)) + 1, F.elu(m.k(x)) + 1, m.v(x))
    memory = torch.cumsum(k.unsqueeze(3) * v.unsqueeze(2), 1)
    norm = (q * torch.cumsum(k, 1)).sum(2, keepdim=True)
    return m.out((q.unsqueeze(2) @ memory).squeeze(2) / norm)


def local_attention(m, x):
    """Each step sees its neighbours: a band taken by unfold."""
    q, k, v = m.qkv(x).chunk(3, 2)
    k, v = (F.pad(t, (0, 0, 2, 2)).unfold(1, 5, 1) for t in (k, v))
    shares = torch.softmax((q.unsqueeze(2) @ k).squeeze(2) / 4, -1)
    return m.out((v * shares.unsqueeze(2)).sum(-1))


def alibi(m, x):
    """Multi-query attention with ALiBi's slopes."""
    n, s, _ = x.shape
    q, k, v = m.q(x).view(n, s, 4, 4).transpose(1, 2), m.k(x).unsqueeze(1), m.v(x).unsqueeze(1)
    distance = torch.arange(s)[None, :] - torch.arange(s)[:, None]
    bias = distance * (2.0 ** -torch.arange(1, 5)).view(4, 1, 1)
    scores = (q @ k.transpose(2, 3) / 2 + bias).masked_fill(distance > 0, float("-inf"))
    return m.out((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(n, s, -1))


def linformer(m, x):
    q, k, v = m.qkv(x).chunk(3, 2)
    k, v = m.shrink(k.transpose(1, 2)), m.shrink(v.transpose(1, 2))
    return m.out(torch.softmax(q @ k / 4, -1) @ v.transpose(1, 2))


def perceiver(m, x):
    """A few learned queries read the input, attend to each other, and give classes."""
    latent = m.latent.unsqueeze(0).expand(x.shape[0], -1, -1)
    latent = latent + m.read(latent, x, x, need_weights=False)[0]
    latent = latent + m.think(latent, latent, latent, need_weights=False)[0]
    return m.head(latent.mean(1))


def attention(**options):
    return nn.MultiheadAttention(WIDTH, 4, batch_first=True, **options)


def tcn():
    def block(dilation):
        return [nn.ConstantPad1d((2 * dilation, 0), 0.0), nn.utils.parametrizations.weight_norm(nn.Conv1d(WIDTH, WIDTH, 3, dilation=dilation)), nn.ReLU()]
    return Call(lambda m, x: m.head(m.net(x.transpose(1, 2)).transpose(1, 2)), net=nn.Sequential(*block(1), *block(2), *block(4)),
                head=nn.Linear(WIDTH, WIDTH))


class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.filters = nn.ModuleList(nn.Conv1d(WIDTH, 2 * WIDTH, 2, dilation=2 ** i) for i in range(3))
        self.skips = nn.ModuleList(nn.Conv1d(WIDTH, 2 * WIDTH, 1) for _ in range(3))
        self.head = nn.Conv1d(WIDTH, WORDS, 1)

    def forward(self, tokens):
        x, total = self.words(tokens).transpose(1, 2), 0
        for i, (f, s) in enumerate(zip(self.filters, self.skips)):
            a, b = f(F.pad(x, (2 ** i, 0))).chunk(2, 1)
            y, skip = s(torch.tanh(a) * torch.sigmoid(b)).chunk(2, 1)
            x, total = x + y, total + skip
        return self.head(F.relu(total)).transpose(1, 2)


class Mamba(nn.Module):
    """A selective scan, step by step."""

    def __init__(self):
        super().__init__()
        self.enter, self.leave, self.conv = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.Conv1d(WIDTH, WIDTH, 3, padding=2, groups=WIDTH)
        self.choose, self.step = nn.Linear(WIDTH, 9), nn.Linear(1, WIDTH)
        self.log_decay = nn.Parameter(torch.log(torch.arange(1, 5, dtype=torch.float32)).repeat(WIDTH, 1) + 0.01 * torch.randn(WIDTH, 4))
        self.skip = nn.Parameter(torch.ones(WIDTH) + 0.1 * torch.randn(WIDTH))

    def forward(self, x):
        x, gate = self.enter(x).chunk(2, 2)
        x = F.silu(self.conv(x.transpose(1, 2))[:, :, :STEPS].transpose(1, 2))
        step, b, c = self.choose(x).split([1, 4, 4], 2)
        step = F.softplus(self.step(step))
        decay = torch.exp(-step.unsqueeze(3) * torch.exp(self.log_decay))
        drive = (step * x).unsqueeze(3) * b.unsqueeze(2)
        h, ys = torch.zeros_like(drive[:, 0]), []
        for i in range(STEPS):
            h = decay[:, i] * h + drive[:, i]
            ys.append((h * c[:, i].unsqueeze(1)).sum(2))
        return self.leave((torch.stack(ys, 1) + x * self.skip) * F.silu(gate))


class S4(nn.Module):
    """A state space's convolution over the whole length, its kernel computed from the parameters."""

    def __init__(self):
        super().__init__()
        self.decay, self.c = nn.Parameter(-torch.rand(WIDTH, 4)), nn.Parameter(torch.randn(WIDTH, 4))
        self.mix = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        kernel = (self.c.unsqueeze(2) * torch.exp(self.decay.unsqueeze(2) * torch.arange(STEPS))).sum(1)
        padded = F.pad(x.transpose(1, 2), (STEPS - 1, 0))
        return self.mix(F.conv1d(padded, kernel.flip(1).unsqueeze(1), groups=WIDTH).transpose(1, 2))


class Switch(nn.Module):
    """A mixture of experts: the best two by topk, every expert computed, the others' shares zero (scatter)."""

    def __init__(self, masked=True):
        super().__init__()
        self.words, self.head, self.route = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS), nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH)) for _ in range(4))

    def forward(self, tokens):
        x = self.words(tokens)
        best, which = self.route(x).topk(2, -1)
        shares = torch.zeros_like(x[..., :4]).scatter(-1, which, torch.softmax(best, -1))
        y = torch.stack([expert(x) for expert in self.experts], -2)
        return self.head(x + (shares.unsqueeze(-1) * y).sum(-2))


def crf(m, tokens):
    """The log of the sum over all paths: a forward recursion with logsumexp."""
    scores = m.score(m.words(tokens))
    alpha = scores[:, 0]
    for i in range(1, STEPS):
        alpha = torch.logsumexp(alpha.unsqueeze(2) + m.moves, 1) + scores[:, i]
    return torch.logsumexp(alpha, 1, keepdim=True)


def ctc_net():
    return Call(lambda m, x: F.log_softmax(m.head(m.layer(F.relu(m.conv(x.transpose(1, 2))).transpose(1, 2))[0]), -1),
                conv=nn.Conv1d(WIDTH, 12, 3, padding=1), layer=nn.GRU(12, 8, 2, batch_first=True, bidirectional=True), head=nn.Linear(16, 7))


def row(name, make, inputs, labels, **options):
    return Row(name, "small", make, inputs, labels, **options)


def pair():
    return {"source": Values((STEPS,), below=WORDS), "target": Values((STEPS,), below=WORDS)}


QKV = {"qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH)}


def linears(sizes=None, **more):
    return {**{name: nn.Linear(*size) for name, size in (QKV if sizes is None else sizes).items()}, **more}


ROWS = [
    row("lstm_text", lambda: Recurrent(nn.LSTM), TOKENS, FEW),
    row("lstm_two_layers", lambda: Recurrent(nn.LSTM, 2), TOKENS, FEW),
    row("lstm_state", lambda: Recurrent(nn.LSTM, pick=lambda y, state: state[0][-1]), TOKENS, FEW),
    row("lstm_projected", lambda: Recurrent(nn.LSTM, proj_size=6), TOKENS, FEW),
    row("lstm_steps_first", lambda: Recurrent(nn.LSTM, batch_first=False), TOKENS, FEW),
    row("bilstm_max", lambda: Recurrent(nn.LSTM, both=True, pick=lambda y, state: y.amax(1)), TOKENS, FEW),
    row("gru_text", lambda: Recurrent(nn.GRU), TOKENS, FEW),
    row("bigru_mean", lambda: Recurrent(nn.GRU, 2, True, pick=lambda y, state: y.mean(1)), TOKENS, FEW),
    row("rnn_text", lambda: Recurrent(nn.RNN), TOKENS, FEW),
    row("rnn_relu", lambda: Recurrent(nn.RNN, nonlinearity="relu"), TOKENS, FEW),
    row("lstm_tagger", lambda: Tagger(nn.LSTM), TOKENS, SAME),
    row("gru_tagger", lambda: Tagger(nn.GRU), TOKENS, SAME),
    row("gru_given_state", Given, {**TOKENS, "state": Values((8,))}, SAME),
    row("lstm_cells", lambda: Cells(nn.LSTMCell), TOKENS, SAME),
    row("gru_cells", lambda: Cells(nn.GRUCell), TOKENS, SAME),
    row("seq2seq_attention", Seq2Seq, pair(), SAME),
    row("speech_gru", ctc_net, SERIES, Values((STEPS,), below=7)),
    row("crf", lambda: Call(crf, words=nn.Embedding(WORDS, WIDTH), score=nn.Linear(WIDTH, 5), moves=nn.Parameter(torch.randn(5, 5))), TOKENS, Values((1,)), rate=0.001),
    row("transformer_encoder", Transformer, TOKENS, SAME),
    row("transformer_causal", lambda: Transformer(causal=True), TOKENS, SAME),
    row("transformer_padded", lambda: Transformer(padded=True, norm_first=True), {**TOKENS, "present": Mask((STEPS,), below=2)}, SAME),
    row("transformer_both", EncoderDecoder, pair(), SAME),
    row("sdpa_causal", lambda: Call(scaled, **linears()), SERIES, Values((STEPS, WIDTH))),
    row("einsum_attention", make_einsum, SERIES, Values((STEPS, WIDTH))),
    row("linear_attention", lambda: Call(linear_attention, **linears({n: (WIDTH, WIDTH) for n in ("q", "k", "v", "out")})), SERIES, Values((STEPS, WIDTH))),
    row("local_attention", lambda: Call(local_attention, **linears()), SERIES, Values((STEPS, WIDTH))),
    row("alibi", lambda: Call(alibi, **linears({"q": (WIDTH, 16), "k": (WIDTH, 4), "v": (WIDTH, 4), "out": (16, WIDTH)})), SERIES, Values((STEPS, WIDTH))),
    row("linformer", lambda: Call(linformer, **linears(shrink=nn.Linear(STEPS, 4))), SERIES, Values((STEPS, WIDTH))),
    row("perceiver", lambda: Call(perceiver, latent=nn.Parameter(torch.randn(3, WIDTH)), read=attention(), think=attention(), head=nn.Linear(WIDTH, 4)), SERIES, FEW),
    row("tcn", tcn, SERIES, Values((STEPS, WIDTH))),
    row("wavenet", WaveNet, TOKENS, SAME),
    row("mamba_scan", Mamba, SERIES, Values((STEPS, WIDTH))),
    row("s4", S4, SERIES, Values((STEPS, WIDTH))),
    row("mixture_of_experts", Switch, TOKENS, SAME),
]
