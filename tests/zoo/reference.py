"""What PyTorch says about a row: the loss of three steps of SGD, the norm of the first gradient and marks of the trained model's output, in float32 and float64.
The model is the one that a file holds, with what its exporter fused and computed; `module` is the model as its user has it."""
import numpy
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode

STEPS, BATCH, PREDICTED = 3, 4, 2
NUDGED = 8  # copies with other roundings


def holds(tensors):
    """Whether one of a file's tensors has a parameter's values, in whatever order."""
    sizes = {}
    for t in tensors.values():
        sizes.setdefault(t.size, []).append(t)

    def present(values):
        values = numpy.sort(values.detach().numpy(), axis=None)
        return any(numpy.allclose(values, numpy.sort(t, axis=None), rtol=1e-5, atol=1e-6) for t in sizes.get(values.size, ()))
    return present


def fused_pairs(model, inputs, present):
    """(layer, normalization) where the normalization takes the layer's output and is part of it in the file."""
    made, pairs = {}, []

    def after(module, arguments, output):
        if isinstance(module, _BatchNorm):
            layer = made.get(id(arguments[0]))
            if layer is not None and module.running_mean is not None and not present(module.running_mean) and not present(layer.weight):
                pairs.append((layer, module))
        elif isinstance(output, torch.Tensor):
            made[id(output)] = module
            made[id(module)] = output  # kept alive, so that its id stays its own
    kinds = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.Linear, _BatchNorm)
    hooks = [m.register_forward_hook(after) for m in model.modules() if isinstance(m, kinds)]
    with torch.no_grad():
        model(*inputs)
    for hook in hooks:
        hook.remove()
    return pairs


def fuse(layer, norm):
    """The layer as the file has it; the normalization changes nothing any more, and stays so."""
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps) if norm.weight is not None else 1 / torch.sqrt(norm.running_var + norm.eps)
    shape = [1] * layer.weight.ndim
    shape[1 if isinstance(layer, (nn.ConvTranspose1d, nn.ConvTranspose2d)) else 0] = -1
    with torch.no_grad():
        bias = (layer.bias if layer.bias is not None else 0) - norm.running_mean
        layer.bias = nn.Parameter(bias * scale + (norm.bias if norm.bias is not None else 0))
        layer.weight.copy_(layer.weight * scale.view(shape))
        for tensor, value in ((norm.weight, 1), (norm.bias, 0), (norm.running_mean, 0), (norm.running_var, 1)):
            if tensor is not None:
                tensor.fill_(value).requires_grad_(False)
    norm.eps = 0.0
    norm.eval()
    norm.train = lambda mode=True: norm


class Weights(TorchFunctionMode):
    """Counts the layers' weights that are computed, and puts those of `known` (by their number) in their place."""

    FUNCTIONS = {nn.functional.conv1d: 1, nn.functional.conv2d: 1, nn.functional.conv3d: 1, nn.functional.linear: 1, nn.functional.batch_norm: 3,
                 nn.functional.conv_transpose1d: 1, nn.functional.conv_transpose2d: 1, nn.functional.conv_transpose3d: 1}

    def __init__(self, known, seen=None):
        super().__init__()
        self.known, self.seen, self.count = known, seen, 0

    def __torch_function__(self, function, types, arguments=(), options=None):
        arguments, options, place = list(arguments), dict(options or {}), self.FUNCTIONS.get(function)
        if place is not None:
            where, key = (options, "weight") if "weight" in options else (arguments, place)
            weight = where[key] if where is options or len(arguments) > place else None
            base = weight if weight is None or weight._base is None else weight._base  # a parameter that is only reshaped is no formula
            if base is not None and base.requires_grad and not base.is_leaf:
                number = str(self.count)
                self.count += 1
                if self.seen is not None:
                    self.seen[number] = weight
                if number in self.known:
                    where[key] = self.known[number]
        return function(*arguments, **options)


class WithoutFormulas(nn.Module):
    """A model of which the exporter computed what does not depend on the input: weights behind formulas are weights."""

    def __init__(self, model, inputs, present):
        super().__init__()
        self.model, seen = model, {}
        with Weights({}, seen):
            model(*inputs)
        self.weights = nn.ParameterDict({n: nn.Parameter(w.detach().clone()) for n, w in seen.items() if present(w)})

    def forward(self, *inputs):
        with Weights(self.weights):
            return self.model(*inputs)


def as_in_file(row, tensors):
    """The row's model with what the exporter computed: normalizations that became part of layers, weights behind formulas."""
    model, present, inputs = row.model().eval(), holds(tensors), row.data(2)[0].values()
    if hasattr(model, "as_exported"):
        model.as_exported(present)
    for layer, norm in fused_pairs(model, inputs, present):
        fuse(layer, norm)
    return WithoutFormulas(model, inputs, present)


def steps(row, model, inputs, labels, count, rate):
    """The losses, and the norm of the first gradient."""
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    losses, norm = [], 0.0
    for i in range(count):
        rows = slice(i * BATCH, (i + 1) * BATCH)
        model.zero_grad()
        loss = row.loss_of(model(*(x[rows] for x in inputs)), labels[rows] if labels is not None else None)
        loss.backward()
        if i == 0:
            norm = float(torch.sqrt(sum((p.grad.double() ** 2).sum() for p in trained if p.grad is not None)))
        with torch.no_grad():
            for p in trained:
                if p.grad is not None:
                    p -= rate * p.grad
        losses.append(loss.item())
    return losses, norm


def marks(output):
    """Few numbers that tell an output from another: its sums by four waves, of the size of its largest value."""
    y = numpy.asarray(output, dtype=numpy.float64).reshape(-1)
    waves = numpy.cos(numpy.outer([0.1, 0.7, 1.3, 2.9], numpy.arange(y.size)))
    return [float(v) for v in waves @ y / (max(1e-30, numpy.abs(y).max()) * numpy.sqrt(max(1, y.size)))]


def trained_output(model, inputs):
    """Of the first samples, in inference; None where it has no rows for them."""
    model.eval()
    y = model(*(x[:PREDICTED] for x in inputs))  # with gradients: by these WithoutFormulas knows what is computed
    y = y[0] if isinstance(y, (tuple, list)) else y
    return marks(y.detach()) if isinstance(y, torch.Tensor) and y.is_floating_point() and y.ndim > 0 and len(y) == PREDICTED else None


def reference(row, tensors, count=STEPS):
    """{losses, norm, output, own, module}: `own` is how far PyTorch's float32 is from its float64, relative; none where it cannot do float64."""
    inputs, labels = row.data(count * BATCH)
    inputs, labels = list(inputs.values()), labels
    model = as_in_file(row, tensors)
    double = as_in_file(row, tensors).double()
    losses, norm = steps(row, model, inputs, labels, count, row.rate)
    output, own = trained_output(model, inputs), None
    try:
        wide = [x.double() if x.is_floating_point() else x for x in inputs]
        true = steps(row, double, wide, labels.double() if labels is not None and labels.is_floating_point() else labels, count, row.rate)
        own = apart_by(losses, norm, *true)
        if output:
            own["output"] = max(abs(a - b) for a, b in zip(output, trained_output(double, wide)))
    except RuntimeError:
        pass
    return {"losses": losses, "norm": norm, "output": output, "own": own, "module": module(row, inputs, labels, count)}


def module(row, inputs, labels, count):
    """{losses, norm, gradients} of the model as its user has it: nothing is fused or computed beforehand, and normalizations take the batch's statistics.
    `gradients`: of the first step, each parameter's norm."""
    first = row.model()
    steps(row, first, inputs, labels, 1, row.rate)
    gradients = {name: float(p.grad.double().norm()) for name, p in first.named_parameters() if p.grad is not None}
    losses, norm = steps(row, row.model(), inputs, labels, count, row.rate)
    return {"losses": losses, "norm": norm, "gradients": gradients}


def rounding(row, tensors, count, wanted):
    """How far PyTorch is from itself, `wanted`, where the weights are rounded otherwise: a ReLU's bend may lie between, and many
    normalizations of a few numbers make more of it in each step."""
    inputs, labels = row.data(count * BATCH)
    found = []
    for seed in range(NUDGED):
        model = as_in_file(row, tensors)
        torch.manual_seed(seed)
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1 + torch.randn_like(p) * torch.finfo(torch.float32).eps)
        found.append(apart_by(wanted["losses"], wanted["norm"], *steps(row, model, list(inputs.values()), labels, count, row.rate)))
    return {what: max(f[what] for f in found) for what in found[0]}


def apart_by(losses, norm, other_losses, other_norm):
    return {"loss": error_of(losses[0], other_losses[0]), "norm": error_of(norm, other_norm), "losses": max(map(error_of, losses, other_losses))}


def error_of(got, wanted):
    return abs(got - wanted) / max(1e-30, abs(wanted))
