"""A torch.nn.Module whose forward and backward passes are plans."""
import copy
import inspect
import pathlib
import tempfile

import numpy as np
import torch
from torch.utils import _pytree as pytree

from . import _options, _tandem
from ._dropout import Dropout
from ._errors import DataError, ModelError, UsageError
from ._passes import File, Pool
from ._torch import tuple_of, write

_TOLERANCE = 1e-4  # of the difference's norm over the norm: float32, sums in another order
_ROUNDING = 1e-6  # of the norm of all
_YOURS = ("loss", "optimizer", "lr", "batch_size", "metrics", "freeze", "trainable")  # what the caller's own loop says
_NORMALIZATIONS = torch.nn.modules.batchnorm._BatchNorm


def _array(tensor):
    """The tensor's values row by row in the processor's memory, copied where they lie otherwise."""
    return tensor.detach().cpu().contiguous().numpy()


def _differences(names, found, wanted):
    """A line for each tensor that differs by more than rounding does: of its own norm, or, as what is zero but for rounding does, of all."""
    found, wanted = ([None if t is None else t.detach().double().cpu() for t in list] for list in (found, wanted))
    whole = sum(float(w.norm()) ** 2 for w in wanted if w is not None) ** 0.5
    lines = []
    for name, f, w in zip(names, found, wanted):
        if w is None:
            continue
        distance = float("inf") if f is None else float((f - w).norm())
        if not distance <= _TOLERANCE * float(w.norm()) + _ROUNDING * whole:
            how = "it is not there" if f is None else f"{distance / max(float(w.norm()), 1e-30):.2g} of its norm"
            lines.append(f"{name} {list(w.shape)}: {how}")
    return lines


class _Run:
    """A forward pass whose backward pass is to come."""

    def __init__(self, module, lease, inputs, tensors):
        self.module, self.lease, self.inputs = module, lease, inputs  # inputs: names of those whose gradients are wanted
        self.tensors = tensors  # {name in the file: parameter} of those whose gradients are wanted
        self.used = False

    def backward(self, inputs, gradients):
        if self.used:
            if not self.lease.take_again():
                raise RuntimeError("a second backward pass after another forward pass, which has taken its memory: with retain_graph=True go "
                                   "back as often as you like before the module is called again")
            self.module._compute(self.lease, inputs)  # the weights there are still those of the forward pass
        self.used = True
        try:
            return self.module._gradients(self, inputs, gradients)
        finally:
            self.lease.give_back()


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, inputs, *tensors):
        ctx.run = run
        ctx.save_for_backward(*tensors[:inputs])
        ctx.set_materialize_grads(False)
        outputs = tuple(run.module._compute(run.lease, tensors[:inputs]))
        ctx.mark_non_differentiable(*[o for o in outputs if not o.is_floating_point()])
        return outputs

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *gradients):
        inputs = ctx.saved_tensors  # of a graph that was not retained gone after the first time, which PyTorch says
        return (None, None, *ctx.run.backward(inputs, gradients))


class WrappedModule(torch.nn.Module):
    """A torch.nn.Module whose forward and backward passes are plans; see `tandem_onnx.torch.wrap`.

    Parameters, buffers and submodules are those of the module that was wrapped, under the same names: `state_dict`, `parameters`, `train`
    and `eval` are about these. `module` is that module itself.
    """

    def __init__(self, module, example, batch_axis, plans, pending, check, options):
        super().__init__()
        for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            self.__dict__[name] = module.__dict__[name]
        self.__dict__["module"] = module
        self.training = module.training
        for name in _YOURS:
            if options.get(name) is not None:
                raise UsageError(f"{name}=: the loop is yours, and says it; tandem_onnx.torch.TorchModel trains a module by itself")
        self._batch_axis = batch_axis
        self._signature = inspect.signature(module.forward)
        self._example = tuple_of(example)
        modes = [(part, part.training) for part in module.modules()]
        try:
            self._plan(module, batch_axis, plans, pending, check, options)
        finally:
            for part, training in modes:
                part.training = training
            self.training = module.training

    def _plan(self, module, batch_axis, plans, pending, check, options):
        self._find_outputs()
        self._folder = tempfile.TemporaryDirectory(prefix="tandem-")
        path = str(pathlib.Path(self._folder.name) / "module.onnx")
        self._dropout = Dropout(module, self._example)
        self._dropout.tell("wrap", stacklevel=4)
        write(module, self._example, path, batch_axis, self._dropout)
        held = set(_tandem.Passes(path, _options.as_json(options)).tensors()) & set(self._changing())
        if held:
            options = {**options, "trainable": sorted(held)}
        file = _tandem.Passes(path, _options.as_json(options))
        self._constants = [(name, b, b.clone()) for name, b in module.named_buffers() if not b.is_floating_point() and b.dim() > 0]
        self._names, self._outputs = file.inputs(), file.outputs()
        if len(self._names) != len(self._example) or len(self._outputs) != len(self._output_axes):
            raise ModelError(f"the exported module has {len(self._names)} inputs and {len(self._outputs)} outputs, expected "
                             f"{len(self._example)} and {len(self._output_axes)}: an input that is not used, or an output that is one")
        self._pool = Pool(File(file).plan, plans, pending)
        if check and not self._dropout.always:  # else two passes of PyTorch's differ, too
            exact = {name: value for name, value in options.items() if name != "precision"}
            own = self._pool
            if exact != options:  # what is computed in fewer bits is right where the same in float32 is
                self._pool = Pool(File(_tandem.Passes(path, _options.as_json(exact))).plan, plans, pending)
            self._check()
            self._pool = own

    def train(self, mode=True):
        self.module.train(mode)
        self.training = mode
        return self

    def __reduce__(self):
        raise UsageError("a wrapped module is neither copied nor pickled: copy or save its `module`, or its state_dict(), and wrap that")

    def plan(self):
        """The plan of the passes that were called last, a Plan."""
        from .plan import Plan
        if not self._pool.passes:
            raise UsageError("plan: none is made before the module is called")
        passes = next(reversed(self._pool.passes.values()))
        return Plan(passes[0].planned.plan)

    def forward(self, *args, **kwargs):
        tensors = self._bound(args, kwargs)
        batch = self._batch(tensors)
        training, frozen = self.training, self._frozen()
        self._check_constants()
        learns = torch.is_grad_enabled()
        named = dict(self.module.named_parameters(remove_duplicate=False))
        wanted = {name: p for name, p in named.items() if p.requires_grad}
        of_inputs = tuple(n for n, t in zip(self._names, tensors) if learns and t.requires_grad and t.is_floating_point())
        learns = learns and bool(wanted or of_inputs)
        mode = "train" if training else "eval" if learns else "predict"
        key = (mode, batch, tuple(wanted), of_inputs, frozen) if mode != "predict" else (mode, batch, (), (), ())
        lease = self._pool.take(key)
        self._give_parameters(lease)
        if learns:
            parameters = list({id(p): p for p in wanted.values()}.values())
            outputs = _Step.apply(_Run(self, lease, of_inputs, wanted), len(tensors), *tensors, *parameters)
        else:
            outputs = self._compute(lease, tensors)
            lease.give_back()
        if training:
            self._take_statistics(lease)
        leaves = list(self._other_leaves)
        for place, output in zip(self._output_places, outputs):
            leaves[place] = output
        return pytree.tree_unflatten(leaves, self._spec)

    def _bound(self, args, kwargs):
        """The inputs in the order of the example's."""
        bound = self._signature.bind(*args, **kwargs)
        tensors = []
        for name, value in bound.arguments.items():
            values = value if self._signature.parameters[name].kind == inspect.Parameter.VAR_POSITIONAL else (value,)
            tensors += [v for v in values if not (v is None and name not in self._names)]
        if len(tensors) != len(self._example) or not all(isinstance(t, torch.Tensor) for t in tensors):
            raise UsageError(f"the module was wrapped with {len(self._example)} tensors as inputs, got "
                             f"{', '.join(type(t).__name__ for t in tensors)}")
        return tensors

    def _axis(self, place):
        """Where the samples of an input lie; None: it has none."""
        example, size = self._example[place], self._example[0].shape[self._batch_axis]
        has = example.dim() > self._batch_axis and example.shape[self._batch_axis] == size
        return self._batch_axis if has else None

    def _batch(self, tensors):
        """How many samples there are. Fails where an input does not have the example's type and, but for the samples, shape."""
        batch = tensors[0].shape[self._batch_axis] if tensors[0].dim() > self._batch_axis else 0
        for place, (name, tensor, example) in enumerate(zip(self._names, tensors, self._example)):
            shape = list(example.shape)
            if self._axis(place) is not None:
                shape[self._batch_axis] = batch
            if list(tensor.shape) != shape or tensor.dtype != example.dtype or batch == 0:
                wanted = ", ".join("N" if axis == self._axis(place) else str(size) for axis, size in enumerate(shape))
                raise DataError(f"input '{name}' is {tensor.dtype} {list(tensor.shape)}, expected {example.dtype} [{wanted}]: the example's shape, "
                                "with any number N of samples above 0 that all inputs share; for others wrap the module with another example")
        return batch

    def _frozen(self):
        """The running means of normalizations that stand still while the module trains. Fails on parts that drop otherwise than it."""
        means = []
        for name, part in self.module.named_modules():
            if part.training == self.training:
                continue
            if isinstance(part, _NORMALIZATIONS) and self.training:
                means.append(f"{name}.running_mean")
            elif isinstance(part, _NORMALIZATIONS) or name in self._dropout.where:
                raise UsageError(f"{name}: training is {part.training}, that of the wrapped module is {self.training}: expected the same "
                                 "(train() and eval() of the wrapped module set both)")
        return tuple(means)

    def _changing(self):
        """Names of tensors that somebody may change, which must not become constants of a plan."""
        of_normalizations = {f"{name}.running_{what}" for name, part in self.module.named_modules() if isinstance(part, _NORMALIZATIONS)
                             for what in ("mean", "var")}
        buffers = [n for n, b in self.module.named_buffers(remove_duplicate=False) if b.is_floating_point() and n not in of_normalizations]
        return [n for n, _ in self.module.named_parameters(remove_duplicate=False)] + buffers

    def _check_constants(self):
        for name, buffer, value in self._constants:
            if buffer._version and not torch.equal(buffer, value):
                raise UsageError(f"buffer '{name}' has changed: values of {buffer.dtype} are constants of the plans; wrap the module anew")

    def _give_parameters(self, lease):
        held = {**dict(self.module.named_parameters(remove_duplicate=False)), **dict(self.module.named_buffers(remove_duplicate=False))}
        values = []
        for name, shape in lease.taken.parameters.items():
            if name in held:
                value = _array(held[name])
                values.append((name, value if list(value.shape) == list(shape) else np.ascontiguousarray(value.T)))
        lease.taken.planned.set_parameters(values)

    def _take_statistics(self, lease):
        buffers = dict(self.module.named_buffers(remove_duplicate=False))
        with torch.no_grad():
            for name, value in lease.taken.planned.statistics():
                if name in buffers:
                    buffers[name].copy_(torch.from_numpy(value))
            for part in self.module.modules():
                if isinstance(part, _NORMALIZATIONS) and part.training and part.num_batches_tracked is not None:
                    part.num_batches_tracked.add_(1)

    def _compute(self, lease, tensors):
        inputs = []
        for place, (name, tensor) in enumerate(zip(self._names, tensors)):
            axis = self._axis(place)
            inputs.append((name, _array(tensor if not axis else tensor.movedim(axis, 0))))
        outputs = []
        for (_, value), axis in zip(lease.taken.planned.forward(inputs, lease.number), self._output_axes):
            value = torch.from_numpy(value)
            outputs.append((value.movedim(0, axis) if axis else value).to(tensors[0].device))
        return outputs

    def _gradients(self, run, inputs, gradients):
        given = []
        for name, axis, gradient in zip(self._outputs, self._output_axes, gradients):
            if gradient is not None:
                given.append((name, _array(gradient.movedim(axis, 0) if axis else gradient)))
        found = dict(run.lease.taken.planned.backward(given))
        result = []
        for place, (name, tensor) in enumerate(zip(self._names, inputs)):
            value = torch.from_numpy(found.pop(name)) if name in run.inputs else None
            axis = self._axis(place)
            result.append(value if value is None else (value.movedim(0, axis) if axis else value).to(tensor.device))
        sums = {id(p): None for p in run.tensors.values()}  # a parameter that the file holds under two names gets the sum of both
        for name, parameter in run.tensors.items():
            if name in found:
                value = torch.from_numpy(found[name])
                value = (value if value.shape == parameter.shape else value.T).to(parameter.device)
                sums[id(parameter)] = value if sums[id(parameter)] is None else sums[id(parameter)] + value
        return result + list(sums.values())

    def _find_outputs(self):
        """What the module gives, and where the samples lie in it: seen with one sample less."""
        size = self._example[0].shape[self._batch_axis] if self._example[0].dim() > self._batch_axis else 0
        if size < 2:
            raise UsageError(f"example: {list(self._example[0].shape)} has fewer than two samples along axis {self._batch_axis}")
        fewer = [e if self._axis(i) is None else e.narrow(self._batch_axis, 0, size - 1) for i, e in enumerate(self._example)]
        self.module.eval()
        with torch.no_grad():
            leaves, self._spec = pytree.tree_flatten(self.module(*self._example))
            others, _ = pytree.tree_flatten(self.module(*fewer))
        self._output_places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self._other_leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self._output_axes = []
        for place in self._output_places:
            differ = [a for a, (x, y) in enumerate(zip(leaves[place].shape, others[place].shape)) if x != y]
            self._output_axes.append(differ[0] if differ else None)

    def _check(self):
        """Compares outputs and gradients of the example with PyTorch's. Fails with a line for each that differs."""
        twin = copy.deepcopy(self.module)
        before = copy.deepcopy(self.module.state_dict())
        generator = np.random.default_rng(1)
        try:
            self.train(not self._dropout.random)
            twin.train(not self._dropout.random)
            with torch.enable_grad():
                ours, theirs = ([t for t in pytree.tree_leaves(m(*self._example)) if isinstance(t, torch.Tensor)] for m in (self, twin))
                weights = [torch.from_numpy(generator.standard_normal(tuple(t.shape), dtype=np.float32)) for t in theirs]
                of = [i for i, t in enumerate(theirs) if t.requires_grad]
                found, wanted = [], []
                for module, outputs, gradients in ((self, ours, found), (twin, theirs, wanted)):
                    learnt = [p for p in module.parameters() if p.requires_grad]
                    total = sum((outputs[i] * weights[i].to(outputs[i].device)).sum() for i in of)
                    gradients += torch.autograd.grad(total, learnt, allow_unused=True) if of and learnt else []
            names = [n for n, p in twin.named_parameters() if p.requires_grad]
            lines = _differences([f"output {i}" for i in range(len(ours))], ours, theirs)
            lines += _differences([f"the gradient of {n}" for n in names], found, wanted)
        finally:
            self.module.load_state_dict(before)
        if lines:
            raise ModelError("the exported module does not compute what the module does: differences of\n  " + "\n  ".join(lines))
