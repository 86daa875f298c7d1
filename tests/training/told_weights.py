#!/usr/bin/env python3
"""Which tensors `tandem summary --weights` takes for weights, of random small modules whose parameters and buffers are known, exported by PyTorch's exporters.

With the notes of dynamo=True (optimize True and False) no decision may be wrong. TorchScript's files have no notes: each wrong decision must be one that is
said to be by rule, and each tensor that is wrongly a constant by its place or values must be named in a warning.

TANDEM names the program. Exit code 3: a package is missing, 1: a decision is wrong. An argument is how many modules are drawn (8).
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings

from program import TANDEM, needed

warnings.filterwarnings("ignore")
with needed():
    import onnx
    import onnxscript  # noqa: F401, the exporter needs it
    import torch
    from torch import nn
    from torch.nn import functional as F

WIDTH = 24


class Held(nn.Module):
    """A number for each feature, a buffer or a parameter, that meets x in one operator."""

    def __init__(self, learnt, op, shape=(WIDTH,), name="held"):
        super().__init__()
        value = torch.rand(shape) + 0.5
        if learnt:
            setattr(self, name, nn.Parameter(value))
        else:
            self.register_buffer(name, value)
        self.op, self.name = op, name

    def forward(self, x):
        value = getattr(self, self.name)
        return {"add": lambda: x + value, "sub": lambda: x - value, "mul": lambda: x * value, "div": lambda: x / value, "exp": lambda: x * value.exp()}[self.op]()


class Bank(nn.Module):
    """A fixed matrix: a windowed Fourier or cosine transform, or a mel bank; learnt, where it starts as one."""

    def __init__(self, kind, learnt):
        super().__init__()
        i, k = torch.arange(WIDTH, dtype=torch.float64), torch.arange(WIDTH, dtype=torch.float64)[:, None]
        if kind == "dct":
            m = torch.cos(torch.pi / WIDTH * (i + 0.5) * k)
        elif kind == "fourier":
            m = torch.cos(2 * torch.pi * k * i / 48) * torch.hann_window(WIDTH, dtype=torch.float64)
        else:
            centers = torch.linspace(0, WIDTH - 1, 10, dtype=torch.float64)
            m = torch.stack([(1 - (i - c).abs() / (centers[1] - centers[0])).clamp(min=0) for c in centers])
            m = F.pad(m, (0, 0, 0, WIDTH - 10))
        if learnt:
            m = m + 0.3 * torch.randn_like(m)
        m = m.float()
        if learnt:
            self.matrix = nn.Parameter(m)
        else:
            self.register_buffer("matrix", m)

    def forward(self, x):
        return F.linear(x, self.matrix)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.gamma = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.full((WIDTH,), 0.1))

    def forward(self, x):
        return x + self.gamma * torch.tanh(self.inner(x))


class Standard(nn.Module):
    """Batch statistics written out, as a module of one's own does it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("running_mean", torch.rand(WIDTH))
        self.register_buffer("running_var", torch.rand(WIDTH) + 0.5)
        self.weight, self.bias = nn.Parameter(torch.rand(WIDTH)), nn.Parameter(torch.rand(WIDTH))

    def forward(self, x):
        return (x - self.running_mean) / torch.sqrt(self.running_var + 1e-5) * self.weight + self.bias


class LearntEpsilon(nn.Module):
    def __init__(self):
        super().__init__()
        self.eps = nn.Parameter(torch.tensor(1e-3))

    def forward(self, x):
        return x / torch.sqrt(x.square().mean(1, keepdim=True) + self.eps.abs())


def drawn(rng):
    """From data in, through layers, to data out."""
    before = [[], [Held(False, "sub"), Held(False, "div")], [Held(False, "mul", (1,)), Held(False, "add", (1,))], [Held(False, "sub", name="mean")], [Held(True, "mul"), Held(True, "add")],
              [Held(True, "exp")], [Bank(rng.choice(["dct", "fourier", "mel"]), False)], [Bank(rng.choice(["dct", "fourier"]), True)], [nn.LayerNorm(WIDTH)], [nn.BatchNorm1d(WIDTH)], [Standard()]]
    layers = [lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()), Residual, Standard, lambda: nn.LayerNorm(WIDTH), LearntEpsilon, lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), Held(True, "mul"), Held(True, "add"), nn.ReLU()),
              lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.PReLU(WIDTH))]
    after = [[], [Held(False, "mul"), Held(False, "add")], [Held(True, "mul"), Held(True, "add")], [Held(True, "mul", ())], [nn.Sigmoid(), Held(False, "mul")], [nn.Softmax(1)], [nn.LayerNorm(WIDTH)]]
    return nn.Sequential(*rng.choice(before), *[rng.choice(layers)() for _ in range(rng.randint(1, 3))], nn.Linear(WIDTH, WIDTH), *rng.choice(after))


def exported(model, exporter, path):
    x = torch.randn(3, WIDTH)
    model.eval()
    if exporter == "torchscript":
        torch.onnx.export(model, (x,), path, dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "N"}})
    else:
        torch.onnx.export(model, (x,), path, dynamo=True, optimize=exporter == "dynamo", input_names=["x"], dynamic_shapes=({0: torch.export.Dim("N")},), verbose=False)


def wrong_of(model, path):
    said = json.loads(subprocess.run([TANDEM, "summary", path, "--weights", "--json"], capture_output=True, text=True, check=True).stdout)
    learnt = {name for name, _ in model.named_parameters()}
    kept = {name for name, _ in model.named_buffers()}
    listed = "\n".join(said["warnings"])
    for w in said["weights"]:
        if w["name"] not in learnt | kept:
            continue
        if (w["is"] == "trained") != (w["name"] in learnt):
            yield w, not w["certain"], w["is"] == "trained" or f"'{w['name']}'" in listed


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    rng, failed, decided, wrong = random.Random(5), 0, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            torch.manual_seed(number)
            model = drawn(rng)
            for exporter in ("dynamo", "plain", "torchscript"):
                path = os.path.join(folder, f"{exporter}.onnx")
                exported(model, exporter, path)
                decided[exporter] = decided.get(exporter, 0) + len(list(model.named_parameters())) + len(list(model.named_buffers()))
                for w, by_rule, named in wrong_of(model, path):
                    wrong[exporter] = wrong.get(exporter, 0) + 1
                    if exporter != "torchscript" or not by_rule or not named:
                        failed += 1
                        print(f"module {number}, {exporter}: '{w['name']}' is {w['is']} ({w['reason']}), certain {w['certain']}, named in a warning {named}\n{model}")
    for exporter, n in decided.items():
        print(f"{exporter}: {n} tensors, {wrong.get(exporter, 0)} decided otherwise than the module says")
    sys.exit(1 if failed else 0)


main()
