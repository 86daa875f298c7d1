"""Small models over words of a seventh sample, chosen before anything of it was exported."""
import torch
from torch import nn
from torch.nn import functional as F

from row import Call, Values
from seventh_tables import p, row, several
from small_tables import Two, layers

WIDTH, WORDS, STEPS = 16, 20, 8
TOKENS, FEW, EACH = {"tokens": Values((STEPS,), below=WORDS)}, Values((), below=4), Values((STEPS,), below=WORDS)
PAIR = {"question": Values((5,), below=WORDS), "document": Values((STEPS,), below=WORDS)}


def words():
    return nn.Embedding(WORDS, WIDTH)


def decomposable_attention(m, question, document):
    """Words aligned by attention, compared one by one, and summed."""
    a, b = m.words(question), m.words(document)
    scores = m.attend(a) @ m.attend(b).transpose(1, 2)
    for_a, for_b = scores.softmax(2) @ b, scores.softmax(1).transpose(1, 2) @ a
    return m.head(torch.cat([m.compare(torch.cat([a, for_a], -1)).sum(1), m.compare(torch.cat([b, for_b], -1)).sum(1)], 1))


def kernel_pooling(m, question, document):
    """K-NRM: similarities of words counted softly by kernels."""
    a, b = F.normalize(m.words(question), dim=-1), F.normalize(m.words(document), dim=-1)
    match = (a @ b.transpose(1, 2)).unsqueeze(-1)
    kernels = torch.exp(-(match - m.centres) ** 2 / 0.08).sum(2)
    return m.head(torch.log(kernels.clamp(min=1e-4)).sum(1))


def late_interaction(m, question, document):
    """ColBERT: for each word of the question the best of the document."""
    a, b = F.normalize(m.narrow(m.words(question)), dim=-1), F.normalize(m.narrow(m.words(document)), dim=-1)
    best = (a @ b.transpose(1, 2)).amax(2)
    return m.head(best)


def poly_encoder(m, question, document):
    """A few learned codes read the document, the question attends to what they read."""
    a, b = m.words(question).mean(1, keepdim=True), m.words(document)
    read = (m.codes @ b.transpose(1, 2)).softmax(-1) @ b
    seen = (a @ read.transpose(1, 2)).softmax(-1) @ read
    return m.head(torch.cat([a, seen, a * seen], -1).squeeze(1))


def byte_net(m, tokens):
    """Residual blocks of dilated causal convolutions with layer normalization."""
    y = m.words(tokens)
    for i, (norms, first, across, last) in enumerate(zip(m.norms, m.first, m.across, m.last)):
        z = first(F.relu(norms[0](y)))
        z = F.relu(norms[1](z)).transpose(1, 2)
        z = across(F.pad(z, (2 * 2 ** i, 0))).transpose(1, 2)
        y = y + last(F.relu(norms[2](z)))
    return m.head(y)


def simple_recurrence(m, tokens):
    """SRU: gates without the state's products, a highway to what came in."""
    x = m.words(tokens)
    for layer, v in zip(m.layers, m.v):
        u, f, r = layer(x).chunk(3, -1)
        c, said = torch.zeros(x.size(0), WIDTH), []
        for t in range(STEPS):
            keep, read = torch.sigmoid(f[:, t] + v[0] * c + v[1]), torch.sigmoid(r[:, t] + v[2] * c + v[3])
            c = keep * c + (1 - keep) * u[:, t]
            said.append(read * c + (1 - read) * x[:, t])
        x = torch.stack(said, 1)
    return m.head(x)


def mogrifier(m, tokens):
    """An LSTM whose input and state gate each other before each step."""
    x = m.words(tokens)
    h, c, said = torch.zeros(x.size(0), WIDTH), torch.zeros(x.size(0), WIDTH), []
    for t in range(STEPS):
        now = x[:, t]
        for i, gate in enumerate(m.gates):
            if i % 2:
                h = 2 * torch.sigmoid(gate(now)) * h
            else:
                now = 2 * torch.sigmoid(gate(h)) * now
        h, c = m.cell(now, (h, c))
        said.append(h)
    return m.head(torch.stack(said, 1))


def peephole(m, tokens):
    """An LSTM whose gates see the cell."""
    x = m.words(tokens)
    h, c = torch.zeros(x.size(0), WIDTH), torch.zeros(x.size(0), WIDTH)
    for t in range(STEPS):
        i, f, g, o = m.both(torch.cat([x[:, t], h], 1)).chunk(4, 1)
        c = torch.sigmoid(f + m.peep[0] * c) * c + torch.sigmoid(i + m.peep[1] * c) * torch.tanh(g)
        h = torch.sigmoid(o + m.peep[2] * c) * torch.tanh(c)
    return m.head(h)


def fast_weights(m, tokens):
    """A matrix that each step writes to and that the state is passed through."""
    x = m.words(tokens)
    h, a = torch.zeros(x.size(0), WIDTH), torch.zeros(x.size(0), WIDTH, WIDTH)
    for t in range(STEPS):
        a = 0.9 * a + 0.3 * h.unsqueeze(2) * h.unsqueeze(1)
        now = m.state(h) + m.enter(x[:, t])
        h = torch.tanh(m.norm(now + (a @ torch.tanh(now).unsqueeze(2)).squeeze(2)))
    return m.head(h)


def gated_attention_unit(m, tokens):
    """GAU: one head with squared ReLU for a softmax, between gates."""
    x = m.words(tokens)
    for norm, both, shared, gamma, beta, out in zip(m.norms, m.both, m.shared, m.gamma, m.beta, m.out):
        y = norm(x)
        u, v = F.silu(both(y)).chunk(2, -1)
        z = F.silu(shared(y))
        q, k = (z.unsqueeze(2) * gamma + beta).unbind(2)
        share = F.relu(q @ k.transpose(1, 2) / STEPS) ** 2 * torch.tril(torch.ones(STEPS, STEPS))
        x = x + out(u * (share @ v))
    return m.head(x)


def taylor_attention(m, tokens):
    """Based: the second Taylor polynomial of exp in the place of a softmax, as sums that run along."""
    x = m.words(tokens)
    q, k, v = m.q(x), m.k(x), m.v(x)

    def features(y):
        return torch.cat([torch.ones_like(y[..., :1]), y, (y.unsqueeze(-1) * y.unsqueeze(-2)).flatten(-2) / 2 ** 0.5], -1)
    q, k = features(q), features(k)
    state = torch.einsum("ntf,ntd->ntfd", k, v).cumsum(1)
    total = torch.einsum("ntf,ntf->nt", q, k.cumsum(1)).unsqueeze(-1)
    return m.head(x + torch.einsum("ntf,ntfd->ntd", q, state) / (total + 1e-6))


def pyramid_of_text(m, tokens):
    """DPCNN: regions of words, blocks of two convolutions, each after halving."""
    y = m.region(m.words(tokens).transpose(1, 2))
    y = y + m.blocks[0](y)
    for block in m.blocks[1:]:
        y = F.max_pool1d(F.pad(y, (0, 1)), 3, 2)
        y = y + block(y)
    return m.head(y.amax(2))


ROWS = [
    row("decomposable_attention", lambda: Two(decomposable_attention, words=words(), attend=layers(WIDTH, 16, 16), compare=layers(2 * WIDTH, 16), head=layers(32, 16, 3)),
        PAIR, Values((), below=3)),
    row("kernel_pooling", lambda: Two(kernel_pooling, words=words(), centres=torch.linspace(-0.9, 0.9, 7), head=nn.Linear(7, 2)), PAIR, Values((), below=2)),
    row("late_interaction", lambda: Two(late_interaction, words=words(), narrow=nn.Linear(WIDTH, 6, bias=False), head=nn.Linear(5, 2)), PAIR, Values((), below=2)),
    row("poly_encoder", lambda: Two(poly_encoder, words=words(), codes=p(3, WIDTH), head=nn.Linear(3 * WIDTH, 2)), PAIR, Values((), below=2)),
    row("byte_net", lambda: Call(byte_net, words=words(), norms=several(3, lambda: nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(8), nn.LayerNorm(8)])),
                                 first=several(3, lambda: nn.Linear(WIDTH, 8)), across=nn.ModuleList(nn.Conv1d(8, 8, 3, dilation=2 ** i) for i in range(3)),
                                 last=several(3, lambda: nn.Linear(8, WIDTH)), head=nn.Linear(WIDTH, WORDS)), TOKENS, EACH),
    row("simple_recurrence", lambda: Call(simple_recurrence, words=words(), layers=several(2, lambda: nn.Linear(WIDTH, 3 * WIDTH, bias=False)),
                                          v=nn.ParameterList(p(4, WIDTH) for _ in range(2)), head=nn.Linear(WIDTH, WORDS)), TOKENS, EACH),
    row("mogrifier", lambda: Call(mogrifier, words=words(), gates=several(4, lambda: nn.Linear(WIDTH, WIDTH)), cell=nn.LSTMCell(WIDTH, WIDTH), head=nn.Linear(WIDTH, WORDS)), TOKENS, EACH),
    row("peephole", lambda: Call(peephole, words=words(), both=nn.Linear(2 * WIDTH, 4 * WIDTH), peep=p(3, WIDTH), head=nn.Linear(WIDTH, 4)), TOKENS, FEW),
    row("fast_weights", lambda: Call(fast_weights, words=words(), state=nn.Linear(WIDTH, WIDTH, bias=False), enter=nn.Linear(WIDTH, WIDTH), norm=nn.LayerNorm(WIDTH),
                                     head=nn.Linear(WIDTH, 4)), TOKENS, FEW),
    row("gated_attention_unit", lambda: Call(gated_attention_unit, words=words(), norms=several(2, lambda: nn.LayerNorm(WIDTH)), both=several(2, lambda: nn.Linear(WIDTH, 48)),
                                             shared=several(2, lambda: nn.Linear(WIDTH, 8)), gamma=nn.ParameterList(p(2, 8) for _ in range(2)),
                                             beta=nn.ParameterList(p(2, 8) for _ in range(2)), out=several(2, lambda: nn.Linear(24, WIDTH)), head=nn.Linear(WIDTH, WORDS)), TOKENS, EACH),
    row("taylor_attention", lambda: Call(taylor_attention, words=words(), q=nn.Linear(WIDTH, 4), k=nn.Linear(WIDTH, 4), v=nn.Linear(WIDTH, WIDTH), head=nn.Linear(WIDTH, WORDS)), TOKENS, EACH),
    row("pyramid_of_text", lambda: Call(pyramid_of_text, words=words(), region=nn.Conv1d(WIDTH, WIDTH, 3, padding=1), head=nn.Linear(WIDTH, 4),
                                        blocks=several(3, lambda: nn.Sequential(nn.ReLU(), nn.Conv1d(WIDTH, WIDTH, 3, padding=1), nn.ReLU(), nn.Conv1d(WIDTH, WIDTH, 3, padding=1)))),
        TOKENS, FEW),
]
