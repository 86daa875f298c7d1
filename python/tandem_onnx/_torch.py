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
from ._errors import ModelError, TandemWarning, UsageError

_TOLERANCE = 1e-4  # of the difference's norm over the norm: float32, sums in another order


def _tuple(example):
    return tuple(example) if isinstance(example, (tuple, list)) else (example,)


def _dynamic_shapes(torch, examples, batch_axis):
    """The axis of the samples is open in every input that has as many along it as the first."""
    size = examples[0].shape[batch_axis]
    batch = torch.export.Dim("batch")
    return tuple({batch_axis: batch} if e.dim() > batch_axis and e.shape[batch_axis] == size else None for e in examples)


def export(module, example, path, *, batch_axis=0, check=True, dropout=False):
    """Writes a torch.nn.Module as ONNX so that every parameter is kept and trains.

    example: the inputs of one batch, a tensor or a tuple of tensors, with at least two samples along `batch_axis`. The file takes any
    number of samples. The module is exported in inference mode, of which tandem makes training again, but for Dropout, which is left out.

    check: compares the first loss (the mean square of the first output's distance from fixed numbers; of a module that gives one number
    that number) and the gradient of every parameter with PyTorch's. ModelError names each parameter whose gradient differs by more than
    1e-4 of its norm, or is not there.

    Returns the path. Raises UsageError where the example has one sample alone, and what PyTorch's exporter raises.
    """
    import torch
    examples = _tuple(example)
    if examples[0].dim() <= batch_axis or examples[0].shape[batch_axis] < 2:
        raise UsageError(f"example: {tuple(examples[0].shape)} has fewer than two samples along axis {batch_axis}, by which the exporter "
                         "would take their number for a constant")
    path = os.fspath(path)
    training = module.training
    module.eval()
    try:
        written = _written_dropout(torch, module) if dropout else contextlib.nullcontext()
        with written, warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            before = logging.root.manager.disable
            logging.disable(logging.ERROR)
            try:
                torch.onnx.export(module, examples, path, dynamo=True, optimize=False, external_data=_is_large(module),
                                  input_names=_input_names(module, len(examples)),
                                  dynamic_shapes=_dynamic_shapes(torch, examples, batch_axis))
            finally:
                logging.disable(before)
        dropped = [name for name, part in module.named_modules() if "Dropout" in type(part).__name__ and getattr(part, "p", 0) > 0
                   and not (dropout and type(part) is torch.nn.Dropout)]
        if dropped:
            warnings.warn(f"export: Dropout is left out, for an exporter writes none: {', '.join(dropped[:5])}"
                          f"{' and more' if len(dropped) > 5 else ''}", TandemWarning, stacklevel=2)
        if check:
            differences = compare(module, examples, path)
            if differences:
                raise ModelError(f"{path}: the exported model does not train as the module does:\n  " + "\n  ".join(differences))
    finally:
        module.train(training)
    return path


@contextlib.contextmanager
def _written_dropout(torch, module):
    """Meanwhile each torch.nn.Dropout is written as ONNX's, which an exporter leaves out in inference mode."""
    def forward(part, x):
        return torch.onnx.ops.symbolic("Dropout", (x, torch.tensor(part.p)), dtype=x.dtype, shape=x.shape, version=13) if part.p > 0 else x
    parts = [part for part in module.modules() if type(part) is torch.nn.Dropout]
    for part in parts:
        part.forward = forward.__get__(part)
    try:
        yield
    finally:
        for part in parts:
            del part.forward


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


def compare(module, examples, path):
    """What differs between the file and the module in training, a line each: the first loss and the parameters' gradients."""
    import torch
    module = copy.deepcopy(module).train()  # whose running statistics move
    for part in module.modules():
        if "Dropout" in type(part).__name__:
            part.eval()
    outputs = module(*examples)
    outputs = list(outputs.values()) if isinstance(outputs, dict) else list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    if not outputs[0].is_floating_point():
        return [f"the first output is {outputs[0].dtype}: no loss can be computed on it"]
    own = outputs[0].dim() == 0  # the module computes its loss itself
    target = None if own else np.random.default_rng(1).standard_normal(tuple(outputs[0].shape), dtype=np.float32)
    module.zero_grad(set_to_none=True)
    loss = outputs[0] if own else torch.nn.functional.mse_loss(outputs[0], torch.from_numpy(target))
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
        want = parameter.grad.detach().numpy()
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
