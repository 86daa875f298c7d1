"""Dropout in an exported file: ONNX's Dropout of a known ratio, which does nothing in inference and drops while a model trains."""
import collections
import contextlib
import copy
import warnings
from unittest import mock

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ._errors import TandemWarning

_TOLERANCE = 1e-4  # of the difference's norm over the norm: an attention of PyTorch's has other kernels in inference
_ATTENTION = "scaled_dot_product_attention"
_MODULES = torch.nn.modules.dropout._DropoutNd
_STAND_STILL = (torch.nn.modules.batchnorm._NormBase, torch.nn.RNNBase)  # written as in inference, of which tandem makes training


class _Mode(int):
    """A module's `training`, known again where a function is given it."""


_TRAINING = _Mode(1)


def _dropout(x, ratio):
    return torch.onnx.ops.symbolic("Dropout", (x, torch.tensor(ratio)), dtype=x.dtype, shape=x.shape, version=13)


def _feature_dropout(x, ratio):
    """Whole channels of [samples, channels, ...]."""
    first = x
    for axis in range(2, x.dim()):
        first = first.narrow(axis, 0, 1)
    return x * _dropout(torch.ones_like(first), ratio)


# PyTorch's functions that drop, by which its modules and torch.nn.functional do; and what is written in their place (None: nothing can be).
_FUNCTIONS = {"dropout": _dropout, "feature_dropout": _feature_dropout, "alpha_dropout": None, "feature_alpha_dropout": None}


@contextlib.contextmanager
def _replaced(call, see_attention=None):
    """Meanwhile the functions give `call(name, x, p, train)`, where that is a tensor. With `see_attention(p)` attention drops nothing."""
    def of(name, known):
        original = getattr(torch._C._VariableFunctions, known)

        def function(input, p, train):
            result = call(name, input, p, train)
            if result is None:
                return original(input, p, bool(train))
            return result if result is input or name == known else input.copy_(result)
        return function

    def attention(query, key, value, attn_mask=None, dropout_p=0.0, *more, **named):
        see_attention(dropout_p)
        return of_attention(query, key, value, attn_mask, 0.0, *more, **named)

    of_attention = getattr(torch.nn.functional, _ATTENTION)
    with contextlib.ExitStack() as stack:
        for home in (torch._VF, torch):
            for name in _FUNCTIONS:
                for known in filter(lambda known: hasattr(home, known), (name, name + "_")):
                    stack.enter_context(mock.patch.object(home, known, of(name, known)))
        if see_attention:
            stack.enter_context(mock.patch.object(torch.nn.functional, _ATTENTION, attention))
        yield


@contextlib.contextmanager
def _modes(module, mode_of):
    """Meanwhile each part's `training` is mode_of(part)."""
    before = [(part, part.training) for part in module.modules()]
    for part, _ in before:
        part.training = mode_of(part)
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


def inference(module):
    """Meanwhile the module is in eval mode."""
    return _modes(module, lambda part: False)


def _ratio_given(func, args, named):
    """The ratio in a call of an operator of PyTorch's that may drop; 1 for one that draws random numbers whatever it is given."""
    given = {a.name: args[i] if i < len(args) else named.get(a.name, a.default_value) for i, a in enumerate(func._schema.arguments)}
    if given.get("training", given.get("train")) is False:
        return 0
    return given.get("dropout_p", given.get("dropout", 1))


class _Pass(TorchDispatchMode):
    """A forward pass without gradients in which nothing is dropped, and what would have been."""

    def __init__(self, module, example, mode_of):
        super().__init__()
        self.calls = []  # (module, function, training as it was given)
        self.draws = collections.Counter()  # (module, operator) that draw random numbers by themselves
        self._within = [type(module).__name__]
        hooks = [hook for name, part in module.named_modules() for hook in self._hooks(name or type(module).__name__, part)]
        try:
            with torch.no_grad(), _modes(module, mode_of), _replaced(self._call, self._attention), self:
                self.outputs = [t for t in pytree.tree_leaves(module(*example)) if isinstance(t, torch.Tensor)]
        finally:
            for hook in hooks:
                hook.remove()

    def _hooks(self, name, part):
        return (part.register_forward_pre_hook(lambda *_: self._within.append(name)),
                part.register_forward_hook(lambda *_: self._within.pop() and None, always_call=True))

    def _call(self, name, x, p, train):
        if train and p > 0:
            self.calls.append((self._within[-1], name, train))
        return x

    def _attention(self, p):
        if p > 0:
            self.calls.append((self._within[-1], _ATTENTION, True))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        named = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags and _ratio_given(func, args, named) > 0:
            self.draws[self._within[-1], str(func)] += 1
        return func(*args, **named)

    def counted(self, which=lambda call: True):
        return collections.Counter((where, name) for where, name, train in filter(which, self.calls))


def _alike(found, wanted):
    if [f.shape for f in found] != [w.shape for w in wanted]:
        return False
    pairs = [(f.double(), w.double()) for f, w in zip(found, wanted) if not w.is_complex()]
    return all(torch.equal(f, w) or bool((f - w).norm() <= _TOLERANCE * w.norm()) for f, w in pairs)


# By part: those of dropout alone, else all but for normalizations and recurrent layers.
_MODES_OF_EXPORTS = (lambda part: isinstance(part, _MODULES) and _TRAINING, lambda part: not isinstance(part, _STAND_STILL) and _TRAINING)


class Dropout:
    """What of a module draws random numbers in train mode, and which parts are exported as in train mode, so that it gets into the file.

    Those parts compute the same in both modes, but for what they drop: all, but for normalizations and recurrent layers, else the modules
    of dropout alone, else none.

    where: names of the modules that drop. left: what is not written, a text each. random: whether train mode draws at all. always: whether
    both modes do.
    """

    def __init__(self, module, example):
        twin = copy.deepcopy(module)
        with torch.random.fork_rng(devices=[]):
            inference = _Pass(twin, example, lambda part: False)
            self._drops_always = bool(inference.calls)
            self._written, most = None, collections.Counter()
            for mode_of in _MODES_OF_EXPORTS:
                try:
                    tried = _Pass(twin, example, mode_of)
                except Exception:  # a function that takes its mode for something else than a condition
                    continue
                drops = tried.counted(self._is_written)
                if drops.total() > most.total() and tried.draws == inference.draws and _alike(tried.outputs, inference.outputs):
                    self._written, most = mode_of, drops
            training = _Pass(twin, example, lambda part: True)  # the last one, for running statistics move
        all_that_drop, always = training.counted(), inference.counted()
        left = (all_that_drop - always - most) + (training.draws - inference.draws)
        self.where = {where for where, _ in all_that_drop - always}
        self.left = sorted(f"{name} of {where}" for where, name in left)
        self.random, self.always = bool(all_that_drop or training.draws), bool(always or inference.draws)
        self.drops = self._written is not None

    def _is_written(self, call):
        """Whether a call drops in train mode alone, and is one that can be written."""
        _, name, train = call
        return name not in _FUNCTIONS or bool(_FUNCTIONS[name] and self._is_of_mode(train))

    def _is_of_mode(self, train):
        return train is _TRAINING or bool(train and not self._drops_always)

    def tell(self, by, stacklevel):
        if self.left:
            warnings.warn(f"{by}: random numbers of train mode are left out, for an exporter writes none: {', '.join(self.left[:5])}"
                          f"{' and more' if len(self.left) > 5 else ''}", TandemWarning, stacklevel=stacklevel + 1)

    @contextlib.contextmanager
    def written(self, module):
        """Meanwhile an export of `module` writes what drops."""
        def call(name, x, p, train):
            if p == 0 or not self._is_of_mode(train):
                return None
            return _FUNCTIONS[name](x, p) if _FUNCTIONS[name] else x

        with _modes(module, self._written or (lambda part: False)), _replaced(call):
            yield

    @contextlib.contextmanager
    def withheld(self, module):
        """Meanwhile a pass of `module` in train mode computes as the file trains, but drops nothing."""
        def mode_of(part):
            return not self.left or isinstance(part, torch.nn.modules.batchnorm._NormBase)

        with _modes(module, mode_of), _replaced(lambda name, x, p, train: x, lambda p: None):
            yield
