"""Callbacks with the names and arguments of Keras. A callback's `model` is the Model; `model.stop_training = True` ends the run."""
import csv
import math
import os

from ._errors import UsageError


class Callback:
    """What is called during `Model.fit`. Epochs and batches count from 0, as in Keras; `logs` has the numbers by name."""

    model = None

    def set_model(self, model):
        self.model = model

    def on_train_begin(self, logs=None):
        """Before the first step."""

    def on_train_end(self, logs=None):
        """After the last step, also of a run that was stopped."""

    def on_epoch_begin(self, epoch, logs=None):
        """Before an epoch's first step."""

    def on_epoch_end(self, epoch, logs=None):
        """After an epoch and its validation: loss, accuracy, val_loss, ..., learning_rate."""

    def on_train_batch_end(self, batch, logs=None):
        """After a step: loss, accuracy, learning_rate, size (samples). `batch` counts within the epoch."""


def overrides(callback, hook):
    return getattr(type(callback), hook, None) is not getattr(Callback, hook)


class LambdaCallback(Callback):
    """Functions as callbacks: LambdaCallback(on_epoch_end=lambda epoch, logs: print(logs))."""

    _HOOKS = ("on_train_begin", "on_train_end", "on_epoch_begin", "on_epoch_end", "on_train_batch_end")

    def __init__(self, **hooks):
        for name, function in hooks.items():
            if name not in self._HOOKS:
                raise UsageError(f"LambdaCallback: no hook '{name}', expected {', '.join(self._HOOKS)}")
            setattr(self, name, function)


class _Monitor(Callback):
    """Compares a number of the logs from epoch to epoch."""

    def __init__(self, monitor, mode, min_delta):
        if mode not in ("auto", "min", "max"):
            raise UsageError(f"mode='{mode}', expected auto, min or max")
        rises = mode == "max" or (mode == "auto" and ("acc" in monitor or monitor.split("_")[-1] in ("f1", "auc", "precision", "recall", "r2")
                                                      or "top" in monitor))
        self.monitor, self.sign, self.min_delta = monitor, -1.0 if rises else 1.0, abs(min_delta)

    def value(self, logs):
        if self.monitor not in logs:
            names = ", ".join(k for k in logs if k not in ("epoch", "epochs", "step"))
            raise UsageError(f"{type(self).__name__}: monitor='{self.monitor}' is not measured, expected one of {names}")
        return logs[self.monitor]

    def is_better(self, value, best):
        return best is None or self.sign * (best - value) > self.min_delta


class EarlyStopping(_Monitor):
    """Ends the run after `patience` epochs in which `monitor` was not better by more than `min_delta`.

    Left out, `monitor` is val_loss, or loss where nothing is validated. A number alone is the patience: `EarlyStopping(3)`.
    """

    def __init__(self, monitor=None, min_delta=0.0, patience=0, mode="auto", baseline=None, restore_best_weights=False):
        if isinstance(monitor, int):
            monitor, patience = None, monitor
        super().__init__(monitor or "val_loss", mode, min_delta)
        self.asked, self.patience, self.baseline, self.restore = monitor, patience, baseline, restore_best_weights

    def on_train_begin(self, logs=None):
        self.best, self.wait, self.best_weights, self.best_epoch, self.stopped_epoch = self.baseline, 0, None, 0, 0

    def on_epoch_end(self, epoch, logs=None):
        if self.asked is None and "val_loss" not in logs:
            self.monitor = "loss"
        value = self.value(logs)
        if self.is_better(value, self.best):
            self.best, self.wait, self.best_epoch = value, 0, epoch
            if self.restore:
                self.best_weights = self.model.get_weights()
            return
        self.wait += 1
        if self.wait >= self.patience:
            self.stopped_epoch, self.model.stop_training = epoch, True

    def on_train_end(self, logs=None):
        if self.best_weights is not None:
            self.model.set_weights(self.best_weights)


class ReduceLROnPlateau(_Monitor):
    """Multiplies the learning rate by `factor` after `patience` epochs in which `monitor` was not better by `min_delta`.

    After a change `cooldown` epochs do not count, and the rate never falls below `min_lr`.
    """

    def __init__(self, monitor="val_loss", factor=0.1, patience=10, mode="auto", min_delta=1e-4, cooldown=0, min_lr=0.0):
        if not 0 < factor < 1:
            raise UsageError(f"ReduceLROnPlateau: factor={factor}, expected above 0 and below 1")
        super().__init__(monitor, mode, min_delta)
        self.factor, self.patience, self.cooldown, self.min_lr = factor, patience, cooldown, min_lr

    def on_train_begin(self, logs=None):
        self.best, self.wait, self.rest = None, 0, 0

    def on_epoch_end(self, epoch, logs=None):
        value = self.value(logs)
        if self.rest > 0:
            self.rest, self.wait = self.rest - 1, 0
        if self.is_better(value, self.best):
            self.best, self.wait = value, 0
            return
        if self.rest > 0:
            return
        self.wait += 1
        if self.wait >= self.patience:
            self.model.learning_rate = max(self.model.learning_rate * self.factor, self.min_lr)
            self.wait, self.rest = 0, self.cooldown


class ModelCheckpoint(_Monitor):
    """Writes the model as ONNX after each epoch, to `filepath` with the epoch (from 1) and the logs: "m.{epoch:02d}-{val_loss:.3f}.onnx"."""

    def __init__(self, filepath, monitor="val_loss", save_best_only=False, mode="auto"):
        super().__init__(monitor, mode, 0.0)
        self.filepath, self.best_only, self.best = os.fspath(filepath), save_best_only, None

    def on_epoch_end(self, epoch, logs=None):
        if self.best_only:
            value = self.value(logs)
            if not self.is_better(value, self.best):
                return
            self.best = value
        self.model.save(self.filepath.format(**{**logs, "epoch": epoch + 1}), overwrite=True)


class Checkpoint(Callback):
    """Keeps a run's folder, as `--run-dir` does: checkpoints from which a run goes on, metrics.csv, curves.svg, plan.txt, config.json.

    A folder that holds a run is refused, but with `resume=True`, which goes on from its last checkpoint, or `overwrite=True`, which starts
    anew. `every` writes a checkpoint also every so many steps, or so often ("10m"); `keep` keeps so many of the latest.
    """

    def __init__(self, folder, every=None, keep=0, resume=False, overwrite=False, tensorboard=False):
        self.folder, self.may_be_there = os.fspath(folder), resume or overwrite
        self.options = {"run_dir": os.fspath(folder), "checkpoint_every": every, "keep_checkpoints": keep or None, "resume": resume or None,
                        "tensorboard": tensorboard or None}

    def set_model(self, model):
        super().set_model(model)
        if not self.may_be_there and any(os.path.exists(os.path.join(self.folder, f"{name}.checkpoint")) for name in ("last", "previous")):
            raise UsageError(f"{self.folder} holds a run: resume=True goes on with it, overwrite=True starts anew")


class TensorBoard(Checkpoint):
    """Writes TensorBoard's event files into a run's folder."""

    def __init__(self, log_dir="logs", histogram_freq=0):
        super().__init__(log_dir, overwrite=True, tensorboard=True)
        self.options["histograms"] = True if histogram_freq else None


class CSVLogger(Callback):
    """A row of all numbers an epoch, in a file of columns."""

    def __init__(self, filename, separator=",", append=False):
        self.filename, self.separator, self.append = os.fspath(filename), separator, append

    def on_train_begin(self, logs=None):
        there = self.append and os.path.exists(self.filename) and os.path.getsize(self.filename) > 0
        self.file, self.names, self.titled = open(self.filename, "a" if self.append else "w", newline="", encoding="utf-8"), None, there

    def on_epoch_end(self, epoch, logs=None):
        writer = csv.writer(self.file, delimiter=self.separator)
        if self.names is None:
            self.names = [name for name in logs if name not in ("epoch", "epochs", "step")]
            if not self.titled:
                writer.writerow(["epoch", *self.names])
        writer.writerow([epoch, *(logs.get(name, math.nan) for name in self.names)])
        self.file.flush()

    def on_train_end(self, logs=None):
        self.file.close()


class History:
    """What `fit` returns: `history` has a list of numbers for each name, one an epoch; `epoch` the epochs, from 0."""

    def __init__(self):
        self.epoch, self.history = [], {}
        self.steps, self.samples_per_second, self.waiting_share, self.stopped = 0, 0.0, 0.0, False

    def add(self, epoch, logs):
        for name, value in logs.items():
            if name not in ("epoch", "epochs", "step"):
                self.history.setdefault(name, [math.nan] * len(self.epoch)).append(value)
        self.epoch.append(epoch)
        for values in self.history.values():
            values.extend([math.nan] * (len(self.epoch) - len(values)))

    def __repr__(self):
        last = ", ".join(f"{name} {values[-1]:.4g}" for name, values in self.history.items() if values)
        return f"History({len(self.epoch)} epochs, {self.steps} steps: {last})"
