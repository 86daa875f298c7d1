"""PyTorch's modules, planned and trained here: `wrap` makes a Model of a module, and gives its trained weights back to it."""
from __future__ import annotations

from typing import Any

from .callbacks import History
from .model import Model


class TorchModel(Model):
    """A Model of a torch.nn.Module. After `fit` the module holds the trained weights and running statistics."""

    @property
    def module(self) -> Any:
        """The module, with the weights as they are now."""
        return self.to_torch()

    def fit(self, x: Any, y: Any = None, **arguments: Any) -> History:
        """As `Model.fit`, with the same arguments. Of a fit that was broken off (Ctrl-C) `module` gives the weights."""
        history = super().fit(x, y, **arguments)
        self.to_torch()
        return history


def wrap(module: Any, example_inputs: Any, *, batch_axis: int = 0, **options: Any) -> TorchModel:
    """A Model of a torch.nn.Module, compiled with `options`, which are those of `Model.compile` (loss, optimizer, devices, ...).

    example_inputs: the inputs of one batch, a tensor or a tuple of tensors, with at least two samples along `batch_axis`; see
    `tandem_onnx.export`. The module is exported as it is now: what is written into it later is not seen.

        model = wrap(module, torch.randn(2, 3, 32, 32), loss="cross_entropy", devices="cuda:0-7", batch_size=256)
        model.fit(inputs, targets, epochs=10)
        torch.save(module.state_dict(), "trained.pt")

    Raises what `export` and `Model.compile` raise.
    """
    model = TorchModel(module, example_inputs, batch_axis=batch_axis)
    model.compile(**options)
    return model
