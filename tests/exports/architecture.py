"""What a row of the zoo says: how to make a model in PyTorch, what goes in, and what its loss is."""
import dataclasses
import zlib
from typing import Callable

import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.weight_norm import WeightNorm


@dataclasses.dataclass(frozen=True)
class Values:
    """One sample of an input or of labels: floats, or integers from 0 to `below` (not included)."""
    shape: tuple
    below: int = 0

    def draw(self, batch, generator):
        size = (batch, *self.shape)
        if self.below:
            return torch.randint(self.below, size, generator=generator)
        return torch.randn(size, generator=generator)


@dataclasses.dataclass(frozen=True)
class Architecture:
    name: str
    make: Callable[[], nn.Module]
    input: Values
    labels: Values                   # integers: softmax-cross-entropy; floats: mse
    rate: float = 0.1
    # What an exporter does not tell from a parameter, so that tandem trains it and says so: {"EXPORTER.BATCH" pattern: shapes}.
    assumed: dict = dataclasses.field(default_factory=dict)
    fresh: bool = False              # keep PyTorch's own first values, equal ones among them

    @property
    def loss(self):
        return "softmax-cross-entropy" if self.labels.below else "mse"

    def seed(self):
        return zlib.crc32(self.name.encode())

    def model(self):
        """The model with weights of which no two are equal, so that what an exporter renames or turns is found by value."""
        torch.manual_seed(self.seed())
        model = self.make()
        if not self.fresh:
            with torch.no_grad():
                for p in model.parameters():
                    p.add_(0.05 * torch.randn_like(p))
                for name, buffer in model.named_buffers():
                    if name.endswith(("running_mean", "running_var")):
                        buffer.add_(0.2 * torch.rand_like(buffer))
        return model

    def data(self, batch):
        generator = torch.Generator().manual_seed(self.seed() + 1)
        return self.input.draw(batch, generator), self.labels.draw(batch, generator)

    def loss_of(self, outputs, labels):
        if not self.labels.below:
            return nn.functional.mse_loss(outputs, labels)
        return nn.functional.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), labels.reshape(-1))


class Call(nn.Module):
    """A model given by its parts and a function of (parts, x)."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, nn.Parameter):
                self.register_parameter(name, part)
            elif isinstance(part, torch.Tensor):
                self.register_buffer(name, part)
            else:
                self.add_module(name, part)

    def forward(self, x):
        return self.function(self, x)


def through(model, **functions):
    """Parameters that the model sees by way of a function (of the parameter) or of a module with parameters of its own."""
    for name, f in functions.items():
        way = f if isinstance(f, nn.Module) else Call(lambda _, parameter, f=f: f(parameter))
        parametrize.register_parametrization(model, name, way, unsafe=True)
    return model


def as_exported(model, present):
    """Exporters compute what does not depend on the input. The model that is left in a file that holds the values of only
    those parameters of which present(parameter) is true: BatchNormalization becomes part of the convolution before it,
    what a parameter is computed to becomes the parameter, and a list of numbers that are read one by one as many of them."""
    for module in list(model.modules()):
        if parametrize.is_parametrized(module):
            for name in list(module.parametrizations):
                if not all(present(p) for p in module.parametrizations[name].parameters()):
                    parametrize.remove_parametrizations(module, name, leave_parametrized=True)
        if any(isinstance(hook, WeightNorm) for hook in module._forward_pre_hooks.values()) and not present(module.weight_v):
            nn.utils.remove_weight_norm(module)
        for name, p in list(module._parameters.items()):
            if p is not None and p.ndim == 1 and not present(p) and all(present(number) for number in p):  # p[0], p[1], ...
                del module._parameters[name]
                module.add_module(name, nn.ParameterList(nn.Parameter(number.detach().clone()) for number in p))
        names = list(module._modules)
        for first, second in zip(names, names[1:]):
            conv, norm = module._modules[first], module._modules[second]
            if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d) and not present(conv.weight):
                module._modules[first] = nn.utils.fusion.fuse_conv_bn_eval(conv.eval(), norm.eval()).requires_grad_(True)
                module._modules[second] = nn.Identity()
    return model
