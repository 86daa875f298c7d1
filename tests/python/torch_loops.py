"""Networks of PyTorch, wrapped or not, and loops that train them, for the tests of tandem_onnx.torch. What imports it is skipped without PyTorch."""
import copy

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")
from torch import nn
from torch.nn import functional as F

from tandem_onnx.torch import wrap

BATCH, STEPS = 6, 3
TOLERANCE = 1e-5  # of the difference's norm over the norm


def difference(found, wanted):
    return ((found - wanted).norm() / wanted.norm().clamp_min(1e-12)).item()


def assert_alike(found, wanted, tolerance=TOLERANCE):
    pairs = list(zip(found, wanted, strict=True))
    differ = [(i, difference(a.detach().float(), b.detach().float())) for i, (a, b) in enumerate(pairs)]
    assert max((d for _, d in differ), default=0) <= tolerance, differ


def wrapped(module, *example, **options):
    options = {"devices": "cpu", "autotune": False, **options}
    return wrap(module, example if len(example) > 1 else example[0], **options)


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.short(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.layer(x).mean(1))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 6, batch_first=True), nn.Linear(6, 5)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Tied(nn.Module):
    """The table of words makes the scores, too: by the same tensor under two names."""

    def __init__(self):
        super().__init__()
        self.words, self.mix, self.scores = nn.Embedding(11, 8), nn.Linear(8, 8), nn.Linear(8, 11, bias=False)
        self.scores.weight = self.words.weight

    def forward(self, x):
        return self.scores(torch.tanh(self.mix(self.words(x).mean(1))))


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.drop = nn.Parameter(torch.ones(64)), nn.Dropout(0.25)

    def forward(self, x):
        return self.drop(x * self.scale)


def mlp():
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(16 * 4 * 4, 32), nn.ReLU(), nn.Linear(32, 10))


def resnet():
    return nn.Sequential(Residual(3, 8, 1), Residual(8, 12, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 5))


MODULES = {"mlp": (mlp, (12,)), "lenet": (lenet, (1, 24, 24)), "resnet": (resnet, (3, 8, 8)), "transformer": (Transformer, (6, 8)),
           "lstm": (Lstm, (6, 8)), "tied": (Tied, "words")}
# Adam divides by the gradient: that of the attention's key bias is zero but for rounding, which a larger epsilon keeps small
OPTIMIZERS = {"sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01), "adamw": lambda p: torch.optim.AdamW(p, 0.01, eps=1e-4)}


def batch_of(shape, size=BATCH, seed=2):
    generator = torch.Generator().manual_seed(seed)
    if shape == "words":
        return torch.randint(11, (size, 6), generator=generator)
    return torch.randn(size, *shape, generator=generator)


def train(module, make, shape, steps=STEPS, clip=None, sizes=(BATCH,)):
    """Losses of a loop of the caller's own."""
    optimizer = OPTIMIZERS[make](module.parameters())
    losses = []
    for step in range(steps):
        x = batch_of(shape, sizes[step % len(sizes)], seed=step)
        y = torch.randint(5, (len(x),), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x), y)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(module.parameters(), clip)
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def pair(name, **options):
    """The module wrapped, and a copy of it that PyTorch computes."""
    make, shape = MODULES[name]
    torch.manual_seed(1)
    module = make()
    twin = copy.deepcopy(module)
    return wrapped(module, batch_of(shape, 3), **options), twin, shape
