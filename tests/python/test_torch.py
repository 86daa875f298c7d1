"""From PyTorch and back: modules that are exported, trained on two devices, and written back hold what PyTorch's own loop makes of them."""
import copy
import subprocess
import sys

import numpy as np
import pytest

import tandem_onnx as tandem

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")
from torch import nn
from torch.nn import functional as F

from torch_loops import resnet

BATCH, EPOCHS, RATE, MOMENTUM = 8, 3, 0.05, 0.9
IMAGE, SEQUENCE = (3, 8, 8), (6, 8)


class Part(nn.Module):
    """A module of parts and a function of (parts, inputs)."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x):
        return self.function(self, x)


def unet():
    def run(m, x):
        wide = F.relu(m.enter(x))
        return m.leave(torch.cat([wide, m.up(F.relu(m.down(F.max_pool2d(wide, 2))))], 1))
    return Part(run, enter=nn.Conv2d(3, 6, 3, padding=1), down=nn.Conv2d(6, 8, 3, padding=1), up=nn.ConvTranspose2d(8, 6, 2, 2),
                leave=nn.Conv2d(12, 2, 3, padding=1))


def transformer():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return Part(lambda m, x: m.head(m.layer(x).mean(1)), layer=layer, head=nn.Linear(8, 5))


def lstm():
    return Part(lambda m, x: m.head(m.lstm(x)[0][:, -1]), lstm=nn.LSTM(8, 6, batch_first=True), head=nn.Linear(6, 5))


def gru():
    return Part(lambda m, x: m.head(m.gru(x)[0].mean(1)), gru=nn.GRU(8, 6, batch_first=True), head=nn.Linear(6, 5))


class Tied(nn.Module):
    """The table of words makes the scores, too."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.mix = nn.Linear(8, 8)

    def forward(self, x):
        return F.linear(torch.tanh(self.mix(self.words(x).mean(1))), self.words.weight)


def weight_norm():
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(12, 10)), nn.Tanh(), nn.Linear(10, 5))


class Detached(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right, self.head = nn.Linear(12, 8), nn.Linear(12, 8), nn.Linear(8, 5)

    def forward(self, x):
        return self.head(torch.tanh(self.left(x)) * torch.sigmoid(self.right(x)).detach())


class OwnLoss(nn.Module):
    """Computes its loss itself, of its inputs alone: an autoencoder with a penalty."""

    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(12, 4), nn.Linear(4, 12)

    def forward(self, x):
        code = torch.tanh(self.encode(x))
        return ((self.decode(code) - x) ** 2).mean() + 0.01 * code.abs().mean()


def batch_norm_mlp():
    return nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Linear(16, 16), nn.LayerNorm(16), nn.SiLU(), nn.Linear(16, 5))


# name: (module, shape of a sample or "words", loss)
MODULES = {
    "transformer": (transformer, SEQUENCE, "cross_entropy"), "lstm": (lstm, SEQUENCE, "cross_entropy"),
    "gru": (gru, SEQUENCE, "cross_entropy"), "resnet": (resnet, IMAGE, "cross_entropy"), "unet": (unet, IMAGE, "pixels"),
    "tied": (Tied, "words", "cross_entropy"), "weight_norm": (weight_norm, (12,), "cross_entropy"),
    "detach": (Detached, (12,), "mse"), "own_loss": (OwnLoss, (12,), "output"), "batch_norm": (batch_norm_mlp, (12,), "cross_entropy"),
}


def samples(shape, loss):
    generator = torch.Generator().manual_seed(2)
    size = 3 * BATCH
    x = torch.randint(11, (size, 6), generator=generator) if shape == "words" else torch.randn(size, *shape, generator=generator)
    if loss == "output":
        return x, None
    if loss == "mse":
        return x, torch.randn(size, 5, generator=generator)
    return x, torch.randint(2, (size, 8, 8), generator=generator) if loss == "pixels" else torch.randint(5, (size,), generator=generator)


def torch_loop(module, x, y, loss):
    """PyTorch's own: the losses of the epochs."""
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), RATE, MOMENTUM)
    of = {"mse": F.mse_loss, "output": lambda p, t: p}.get(loss, F.cross_entropy)
    epochs = []
    for _ in range(EPOCHS):
        losses = []
        for i in range(0, len(x), BATCH):
            optimizer.zero_grad()
            value = of(module(x[i:i + BATCH]), None if y is None else y[i:i + BATCH])
            value.backward()
            optimizer.step()
            losses.append(value.item())
        epochs.append(np.mean(losses))
    return epochs


@pytest.mark.parametrize("name", MODULES)
def test_trains_as_in_pytorch_and_comes_back(name):
    make, shape, loss = MODULES[name]
    torch.manual_seed(1)
    module = make()
    reference = copy.deepcopy(module)
    x, y = samples(shape, loss)
    wanted = torch_loop(reference, x, y, loss)

    model = tandem.Model(module, x[:4])
    model.compile(loss="cross_entropy" if loss == "pixels" else loss, optimizer=tandem.SGD(RATE, momentum=MOMENTUM), devices="cpu:0-1",
                  sync_batch_norm=True, autotune=False, winograd=False)
    got = model.fit(x, y, epochs=EPOCHS, batch_size=BATCH, shuffle=False).history["loss"]
    assert got == pytest.approx(wanted, rel=1e-5)
    model.to_torch()
    for (key, value), (_, want) in zip(module.state_dict().items(), reference.state_dict().items(), strict=True):
        if want.is_floating_point():
            distance = torch.linalg.vector_norm(value - want) / torch.linalg.vector_norm(want).clamp_min(1e-3)
            assert distance <= 1e-5, key


@pytest.mark.parametrize("data", ["tensors", "loader"])
def test_a_module_is_trained_in_place(data):
    from tandem_onnx.torch import TorchModel
    torch.manual_seed(1)
    module = resnet()
    reference = copy.deepcopy(module)
    x, y = samples(IMAGE, "cross_entropy")
    wanted = torch_loop(reference, x, y, "cross_entropy")
    model = TorchModel(module, x[:4])
    model.compile(loss="cross_entropy", optimizer=tandem.SGD(RATE, momentum=MOMENTUM), devices="cpu", autotune=False, winograd=False,
                  shuffle=False)
    if data == "tensors":
        history = model.fit(x, y, epochs=EPOCHS, batch_size=BATCH)
    else:
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=BATCH)
        history = model.fit(loader, epochs=EPOCHS, steps_per_epoch=len(loader))
    assert history.history["loss"] == pytest.approx(wanted, rel=1e-5)
    for (key, value), (_, want) in zip(module.state_dict().items(), reference.state_dict().items(), strict=True):
        if want.is_floating_point():
            assert torch.linalg.vector_norm(value - want) <= 1e-5 * torch.linalg.vector_norm(want).clamp_min(1e-3), key
    with torch.no_grad():
        np.testing.assert_allclose(model.predict(x), module.eval()(x).numpy(), rtol=1e-4, atol=1e-5)
    model.train_on_batch(x[:BATCH], y[:BATCH])
    before = module[0].conv1.weight.detach().clone()
    assert model.module is module and not torch.equal(module[0].conv1.weight, before)


def test_export_names_what_differs(tmp_path):
    """A parameter that the exported graph does not read as the module does: its lookup is scaled by a number that is not exported."""
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 3)

        def forward(self, x):
            return self.fc(x) * (2.0 if torch.compiler.is_exporting() else 1.0)
    with pytest.raises(tandem.ModelError, match=r"(?s)the loss is .*fc\.weight .* differs by"):
        tandem.export(Wrong(), torch.randn(4, 4), tmp_path / "m.onnx")


@pytest.mark.parametrize("dropout", [True, False])
def test_a_model_drops_while_it_trains(dropout, tmp_path):
    """By a module and by a function; the check knows the parameters' gradients from what is dropped."""
    class Dropping(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.drop, self.last = nn.Linear(8, 16), nn.Dropout(0.25), nn.Linear(16, 5)

        def forward(self, x):
            return self.last(F.dropout(self.drop(torch.tanh(self.first(x))), 0.5, self.training))
    module = Dropping().train()
    module.drop.eval()
    path = tandem.export(module, torch.randn(4, 8), tmp_path / "m.onnx", dropout=dropout)
    assert module.training and not module.drop.training
    onnx = pytest.importorskip("onnx", reason="the onnx package is not installed")
    nodes = [node for node in onnx.load(path).graph.node if node.op_type == "Dropout"]
    assert len(nodes) == (2 if dropout else 0) and all(len(node.input) == 2 for node in nodes)
    model = tandem.Model(path)
    model.compile(loss="cross_entropy", optimizer=tandem.SGD(0.0), devices="cpu", autotune=False)
    x, y = torch.randn(8, 8), torch.randint(5, (8,))
    losses = {model.train_on_batch(x, y)["loss"] for _ in range(3)}
    assert len(losses) == (3 if dropout else 1)
    with torch.no_grad():
        np.testing.assert_allclose(model.predict(x), module.eval()(x).numpy(), rtol=1e-4, atol=1e-5)


def test_export_takes_any_number_of_samples(tmp_path):
    path = tandem.export(nn.Linear(4, 3), torch.randn(2, 4), tmp_path / "m.onnx")
    onnx = pytest.importorskip("onnx", reason="the onnx package is not installed")
    assert onnx.load(path).graph.input[0].type.tensor_type.shape.dim[0].dim_param
    assert tandem.Model(path).predict(np.zeros((7, 4), np.float32)).shape == (7, 3)
    with pytest.raises(tandem.UsageError, match="fewer than two samples"):
        tandem.export(nn.Linear(4, 3), torch.randn(1, 4), tmp_path / "m.onnx")


def test_to_torch_names_what_is_missing():
    model = tandem.Model(nn.Sequential(nn.Linear(4, 3)), torch.randn(2, 4))
    model.compile(loss="mse", devices="cpu", autotune=False)
    with pytest.raises(tandem.ModelError, match=r"1\.weight \(2, 3\), 1\.bias \(2,\)"):
        model.to_torch(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)))


def test_tensors_and_loaders(lenet, digits, quick):
    from test_model import compiled
    x, y = map(torch.from_numpy, digits)
    wanted = compiled(lenet, quick, shuffle=False).fit(*digits, batch_size=16)
    model = compiled(lenet, quick, shuffle=False)
    assert model.fit(x.requires_grad_(), y, batch_size=16).history["loss"] == wanted.history["loss"]
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x.detach(), y), batch_size=16)
    assert compiled(lenet, quick, shuffle=False).fit(loader, batch_size=16).history["loss"] == wanted.history["loss"]
    scores = torch.from_dlpack(model.predict(x))
    assert scores.shape == (64, 10)


@pytest.mark.parametrize("order", ["torch, tandem_onnx", "tandem_onnx, torch"])
def test_either_is_imported_first(order, tmp_path):
    """In one process both have their own OpenMP threads, protobuf and oneDNN: each trains the same module, by turns."""
    script = tmp_path / "both.py"
    script.write_text(f"import {order}\n" + """
import numpy as np
from torch import nn
torch.manual_seed(1)
torch.set_num_threads(2)
module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5))
x, y = torch.randn(24, 3, 8, 8), torch.randint(5, (24,))
def loop():
    optimizer = torch.optim.SGD(module.parameters(), 0.05)
    losses = []
    for i in range(0, 24, 8):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(x[i:i + 8]), y[i:i + 8])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.mean(losses)
model = tandem_onnx.Model(module, x[:4])
model.compile(loss="cross_entropy", optimizer=tandem_onnx.SGD(0.05), devices="cpu:0-1", autotune=False, winograd=False)
got = [model.fit(x, y, epochs=1, batch_size=8, shuffle=False).history["loss"][0], loop(),
       model.fit(x, y, epochs=1, batch_size=8, shuffle=False).history["loss"][0], loop()]
np.testing.assert_allclose(got[::2], got[1::2], rtol=1e-4)
""")
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
