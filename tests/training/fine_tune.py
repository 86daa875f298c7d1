"""ResNet-18, trained for a moment in PyTorch on other classes and exported, gets a new head and learns three patterns from 300 images:
more than 90% of held-out ones, by all weights and by the head alone, and ONNX Runtime computes of the file what tandem predicts. Also heads as other
architectures and exporters have them: one that is a convolution, one of several.

Exit code 3: a package is missing, 1: something fails.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from program import TANDEM, needed

with needed():
    import numpy
    import onnx
    import onnxruntime
    import onnxscript  # noqa: F401  the exporter wants it
    import torch
from torch import nn
from torch.nn import functional as F

SIZE, TRAIN, TEST = 64, 300, 120
random = numpy.random.default_rng(3)


class BasicBlock(nn.Module):  # the names and layers are torchvision's
    def __init__(self, width_in, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width_in, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(width_in, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class ResNet18(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1, self.bn1, self.maxpool = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.MaxPool2d(3, 2, 1)
        widths = [64, 64, 128, 256, 512]
        for i in range(4):
            blocks = BasicBlock(widths[i], widths[i + 1], 1 + (i > 0)), BasicBlock(widths[i + 1], widths[i + 1], 1)
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(512, classes)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        return self.fc(self.avgpool(self.layer4(self.layer3(self.layer2(self.layer1(x))))).flatten(1))


class ConvolutionalHead(nn.Module):  # as SqueezeNet's
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU())
        self.classifier = nn.Sequential(nn.Dropout(), nn.Conv2d(8, 10, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))

    def forward(self, x):
        return self.classifier(self.features(x)).flatten(1)


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.kind, self.colour = nn.Linear(3, 8), nn.Linear(8, 10), nn.Linear(8, 4)

    def forward(self, x):
        x = F.relu(self.body(x.mean((2, 3))))
        return self.kind(x), self.colour(x)


def patterns(count, kinds):
    """Waves along as many directions, of any phase, colour and strength, in noise."""
    labels = numpy.arange(count) % kinds
    place = numpy.arange(SIZE) / SIZE
    angles = numpy.pi * labels / kinds + 0.03 * random.standard_normal(count)
    along = numpy.cos(angles)[:, None, None] * place[None, :, None] + numpy.sin(angles)[:, None, None] * place[None, None, :]
    waves = numpy.sin(2 * numpy.pi * (random.uniform(5, 7, count)[:, None, None] * along + random.uniform(size=count)[:, None, None]))
    x = random.uniform(0.4, 1, (count, 3, 1, 1)) * waves[:, None] + 0.15 * random.standard_normal((count, 3, SIZE, SIZE))
    return x.astype(numpy.float32), labels.astype(numpy.int64)


def pretrained():
    model, (x, y) = ResNet18(7), patterns(140, 7)
    optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
    for i in range(0, len(x), 20):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.tensor(x[i:i + 20])), torch.tensor(y[i:i + 20])).backward()
        optimizer.step()
    return model.eval()


def export(model, file, **options):
    torch.onnx.export(model.eval(), (torch.zeros(2, 3, SIZE, SIZE),), file, input_names=["x"], verbose=False, **options)


def tandem(*words):
    run = subprocess.run([TANDEM, *map(str, words)], env={**os.environ, "TANDEM_RUN_DIR": "none", "OMP_WAIT_POLICY": "passive"},
                         capture_output=True, text=True, errors="replace")
    if run.returncode:
        sys.exit(f"tandem {' '.join(map(str, words))}: exit code {run.returncode}\n{run.stdout}{run.stderr}")
    return run


def fine_tune(file, folder, *options):
    trained = folder / "trained.onnx"
    tandem("train", file, "--head", 3, "--data", f"npz:{folder / 'patterns.npz'}", "--output", trained, "--batch-size", 20, "--momentum", 0.9, *options)
    measured = json.loads(tandem("evaluate", trained, "--data", f"npz:{folder / 'patterns.npz'}", "--split", "test", "--json").stdout)
    tandem("predict", trained, "--data", f"npz:{folder / 'patterns.npz'}", "--split", "test", "--output", folder / "scores.npy")
    return trained, measured["accuracy"]


def apart_from_onnx_runtime(trained, folder, x):
    onnx.checker.check_model(str(trained), full_check=True)
    session = onnxruntime.InferenceSession(str(trained), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"x": x})[0]
    assert wanted.shape == (len(x), 3), wanted.shape
    return numpy.abs(numpy.load(folder / "scores.npy") - wanted).max() / numpy.abs(wanted).max()


def resnet(folder):
    file, batch = folder / "resnet18.onnx", torch.export.Dim("batch")
    export(pretrained(), file, dynamic_shapes=({0: batch},), optimize=False)  # else its normalizations are folded
    (x, y), (x_test, y_test) = patterns(TRAIN, 3), patterns(TEST, 3)
    numpy.savez(folder / "patterns.npz", x_train=x, y_train=y, x_test=x_test, y_test=y_test)
    falling = ("--lr-schedule", "cosine")  # at a constant rate the last steps move the normalizations too far to be measured at once
    for name, options in (("all weights", ("--epochs", 3, "--lr", 0.005, *falling)), ("the head alone", ("--epochs", 6, "--lr", 0.05, "--train-only", "head"))):
        trained, accuracy = fine_tune(file, folder, *options)
        apart = apart_from_onnx_runtime(trained, folder, x_test)
        print(f"ResNet-18, {name}: {accuracy:.1%} of {TEST} held-out images, {apart:.1e} from ONNX Runtime")
        if not (accuracy > 0.9 and apart <= 1e-5):
            sys.exit("expected more than 90%, and at most 1e-5")
        before, after = ({i.name: i for i in onnx.load(f).graph.initializer} for f in (file, trained))
        kept = [n for n in before if n in after and before[n].raw_data == after[n].raw_data]
        changed = [n for n in before if n not in kept]
        if name == "the head alone" and sorted(changed) != ["fc.bias", "fc.weight"]:
            sys.exit(f"the head alone: {changed} are others")


def other_heads(folder):
    rows = [
        ("convolution", ConvolutionalHead(), {"dynamo": True}, []),
        ("convolution, TorchScript", ConvolutionalHead(), {"dynamo": False}, []),
        ("the second of two", TwoHeads(), {"dynamo": True}, ["--replace-head", "colour"]),
    ]
    x, y = patterns(20, 3)
    numpy.savez(folder / "patterns.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    for name, model, options, words in rows:
        place = folder / name
        place.mkdir()
        file, trained = place / "model.onnx", place / "trained.onnx"
        export(model, file, **options)
        if words:
            refused = subprocess.run([TANDEM, "summary", file, "--head", "3"], capture_output=True, text=True)
            assert refused.returncode == 2 and "2 nodes make outputs" in refused.stderr and "'kind.weight'" in refused.stderr, refused.stderr
        loss = ["--loss-on", onnx.load(file).graph.output[-1].name] if words else []
        tandem("train", file, "--head", 3, "--data", f"npz:{folder / 'patterns.npz'}", "--output", trained, "--batch-size", 20, "--epochs", 1, *words, *loss)
        got = onnxruntime.InferenceSession(str(trained), providers=["CPUExecutionProvider"]).run(None, {"x": x[:2]})
        assert got[-1].shape == (2, 3), (name, [g.shape for g in got])
        print(f"{name}: 3 classes")


torch.manual_seed(1)
torch.set_num_threads(2)
with tempfile.TemporaryDirectory() as name:
    resnet(pathlib.Path(name))
    other_heads(pathlib.Path(name))
