"""From PyTorch and back: a module exported so that it trains as it does there, and trained weights written into it."""
import contextlib
import copy
import io
import logging
import os
import pathlib
import tempfile
import warnings

import numpy as np

from . import _data, _options, _tandem
from ._errors import ModelError, UsageError

_TOLERANCE = 1e-4  # of the difference's norm over the norm: float32, sums in another order


def tuple_of(example):
    """A tensor or several as a tuple. One that is given twice is copied: PyTorch's exporter would take both inputs for one."""
    examples = example if isinstance(example, (tuple, list)) else (example,)
    return tuple(e.clone() if any(e is before for before in examples[:i]) else e for i, e in enumerate(examples))


def _dynamic_shapes(torch, examples, batch_axis):
    """The axis of the samples is open in every input that has as many along it as the first."""
    size = examples[0].shape[batch_axis]
    batch = torch.export.Dim("batch")
    return tuple({batch_axis: batch} if e.dim() > batch_axis and e.shape[batch_axis] == size else None for e in examples)


def export(module, example, path, *, batch_axis=0, check=True, dropout=True):
    """Writes a torch.nn.Module as ONNX so that every parameter is kept and trains.

    example: the inputs of one batch, a tensor or a tuple of tensors, with at least two samples along `batch_axis`. The file takes any
    number of samples. The module is exported in inference mode, of which tandem makes training again.

    check: compares the first loss (the mean square of the first output's distance from fixed numbers; of a module that gives one number
    that number) and the gradient of every parameter with PyTorch's, both without dropout. ModelError names each parameter whose gradient
    differs by more than 1e-4 of its norm, or is not there.

    dropout: writes what drops in train mode as ONNX's Dropout: modules, torch.nn.functional's dropout to dropout3d, and attention's. A
    TandemWarning names other random numbers of train mode, which are left out. False: leaves out all of it.

    Returns the path. Raises UsageError where the example has one sample alone, and what PyTorch's exporter raises.
    """
    from ._dropout import Dropout
    examples = tuple_of(example)
    if examples[0].dim() <= batch_axis or examples[0].shape[batch_axis] < 2:
        raise UsageError(f"example: {tuple(examples[0].shape)} has fewer than two samples along axis {batch_axis}, by which the exporter "
                         "would take their number for a constant")
    path = os.fspath(path)
    drops = Dropout(module, examples)
    if check:
        write(module, examples, path, batch_axis)
        if differences := compare(module, examples, path, drops):
            raise ModelError(f"{path}: the exported model does not train as the module does:\n  " + "\n  ".join(differences))
    if drops.drops and dropout or not check:
        write(module, examples, path, batch_axis, drops if dropout else None)
    if dropout:
        drops.tell("export", stacklevel=2)
    return path


def write(module, examples, path, batch_axis, dropout=None):
    """Calls PyTorch's exporter in inference mode, which says nothing meanwhile. dropout: what is written of it."""
    import torch
    from ._dropout import inference
    mode = dropout.written(module) if dropout else inference(module)
    with mode, warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        before = logging.root.manager.disable
        logging.disable(logging.ERROR)
        try:
            torch.onnx.export(module, examples, path, dynamo=True, optimize=False, external_data=_is_large(module),
                              input_names=_input_names(module, len(examples)), dynamic_shapes=_dynamic_shapes(torch, examples, batch_axis))
        finally:
            logging.disable(before)


def _is_large(module):
    return sum(p.numel() * p.element_size() for p in module.parameters()) > 1 << 30


def _input_names(module, count):
    """The names of forward's arguments."""
    import inspect
    names = [name for name, p in inspect.signature(module.forward).parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return names[:count] if len(names) >= count else [f"x{i}" for i in range(count)]


def _targets(outputs):
    generator = np.random.default_rng(1)
    return [generator.standard_normal(tuple(o.shape), dtype=np.float32) for o in outputs]


def compare(module, examples, path, dropout):
    """What differs between the file and the module in training without dropout, a line each: the first loss and the parameters' gradients."""
    import torch
    module = copy.deepcopy(module)  # whose running statistics move
    with dropout.withheld(module):
        outputs = module(*examples)
    outputs = list(outputs.values()) if isinstance(outputs, dict) else list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    if not outputs[0].is_floating_point():
        return [f"the first output is {outputs[0].dtype}: no loss can be computed on it"]
    own = outputs[0].dim() == 0  # the module computes its loss itself
    target = None if own else np.random.default_rng(1).standard_normal(tuple(outputs[0].shape), dtype=np.float32)
    module.zero_grad(set_to_none=True)
    loss = outputs[0] if own else torch.nn.functional.mse_loss(outputs[0], torch.from_numpy(target).to(outputs[0].device))
    loss.backward()
    model = _tandem.Model(path, "{}")
    options = _options.as_json({"loss": "output" if own else "mse", "loss_on": model.outputs()[0], "optimizer": "sgd", "devices": "cpu",
                                "autotune": False})
    batch = [(name, "input", _data.array(example, name)) for name, example in zip(model.inputs(), examples)]
    batch += [] if own else [("y", "label", target)]
    gradients = model.gradients(options, batch)
    ours = model.train_on_batch(options, batch, 0.0)["loss"]
    lines = []
    if not abs(ours - loss.item()) <= _TOLERANCE * max(abs(loss.item()), 1e-6):
        lines.append(f"the loss is {ours:.6g}, PyTorch's {loss.item():.6g}")
    found, _ = matched(module, gradients)
    for name, parameter in module.named_parameters():
        if parameter.grad is None or not parameter.requires_grad:
            continue
        if name not in found:
            lines.append(f"{name} {tuple(parameter.shape)}: nothing of this name is trained")
            continue
        want = parameter.grad.cpu().numpy()
        got = gradients[name].T if found[name] else gradients[name]
        distance = float(np.linalg.norm(got - want))
        if not distance <= max(_TOLERANCE * float(np.linalg.norm(want)), 1e-7):
            lines.append(f"{name} {tuple(want.shape)}: its gradient differs by {distance / max(float(np.linalg.norm(want)), 1e-30):.2g} of its norm")
    return lines


def matched(module, weights):
    """({parameter: whether its weight lies turned}, parameters without one), by name and shape."""
    found, missing = {}, []
    for name, parameter in module.named_parameters():
        shape, held = tuple(parameter.shape), tuple(weights[name].shape) if name in weights else None
        if held == shape or (len(shape) == 2 and held == shape[::-1]):
            found[name] = held != shape
        else:
            missing.append(f"{name} {shape}")
    return found, missing


def write_back(model, module):
    """Writes the model's weights, and running statistics, into the module's parameters and buffers by name."""
    import torch
    if module is None:
        raise UsageError("to_torch: of a file there is no module: give it one")
    weights = model.get_weights()
    found, missing = matched(module, weights)
    if missing:
        raise ModelError("the module has parameters that the model has not: " + ", ".join(missing))

    def take(tensor, value):
        tensor.copy_(torch.from_numpy(np.ascontiguousarray(value)))

    with torch.no_grad():
        for name, parameter in module.named_parameters():
            take(parameter, weights[name].T if found[name] else weights[name])
        for name, buffer in module.named_buffers():
            if name in weights and tuple(weights[name].shape) == tuple(buffer.shape):
                take(buffer, weights[name])
    return module


def export_to_temporary(module, example, batch_axis):
    """(path, folder): the folder is removed with the object that is returned."""
    if example is None:
        raise UsageError("example: a torch.nn.Module needs the inputs of one batch, such as Model(module, torch.randn(2, 3, 32, 32))")
    folder = tempfile.TemporaryDirectory(prefix="tandem-")
    path = pathlib.Path(folder.name) / "module.onnx"
    return export(module, example, path, batch_axis=batch_axis), folder
