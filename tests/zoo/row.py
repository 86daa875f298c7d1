"""What a row of the zoo says: how to make a model, what goes in, and what its loss is."""
import dataclasses
import pathlib
import sys
import zlib
from typing import Callable

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "exports"))
from architecture import Call, Values  # noqa: E402, F401

CLASSES = Values((), below=10)
UNFOLDED = ("plain18.dyn", "train17.dyn")  # variants of rows whose weights stand in formulas, which other exports hold computed


@dataclasses.dataclass(frozen=True)
class Mask(Values):
    """Ones, and after a random length of at least half zeros: an attention mask."""

    def draw(self, batch, generator):
        steps = self.shape[-1]
        length = torch.randint(steps // 2, steps + 1, (batch, 1), generator=generator)
        return (torch.arange(steps) < length).to(torch.int64)


@dataclasses.dataclass(frozen=True)
class Uniform(Values):
    """Numbers between 0 and 1."""

    def draw(self, batch, generator):
        return torch.rand((batch, *self.shape), generator=generator)


def image(size=64, channels=3):
    return Values((channels, size, size))


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    family: str
    make: Callable[[], nn.Module]
    inputs: dict                     # by name, in the order of the model's arguments
    labels: Values = CLASSES         # integers: softmax-cross-entropy; floats: mse; None: the model's output is its loss
    rate: float = 0.01
    class_axis: int = -1             # of the output; images of classes have 1
    dims: str = ""                   # sizes of symbolic dimensions other than the batch, as --dim takes them
    options: tuple = ()              # for the program: what a file cannot say
    calibrated: bool = False         # give normalizations the statistics of a batch: without them deep branches overflow
    variants: tuple = ()             # in place of the usual ones
    write: Callable = None           # (row, opset, batch, path): an exporter other than PyTorch's

    @property
    def loss(self):
        return "output" if self.labels is None else "softmax-cross-entropy" if self.labels.below else "mse"

    def seed(self):
        return zlib.crc32(self.name.encode())

    def model(self):
        """The model, without what chance decides in a step (dropout and stochastic depth), and with weights of which no two
        are equal: exporters write equal ones once."""
        torch.manual_seed(self.seed())
        model = self.make()
        with torch.no_grad():
            for p in model.parameters():
                if p.requires_grad:  # what does not learn may be a table of sines, which is known by its values
                    p.add_(0.02 * torch.randn_like(p))
            for name, buffer in model.named_buffers():
                if name.endswith(("running_mean", "running_var")):
                    buffer.add_(0.2 * torch.rand_like(buffer))
        if self.calibrated:
            self.calibrate(model)
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                module.padding_idx = None  # PyTorch's alone: no file says that a row has no gradient
            if type(module).__name__.startswith(("Dropout", "AlphaDropout")):
                module.p = 0.0
            if type(module).__name__ == "DropPath":
                module.drop_prob = 0.0
            if type(module).__name__ == "StochasticDepth":
                module.p = 0.0
        return model

    def calibrate(self, model):
        norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
        kept = [m.momentum for m in norms]
        for m in norms:
            m.momentum = 1.0
        with torch.no_grad():
            model.train()(*self.data(8)[0].values())
        for m, momentum in zip(norms, kept):
            m.momentum = momentum

    def data(self, batch):
        generator = torch.Generator().manual_seed(self.seed() + 1)
        inputs = {name: values.draw(batch, generator) for name, values in self.inputs.items()}
        return inputs, self.labels.draw(batch, generator) if self.labels is not None else None

    def loss_of(self, outputs, labels):
        if labels is None:
            return outputs.mean()
        if not self.labels.below:
            return nn.functional.mse_loss(outputs, labels.to(outputs.dtype))
        classes = outputs.movedim(self.class_axis, -1)
        return nn.functional.cross_entropy(classes.reshape(-1, classes.shape[-1]), labels.reshape(-1))


class Only(nn.Module):
    """A model whose output is one of those of another, by `pick`."""

    def __init__(self, model, pick, names=None):
        super().__init__()
        self.model, self.pick, self.names = model, pick, names

    def forward(self, *inputs):
        if self.names:
            return self.pick(self.model(**dict(zip(self.names, inputs))))
        return self.pick(self.model(*inputs))
