"""The model: an ONNX file that is planned for devices, trained, measured, used and written back."""
from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _batches, _data, _options, _tandem
from ._errors import TandemWarning, UsageError
from .callbacks import Callback, Checkpoint, History, overrides
from .optimizers import Optimizer
from ._progress import progress_of
from .plan import Layer, Plan

_EPOCH_KEYS = ("epoch", "epochs", "step")


class _Hooks:
    """What the library calls during a training, on the thread that called fit."""

    def __init__(self, model, callbacks, history, progress):
        self.model, self.callbacks, self.history, self.progress = model, callbacks, history, progress
        self.on_batch = [c for c in callbacks if overrides(c, "on_train_batch_end") or "on_train_batch_end" in vars(c)]
        self.looks_at_steps = bool(self.on_batch)
        self.epoch, self.batch = 0, 0  # under way: the epoch from 1, the last step's place in it

    def begin_epoch(self, epoch):
        self.epoch, self.batch = epoch, 0
        self.progress.begin_epoch(epoch)
        for c in self.callbacks:
            c.on_epoch_begin(epoch - 1, {})

    def on_step(self, report):
        if report["epoch"] != self.epoch:
            self.begin_epoch(report["epoch"])
        self.batch += 1
        self.progress.step(self.batch, report)
        for c in self.on_batch:
            c.on_train_batch_end(self.batch - 1, report)
        return self.model.stop_training

    def on_epoch(self, report):
        self.model._tell()
        logs = {name: value for name, value in report.items() if name not in _EPOCH_KEYS}
        self.history.add(report["epoch"] - 1, logs)
        self.progress.epoch(report, logs)
        for c in self.callbacks:
            c.on_epoch_end(report["epoch"] - 1, logs)
        return self.model.stop_training


class Model:
    """An ONNX file as a model.

    path: the file; or a torch.nn.Module with `example`, its inputs for one batch (a tensor or a tuple), which is exported as it trains
    best (see `export`).
    options: how the file is read and what of it is trained, such as head=3 (a new layer of 3 classes), freeze="conv*", lora="r=8". All
    options of `tandem train` are keywords, with _ for -; `tandem_onnx.options()` prints them.

    Raises FileError where the file cannot be read, ModelError where it is no model or holds what cannot be trained, UsageError on an
    option that there is not.
    """

    stop_training: bool

    def __init__(self, path: str | os.PathLike | Any, example: Any = None, *, batch_axis: int = 0, **options: Any) -> None:
        self._module = None
        if not isinstance(path, (str, os.PathLike)):
            from . import _torch
            self._module, path, self._folder = path, *_torch.export_to_temporary(path, example, batch_axis)
        elif example is not None:
            raise UsageError("example: of a file nothing is exported")
        self._give(dict(options))
        self._model = _tandem.Model(os.fspath(path), self._as_json())
        self.stop_training = False

    @property
    def name(self) -> str:
        """The graph's name in the file."""
        return self._model.name

    @property
    def inputs(self) -> list[str]:
        """Names of the model's inputs, in the file's order."""
        return self._model.inputs()

    @property
    def outputs(self) -> list[str]:
        """Names of the model's outputs, in the file's order."""
        return self._model.outputs()

    def compile(self, loss: str | Mapping[str, str] | None = None, optimizer: str | Optimizer | None = None, devices: str | int | None = None,
                parallel: str | Mapping[str, int | str] | None = None, **options: Any) -> None:
        """Says what the model is trained for and where, and checks that it can be. The plan itself is made when it is first needed.

        loss: a name ("cross_entropy", "mse", PyTorch's and Keras's names too), {"output": "name*weight"} of several outputs, or a file
        FILE.onnx. Left out, the file, else the data, tells it.
        optimizer: a name or an object, such as AdamW(1e-3).
        devices: "cpu:0-1", "cuda:0-7", a number; left out, all GPUs, without GPUs the CPU.
        parallel: how the devices share the work, such as {"data": 2, "tensor": 4}.
        options: all others by keyword, such as batch_size=64, precision="bf16", metrics=["f1"], clip_norm=1.0.

        A second call keeps the weights and starts the optimizer anew. Raises UsageError, ModelError or DeviceError.
        """
        _options.check_not_of_file(options)
        given = {**self._given, **options, "loss": loss, "optimizer": optimizer, "devices": devices, "parallel": parallel}
        given = {name: value for name, value in given.items() if value is not None}
        self._model.check(_options.as_json(given))
        self._give(given)

    def _give(self, options):
        self._given, self._given_as_json = options, None

    def _as_json(self, **more):
        if more:
            return _options.as_json({**self._given, **{k: v for k, v in more.items() if v is not None}})
        if self._given_as_json is None:  # kept: steps on batches ask for it each time
            self._given_as_json = _options.as_json(self._given)
        return self._given_as_json

    def _tell(self):
        for note in self._model.take_notes():
            if note.startswith("warning: "):
                warnings.warn(note[len("warning: "):], TandemWarning, stacklevel=4)
            elif self._says:
                print(f"note: {note}", file=sys.stderr)

    _says = False

    def fit(self, x: Any, y: Any = None, *, batch_size: int | None = None, epochs: int | None = None, steps_per_epoch: int | None = None,
            validation_data: Any = None, validation_split: float | None = None, sample_weight: Any = None,
            callbacks: Iterable[Callback] = (), verbose: int | str = "auto", **options: Any) -> History:
        """Trains. Returns a History.

        x: arrays of samples along axis 0: one, a list in the order of `inputs`, or a dict by input (NumPy, PyTorch, anything with
        DLPack, tables of pandas and Arrow); an iterable of batches such as a DataLoader or a generator; or a text as --data has it
        ("idx:data/mnist", "images.npy").
        steps_per_epoch: of an iterable: it is read while it trains, in its order, `steps_per_epoch` batches of `batch_size` samples an
        epoch (left out, the size of its first batch), whatever the sizes of its own batches. An iterable that has ended begins again
        where it can; a generator cannot. Without steps_per_epoch an iterable is read into memory once, before the first step.
        y: labels of as many samples: class numbers [N], or values of the output's shape; of several outputs a dict by output.
        sample_weight: [N], how much each sample counts.
        validation_data: (x, y), (x, y, sample_weight), an iterable or a text; measured after each epoch.
        batch_size: samples of a step, over all devices (default 32). epochs: times through the data (default 1).
        callbacks: objects of `tandem_onnx.callbacks`.
        verbose: 0 says nothing, 1 shows a bar that moves with the steps, 2 a line an epoch, all on stderr; "auto" is 1 in a terminal and in a
        notebook, elsewhere 0.
        options: as in `compile`, for this call and later ones.

        float64, int32 and bool arrays are cast as the model wants them; arrays are read where they lie. Ctrl-C ends the run after its
        step: the weights stay as they are then, and KeyboardInterrupt is raised. Raises DataError where data does not fit, DivergedError
        where the loss is no number.
        """
        callbacks = list(callbacks)
        progress = progress_of(verbose, epochs or 1)
        self._says = progress.says
        records = {}  # of this call alone
        for c in callbacks:
            c.set_model(self)
            if isinstance(c, Checkpoint):
                records.update(c.options)
        self._remember(batch_size=batch_size, **options)
        data = self._training_data(x, y, sample_weight, steps_per_epoch)
        options_text = self._as_json(epochs=epochs, validation_split=validation_split, **records)
        validation = None
        if validation_data is not None:
            validation = _data.source(self, *(validation_data if isinstance(validation_data, tuple) else (validation_data,)))
        history = History()
        hooks = _Hooks(self, callbacks, history, progress)
        self.stop_training = False
        for c in callbacks:
            c.on_train_begin({})
        try:
            done = self._model.fit(options_text, data, validation, hooks)
        finally:
            progress.end()
            for c in callbacks:
                c.on_train_end({})
            self._tell()
        history.steps, history.samples_per_second = done["steps"], done["samples_per_second"]
        history.waiting_share, history.stopped = done["waiting_share"], done["stopped"]
        return history

    def _training_data(self, x, y, sample_weight, steps_per_epoch):
        if steps_per_epoch is None:
            return _data.source(self, x, y, sample_weight)
        if not _data.is_batches(x) or y is not None or sample_weight is not None:
            raise UsageError("steps_per_epoch: for an iterable of batches with their labels in them; an epoch of arrays is all their samples")
        data, size = _batches.opened(self, x, steps_per_epoch, self._given.get("batch_size"))
        self._remember(batch_size=size)
        return data

    def _remember(self, **options):
        _options.check_not_of_file(options)
        self._give({**self._given, **{name: value for name, value in options.items() if value is not None}})

    def evaluate(self, x: Any, y: Any = None, *, sample_weight: Any = None, metrics: Sequence[str] | None = None) -> dict[str, float]:
        """Measures loss, accuracy and `metrics` on data as `fit` takes it. Returns {"loss": ..., "accuracy": ..., ...}."""
        result = self._model.evaluate(self._as_json(metrics=metrics), _data.source(self, x, y, sample_weight))
        self._tell()
        return result

    def predict(self, x: Any, *, outputs: str | Sequence[str] = ()) -> np.ndarray | dict[str, np.ndarray]:
        """The model's outputs for data as `fit` takes it, without labels: an array [N, ...], or of several outputs a dict by name.

        outputs: names of other values of the model, such as features, in place of its outputs.
        """
        outputs = [outputs] if isinstance(outputs, str) else list(outputs)
        results = self._model.predict(self._as_json(), _data.source(self, x), outputs)
        self._tell()
        return results[0][1] if len(results) == 1 else dict(results)

    def train_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, learning_rate: float | None = None) -> dict[str, float]:
        """One step on one batch, given as the model takes it: arrays of its types and shapes, nothing is normalized. Returns its numbers.

        learning_rate: of this step; left out, the optimizer's.
        """
        return self._model.train_on_batch(self._as_json(), _data.named(self, x, y, sample_weight), learning_rate)

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None) -> dict[str, float]:
        """Measures one batch, given as `train_on_batch` takes it. Changes nothing."""
        return self._model.test_on_batch(self._as_json(), _data.named(self, x, y, sample_weight))

    def gradients(self, x: Any, y: Any = None, sample_weight: Any = None) -> dict[str, np.ndarray]:
        """{weight: gradient of the loss} over one batch, given as `train_on_batch` takes it. Changes nothing."""
        return self._model.gradients(self._as_json(), _data.named(self, x, y, sample_weight))

    @property
    def learning_rate(self) -> float:
        """The optimizer's rate, before a schedule changes it. A callback that sets it changes that of the next steps."""
        return self._model.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self._model.learning_rate = float(rate)

    def get_weights(self) -> dict[str, np.ndarray]:
        """{name: array} of all weights and running statistics, named as in the file."""
        return self._model.weights(self._as_json())

    def set_weights(self, weights: Mapping[str, Any]) -> None:
        """Sets weights by name; those that are not named stay. Raises UsageError on a name or a shape that the model has not."""
        self._model.set_weights(self._as_json(), [(name, _data.array(value, name)) for name, value in weights.items()])

    def get_layer(self, name: str) -> Layer:
        """A Layer, by the name of a node, of a value that it makes, or of a module ("layer1" of "layer1.conv.weight")."""
        return Layer(**self._model.layer(name))

    def get_config(self) -> dict[str, Any]:
        """What the model is compiled for, as a dict."""
        return json.loads(self._model.config(self._as_json()))

    def summary(self, print_fn: Callable[[str], Any] = print) -> None:
        """Prints the model's nodes with shapes, parameters and FLOPs of one sample."""
        print_fn(self._model.summary(self._as_json()))

    def plan(self) -> Plan:
        """The plan of a training step, a Plan. It is made now where none is yet."""
        options_text = self._as_json()
        self._model.plan(options_text, "summary")
        self._tell()
        return Plan(lambda format: self._model.plan(options_text, format))

    def save(self, path: str | os.PathLike, *, overwrite: bool = False, metadata: bool = True) -> None:
        """Writes the file it came from with the present weights, in inference mode.

        overwrite: external data may replace a file of that name. metadata: say in the file how its data was prepared, which `evaluate`
        and `predict` go by.
        """
        self._model.save(self._as_json(), os.fspath(path), overwrite, metadata)

    def to_torch(self, module: Any = None) -> Any:
        """Writes the present weights into a torch.nn.Module by name: into the one that this model was made of, or `module`.

        Returns the module. Raises ModelError where a parameter of the module has no weight of its name here, naming all of them.
        """
        from . import _torch
        return _torch.write_back(self, module if module is not None else self._module)


def multi_gpu_model(model: Model, gpus: int | None = None) -> Model:
    """As Keras had it: the model trains on that many GPUs, each with its share of the batch (None: all that are here)."""
    model._remember(devices=None if gpus is None else int(gpus), parallel={"data": "*"})
    if gpus is None:
        model._remember(devices="all")
    return model
