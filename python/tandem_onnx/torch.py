"""PyTorch's modules: with passes that are planned, for a loop of your own, and trained by this library's."""
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


def wrap(module: Any, example_inputs: Any, *, batch_axis: int = 0, plans: int = 8, pending: int = 4, check: bool = True,
         **options: Any) -> Any:
    """A torch.nn.Module that computes what `module` does, its forward and its backward pass each by a plan.

    Loss, optimizer and loop are yours, and PyTorch's. Parameters and buffers are those of `module`, which the optimizer and `state_dict` see
    under their own names.

        model = wrap(module, torch.randn(2, 3, 32, 32), devices="cpu:0-1")
        optimizer = torch.optim.AdamW(model.parameters())
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()

    example_inputs: the inputs of one batch, a tensor or a tuple of tensors, with at least two samples along `batch_axis`. A batch may have
    any number of samples; a plan is made for each number when it first comes.
    plans: how many plans are kept at once, over numbers of samples, train, eval and what has gradients.
    pending: how many forward passes of one plan may wait for their backward pass; each has memory of its own.
    check: compares outputs and gradients of the example with PyTorch's; ModelError names each that differs by more than 1e-4 of its norm.
    options: those of `Model.compile` that are not about loss, optimizer and data (devices, parallel, precision, deterministic, ...).

    Under torch.no_grad() the forward pass alone is run. A second backward pass of one forward pass (retain_graph=True) computes that one
    again. In train mode running statistics are written into the module's buffers. Tensors on a GPU are copied to the host and back.

    Raises UsageError on options and inputs that cannot be, DataError where an input has another type or shape than the example, ModelError
    and DeviceError as `Model.compile`, and what PyTorch's exporter raises.
    """
    from ._autograd import WrappedModule
    return WrappedModule(module, example_inputs, batch_axis, plans, pending, check, options)
