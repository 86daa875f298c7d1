"""Small models that take values without their gradient."""
import torch
from torch import nn
from torch.nn import functional as F

from row import Call, Row, Values

WIDTH, STEPS = 8, 6
SEQUENCE = {"x": Values((STEPS, WIDTH))}


def discrete_codes(m, x):
    """VQ-VAE: the book moves to what is coded, what is coded to the book, and the decoder's gradient passes the choice by."""
    z = m.encode(x)
    q = m.book(((z.unsqueeze(-2) - m.book.weight) ** 2).sum(-1).argmin(-1))
    apart = ((q - z.detach()) ** 2).mean((1, 2)) + 0.25 * ((q.detach() - z) ** 2).mean((1, 2))
    return ((m.decode(z + (q - z).detach()) - x) ** 2).mean((1, 2)) + apart


def simple_siamese(m, x):
    """SimSiam: each view's prediction of the other, which does not move."""
    a, b = m.encode(x), m.encode(x * 0.5 + 1)
    return -(F.cosine_similarity(m.predict(a), b.detach()) + F.cosine_similarity(m.predict(b), a.detach())) / 2


def hard_choice(m, x):
    s = m.score(x).softmax(-1)
    return m.head(F.one_hot(s.argmax(-1), WIDTH).to(s.dtype) - s.detach() + s)


def refined(m, x):
    """Boxes as detectors refine them: each layer begins where the one before ended, which it does not move."""
    box, found = torch.sigmoid(m.start(x)), 0
    for layer in m.layers:
        new = torch.sigmoid(layer(torch.cat([x, box], -1)) + torch.logit(box.clamp(1e-3, 1 - 1e-3)))
        box, found = new.detach(), found + new
    return found


def truncated(m, x):
    """A recurrence whose gradient goes back two steps at most."""
    h, out = torch.zeros(x.size(0), WIDTH), []
    for t in range(STEPS):
        h = torch.tanh(m.enter(x[:, t]) + m.back(h.detach() if t % 2 else h))
        out.append(h)
    return torch.stack(out, 1)


def layers(a=WIDTH, b=WIDTH):
    return nn.Sequential(nn.Linear(a, 16), nn.ReLU(), nn.Linear(16, b))


def row(name, make, inputs, labels):
    return Row(name, "small", make, inputs, labels, variants=("plain18.dyn", "dynamo18.dyn"))


ROWS = [
    row("discrete_codes", lambda: Call(discrete_codes, encode=layers(), decode=layers(), book=nn.Embedding(5, WIDTH)), SEQUENCE, None),
    row("simple_siamese", lambda: Call(simple_siamese, encode=layers(), predict=layers()), {"x": Values((WIDTH,))}, None),
    row("hard_choice", lambda: Call(hard_choice, score=layers(), head=nn.Linear(WIDTH, WIDTH)), SEQUENCE, Values((STEPS, WIDTH))),
    row("refined", lambda: Call(refined, start=nn.Linear(WIDTH, WIDTH), layers=nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH) for _ in range(3))), SEQUENCE, Values((STEPS, WIDTH))),
    row("truncated", lambda: Call(truncated, enter=nn.Linear(WIDTH, WIDTH), back=nn.Linear(WIDTH, WIDTH)), SEQUENCE, Values((STEPS, WIDTH))),
]
