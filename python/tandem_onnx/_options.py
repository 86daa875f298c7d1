"""Keywords as the library's options: their names are those of the command line with _ for -."""
import json
import os

from . import _tandem
from ._errors import UsageError
from .optimizers import Optimizer

# What says how the file is read.
OF_FILE = {"adapter", "constant", "cut", "head", "lora", "replace_head", "tie", "trainable", "untie"}


def describe():
    """{name: {"field", "group", "type", "value", "default", "help"}} of all options."""
    return {row["name"].replace("-", "_"): row for row in json.loads(_tandem.describe_options()) if row["name"] != "data"}


def options(name: str | None = None) -> None:
    """Prints what an option means, or all options by group."""
    rows = describe()
    if name is None:
        group = None
        for key, row in rows.items():
            if row["group"] != group:
                group = row["group"]
                print(f"{group}:")
            print(f"  {key}={row['value'] or 'True|False'}")
        return
    by_field = {row["field"]: key for key, row in rows.items()}
    key = name if name in rows else by_field.get(name)
    if key is None:
        _tandem.check_options(json.dumps({name: ""}))  # says which is near
    row = rows[key]
    print(f"{key}={row['value'] or 'True|False'}  {row['help']} (default {row['default']!r})")


def _value(name, value):
    """As JSON holds it. Lists within a dict are sizes to choose from (dim={"length": [32, 64]}), numbers (set=) or devices (place=)."""
    if isinstance(value, dict):
        if name == "group":
            return [f"{patterns}: {settings}" for patterns, settings in value.items()]
        between = "|" if name in ("dim", "set") else ","
        return {str(k): between.join(map(str, v)) if isinstance(v, (list, tuple)) else _value(name, v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_value(name, v) for v in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value.item() if hasattr(value, "item") else value


def as_json(given):
    """The text that the extension module takes; None means that an option is not given."""
    pairs = {}
    for name, value in given.items():
        if name == "data":
            raise UsageError("data=: the data is the first argument of fit, evaluate and predict")
        if name == "optimizer" and isinstance(value, Optimizer):
            pairs = {**{k: v for k, v in value.options.items() if v is not None}, **pairs}
        elif value is not None:
            pairs[name] = _value(name, value)
    try:
        return json.dumps(pairs)
    except TypeError as error:
        raise UsageError(f"an option is neither number, text, list nor dict: {error}") from None


def check_not_of_file(given):
    for name in given:
        if name in OF_FILE and given[name] is not None:
            raise UsageError(f"{name}= says how the file is read: give it to Model(path, {name}=...)")
