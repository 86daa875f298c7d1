"""Asks PyTorch about what its exporter's optimizer does to modules, and tandem what it says of that.

optimizer_oracle.py [PATTERN...]

Each row is exported as by default (optimize=True) and with optimize=False, and trained by the program that TANDEM names beside the module as its user
has it, in training mode. Where losses and weights' updates are the module's, no warning may say that training differs; where they are not, a warning must
begin as the row says. With optimize=False all rows agree in silence. Exit code 3: the packages are missing, 1: something differs.
"""
import contextlib
import copy
import fnmatch
import io
import json
import logging
import os
import pathlib
import sys
import tempfile
import warnings

try:
    import numpy
    import onnx  # noqa: F401
    import onnxscript  # noqa: F401  the exporter wants it
    import torch
    from torch import nn
except (ImportError, OSError) as missing:
    print(missing)
    sys.exit(3)

from architecture import Call
from trial import Differs, error_of, require, tandem

F = nn.functional
ALARMS = ("the exporter computed", "the exporter fused", "the exporter left out", "the model's parameters", "the source of", "PyTorch's calls of")
TOLERANCE, STEPS, BATCH, RATE = 1e-4, 3, 4, 0.1
FUSED, LEFT_OUT, COMPUTED = "the exporter fused batch normalizations into the layers before them: ", "the exporter left out parameters that the module has", "the exporter computed "


def p(*shape):
    return nn.Parameter(0.5 * torch.randn(*shape))


def zeroed(layer):
    nn.init.zeros_(layer.bias)
    return layer


def copies(layer, count=3):
    return nn.Sequential(*[part for _ in range(count) for part in (copy.deepcopy(layer), nn.Tanh())])


def used(layer, count=3):
    return nn.Sequential(*[part for _ in range(count) for part in (layer, nn.Tanh())])


class Returns(nn.Module):
    """A value that is detached and sliced."""

    def __init__(self, sliced):
        super().__init__()
        self.value, self.sliced = nn.Linear(8, 5), sliced

    def forward(self, x):
        v = self.value(x)
        if self.sliced:
            return v[:, :-1] * 2 + 0.9 * v.detach()[:, 1:]
        return v * 2 + 0.9 * v.detach()


# name: (module, one sample's shape, the beginning of the warning where the default export trains otherwise)
ROWS = {
    "conv_norm": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4)), (3, 8, 8), FUSED + "'1'"),
    "conv_norm_no_bias": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.Flatten()), (3, 8, 8), FUSED + "'1'"),
    "conv_norm_no_parameters": (lambda: nn.Sequential(nn.Conv1d(3, 8, 3), nn.BatchNorm1d(8, affine=False), nn.Flatten()), (3, 8), FUSED + "'1'"),
    "conv_transposed_norm": (lambda: nn.Sequential(nn.ConvTranspose2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten()), (3, 6, 6), FUSED + "'1'"),
    "linear_norm": (lambda: nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4)), (8,), FUSED + "'1'"),
    "norm_first": (lambda: nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 4)), (8,), ""),
    "norms_whose_variance_is_kept_once": (lambda: nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.BatchNorm1d(8), nn.Tanh(), nn.BatchNorm1d(8)), (8,), ""),
    "conv_bias_of_zeros": (lambda: nn.Sequential(zeroed(nn.Conv2d(3, 4, 3)), nn.Flatten()), (3, 6, 6), LEFT_OUT + ", as it does with biases of zeros: '0.bias'"),
    "linear_bias_of_zeros": (lambda: nn.Sequential(zeroed(nn.Linear(8, 8)), nn.Tanh(), nn.Linear(8, 4)), (8,), LEFT_OUT + ", as it does with biases of zeros: '0.bias'"),
    "residual_scale_of_zero": (lambda: Call(lambda s, x: s.fc(x + s.scale), scale=nn.Parameter(torch.tensor(0.0)), fc=nn.Linear(8, 4)), (8,), "the model's parameters 'scale' stand nowhere in the file"),
    "copied_layers": (lambda: copies(nn.Linear(8, 8)), (8,), ""),
    "copied_layers_of_sequences": (lambda: copies(nn.Linear(8, 8)), (5, 8), ""),
    "one_layer_three_times": (lambda: used(nn.Linear(8, 8)), (8,), ""),
    "one_norm_twice": (lambda: used(nn.Sequential(nn.LayerNorm(8), nn.Tanh()), 2), (8,), ""),
    "norms_that_are_alike": (lambda: nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 4)), (8,), ""),
    "transformer_encoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2, enable_nested_tensor=False), (5, 8), LEFT_OUT),
    "lstm": (lambda: Call(lambda s, x: s.r(x)[0][:, -1], r=nn.LSTM(8, 8, batch_first=True)), (5, 8), ""),
    "gru_two_layers": (lambda: Call(lambda s, x: s.r(x)[0], r=nn.GRU(8, 8, 2, batch_first=True, bidirectional=True)), (5, 8), ""),
    "rnn": (lambda: Call(lambda s, x: s.r(x)[0], r=nn.RNN(8, 8, batch_first=True)), (5, 8), ""),
    "group_norm": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.Flatten()), (3, 6, 6), ""),
    "prelu": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.PReLU(8), nn.Flatten()), (3, 6, 6), ""),
    "harmless_activations": (lambda: nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 8), nn.Hardswish()), (8,), ""),
    "padded_conv": (lambda: nn.Sequential(nn.ZeroPad2d(1), nn.Conv2d(3, 4, 3), nn.Flatten()), (3, 6, 6), ""),
    "selected": (lambda: Call(lambda s, x: x * s.w[0] + x * x * s.w[1], w=p(2, 8)), (8,), ""),
    "joined": (lambda: Call(lambda s, x: F.linear(x, torch.cat([s.a, s.b])), a=p(2, 8), b=p(2, 8)), (8,), ""),
    "stacked": (lambda: Call(lambda s, x: torch.einsum("bi,hio->bho", x, torch.stack([s.a, s.b])), a=p(8, 4), b=p(8, 4)), (8,), ""),
    "sliced_positions": (lambda: Call(lambda s, x: x + s.w[:, :5], w=p(1, 9, 8)), (5, 8), ""),
    "bias_of_another_shape": (lambda: Call(lambda s, x: ((s.c(x) - s.c.bias.view(1, -1, 1, 1)) ** 2).flatten(1), c=nn.Conv2d(3, 4, 3)), (3, 6, 6), ""),
    "rows_of_a_held_matrix": (lambda: Call(lambda s, x: s.fc(x) + (x * s.fc.weight[2]).sum(1, keepdim=True), fc=nn.Linear(8, 4)), (8,), ""),
    "parts_that_overlap": (lambda: Call(lambda s, x: x[:, :5] * s.w[:5] + x[:, :5] * s.w[3:], w=p(8)), (8,), "'slice_3' and 'slice_6' hold parts of 'w' that overlap"),
    "detached_parameter": (lambda: Call(lambda s, x: s.fc(x * s.w.detach()), w=p(8), fc=nn.Linear(8, 4)), (8,), ""),
    "detached": (lambda: Returns(False), (8,), ""),
    "detached_and_sliced": (lambda: Returns(True), (8,), "the source of "),
    "softmax_of_all": (lambda: Call(lambda s, x: x @ s.w.softmax(0), w=p(8, 4)), (8,), COMPUTED + "'softmax' from 'w'"),
    "product": (lambda: Call(lambda s, x: F.linear(x, s.a * s.b), a=p(4, 8), b=p(4, 1)), (8,), COMPUTED + "'mul' from 'a', 'b'"),
    "alpha": (lambda: Call(lambda s, x: torch.add(x, s.w, alpha=2.0), w=p(8)), (8,), COMPUTED + "'val_2' from 'w'"),
    "temperature": (lambda: Call(lambda s, x: s.fc(x) * s.t.exp(), fc=nn.Linear(8, 4), t=nn.Parameter(torch.tensor(0.3))), (8,), COMPUTED + "'exp' from 't'"),
    "looked_up": (lambda: Call(lambda s, x: x + F.embedding(torch.arange(4)[:, None] - torch.arange(4)[None] + 3, s.t).permute(2, 0, 1), t=p(7, 5)), (5, 4, 4), ""),
    "looked_up_and_scaled": (lambda: Call(lambda s, x: x + 2.0 * F.embedding(torch.arange(4)[:, None] - torch.arange(4)[None] + 3, s.t).permute(2, 0, 1), t=p(7, 5)), (5, 4, 4), COMPUTED + "'mul' from 't'"),
    "one_number_for_all": (lambda: Call(lambda s, x: s.fc(x * s.w.expand(8)), w=nn.Parameter(torch.tensor([0.7])), fc=nn.Linear(8, 4)), (8,), COMPUTED + "'expand' from 'w'"),
    "not_used": (lambda: Call(lambda s, x: s.a(x), a=nn.Linear(8, 4), b=nn.Linear(3, 3)), (8,), ""),
}


def export(module, x, path, optimize):
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)
        torch.onnx.export(module.eval(), (x[:2],), str(path), dynamo=True, optimize=optimize, external_data=False, input_names=["x"], output_names=["y"],
                          dynamic_shapes=({0: torch.export.Dim("batch")},))


def by_torch(module, x, y):
    losses = []
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    for i in range(STEPS):
        rows = slice(i * BATCH, (i + 1) * BATCH)
        optimizer.zero_grad()
        loss = F.mse_loss(module(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        return losses, module.eval()(x[:BATCH]).numpy()


def check(name, optimize):
    """What is wrong; nothing where all is well."""
    make, shape, told = ROWS[name]
    torch.manual_seed(len(name))
    module = make()
    x = torch.randn(STEPS * BATCH, *shape)
    with torch.no_grad():
        y = torch.randn_like(module.eval()(x))
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        export(module, x, folder / "m.onnx", optimize)
        numpy.savez(folder / "data.npz", x=x.numpy(), y=y.numpy())
        numpy.save(folder / "x.npy", x[:BATCH].numpy())
        common = ("--loss", "mse", "--batch-size", BATCH)
        said = json.loads(tandem("plan", folder / "m.onnx", "--format", "json", *common)).get("warnings", ())
        lines = tandem("train", folder / "m.onnx", "--data", f"npz:{folder / 'data.npz'}", "--lr", RATE, "--steps", STEPS, "--no-shuffle", "--no-autotune", "--output", folder / "t.onnx",
                       "--quiet", "--json", *common)
        tandem("predict", folder / "t.onnx", "--data", folder / "x.npy", "--batch-size", BATCH, "--output", folder / "y.npy", "--quiet")
        got, output = [e["loss"] for e in map(json.loads, lines.splitlines()) if e["event"] == "step"], numpy.load(folder / "y.npy")
    losses, wanted = by_torch(module, x, y)
    keeps_statistics = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in module.modules())  # of which variance there are two conventions
    error = max(error_of(got, losses), 0 if keeps_statistics else error_of(output.reshape(wanted.shape), wanted))
    alarms = [w for w in said if w.startswith(ALARMS) or "that overlap" in w]
    if told and optimize:
        require(error > TOLERANCE, "agrees with the module, but should not:", error)
        require(any(w.startswith(told) and "optimize=False" in w for w in alarms), "no warning begins with", repr(told), "but", said)
    else:
        require(error <= TOLERANCE, f"losses {got} in place of {losses}, output {error:.1e} off;", said)
        require(not alarms, "a false alarm:", alarms)
    return f"{error:.0e}"


def main(*patterns):
    if not os.access(os.environ.get("TANDEM", ""), os.X_OK):
        sys.exit("TANDEM does not name the program: set it to build/release/tandem")
    torch.set_num_threads(1)
    failures = []
    for name in ROWS:
        if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns or ("*",)):
            continue
        cells = []
        for optimize in (True, False):
            try:
                cells.append(check(name, optimize))
            except Differs as why:
                cells.append("FAILS")
                failures.append(f"{name}, optimize={optimize}: {why}")
        print(f"{name:<36}{cells[0]:<8}{cells[1]:<8}", flush=True)
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
