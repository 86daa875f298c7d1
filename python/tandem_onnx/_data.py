"""What users bring as data, as named NumPy arrays.

float16 becomes float32 and bfloat16 too; other types go as they are, and are cast sample by sample as the model wants them. Arrays that
lie row by row in the processor's memory are not copied.
"""
import collections.abc

import numpy as np

from ._errors import DataError, UsageError


_AS_THEY_ARE = frozenset(np.dtype(name) for name in ("bool", "uint8", "int32", "int64", "float32", "float64"))
_OF_THE_HOST = (1, 3, 11, 13)  # by DLPack's numbers: its own, pinned by CUDA or ROCm, managed
_ELSEWHERE = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 14: "oneapi"}


def array(value, what="data"):
    """One array, without a copy where there need be none. PyTorch's tensors may need gradients or lie on a GPU (which copies).

    Raises DataError that names `what` where it cannot be had, as of another library's array on a GPU.
    """
    if type(value) is np.ndarray and value.dtype in _AS_THEY_ARE:  # at once: all that is run at each step counts
        return value
    try:
        return _array(value, what)
    except (UsageError, DataError, MemoryError):
        raise
    except Exception as e:  # whatever a library of arrays raises
        raise DataError(f"{what}: a {type(value).__name__}{_place_of(value)}, expected an array in the processor's memory, such as of its "
                        f".cpu() or .get() ({type(e).__name__}: {e})") from e


def _place_of(value):
    """" on cuda:0", where that is not the processor's memory."""
    try:
        kind, number = value.__dlpack_device__()
    except Exception:
        return ""
    return "" if kind in _OF_THE_HOST else f" on {_ELSEWHERE.get(int(kind), f'DLPack device {int(kind)}')}:{number}"


def _array(value, what):
    table = _columns(value)
    if table is not None:
        value = np.stack([np.asarray(column) for column in table.values()], 1) if len(table) > 1 else next(iter(table.values()))
    if hasattr(value, "detach"):  # PyTorch
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        value = value.numpy()
    elif not isinstance(value, np.ndarray):
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            value = np.from_dlpack(value)
        else:
            value = np.asarray(value)
    if value.dtype == object or value.dtype.kind in "USMmVc":
        raise DataError(f"{what}: an array of {value.dtype}, expected numbers or bool")
    if value.dtype == np.float16 or value.dtype.name == "bfloat16":
        value = value.astype(np.float32)
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    return value


def is_batches(x):
    """Data that comes batch by batch: a DataLoader, a generator, tf.data, a Hugging Face data set in batches."""
    if isinstance(x, (str, np.ndarray, dict, list, tuple)) or hasattr(x, "__dlpack__") or hasattr(x, "__array__"):
        return False
    return isinstance(x, collections.abc.Iterable)


def _columns(x):
    """A table of pandas or Arrow as a dict of columns, else None."""
    if hasattr(x, "column_names") and hasattr(x, "to_pydict"):  # pyarrow.Table
        return {name: x.column(name).to_numpy() for name in x.column_names}
    if hasattr(x, "columns") and hasattr(x, "to_numpy"):  # pandas.DataFrame
        return {str(name): x[name].to_numpy() for name in x.columns}
    return None


def _named(values, names, what):
    """{name: array} of one array, a list in the order of `names`, or a dict."""
    if isinstance(values, np.ndarray):
        return {names[0]: array(values, what)}
    table = _columns(values)
    if table is not None and set(names) & set(table):
        values = {name: table[name] for name in names if name in table}
    if isinstance(values, dict):
        for name in values:
            if names and name not in names:
                raise UsageError(f"{what}: the model has no '{name}', expected {', '.join(names)}")
        return {name: array(value, f"{what} '{name}'") for name, value in values.items()}
    if isinstance(values, (list, tuple)) and values and any(hasattr(v, "shape") for v in values):
        if len(values) > len(names):
            raise UsageError(f"{what}: {len(values)} arrays, the model has {len(names)}: {', '.join(names)}")
        return {name: array(value, f"{what} '{name}'") for name, value in zip(names, values)}
    return {names[0]: array(values, what)}


def named(model, x, y=None, sample_weight=None):
    """[(name, role, array)]: the model's inputs by name, labels ("y", or by output where there are several), weights of samples."""
    fields = [(name, "input", value) for name, value in _named(x, model.inputs, "x").items()]
    if y is not None:
        several = isinstance(y, dict) or (isinstance(y, (list, tuple)) and len(y) > 1 and all(hasattr(v, "shape") for v in y))
        labels = _named(y, model.outputs if several else ["y"], "y")
        fields += [(name, "label", value) for name, value in labels.items()]
    if sample_weight is not None:
        fields.append(("sample_weight", "weight", array(sample_weight, "sample_weight").astype(np.float32, copy=False)))
    return fields


def split_item(item, inputs):
    """(x, y, sample_weight) of what a loader gives: x, (x,), (x, y), (x, y, weight), or a dict of inputs with labels beside them."""
    if isinstance(item, dict) or hasattr(item, "items"):
        item = dict(item)
        x = {name: value for name, value in item.items() if name in inputs}
        rest = [name for name in item if name not in x]
        labels = [name for name in ("y", "label", "labels", "target") if name in rest]
        if not x:
            raise DataError(f"a batch with {', '.join(item)} has none of the model's inputs {', '.join(inputs)}")
        return x, item[labels[0]] if labels else None, item.get("sample_weight")
    if isinstance(item, (tuple, list)) and 1 <= len(item) <= 3:
        return tuple(item) + (None,) * (3 - len(item))
    return item, None, None


def collected(model, batches):
    """All batches of an iterable as one set of arrays in memory."""
    parts = [named(model, *split_item(item, model.inputs)) for item in batches]
    if not parts:
        raise DataError("the data has no batches")
    fields = []
    for k, (name, role, first) in enumerate(parts[0]):
        rows = [part[k][2] for part in parts]
        fields.append((name, role, np.concatenate(rows) if len(rows) > 1 else first))
    return fields


def source(model, x, y=None, sample_weight=None):
    """What the extension module takes: a text as --data has it, or named arrays."""
    if isinstance(x, str) or hasattr(x, "__fspath__"):
        if y is not None or sample_weight is not None:
            raise UsageError("y: data that is named by a text has its labels itself")
        return str(x)
    if is_batches(x):
        if y is not None or sample_weight is not None:
            raise UsageError("y: data that comes in batches has its labels in them")
        return collected(model, x)
    return named(model, x, y, sample_weight)
