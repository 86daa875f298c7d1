"""Callbacks as Keras has them, and data that comes in other ways than two arrays."""
import csv

import numpy as np
import pytest

import tandem_onnx as tandem
from test_model import compiled


class Record(tandem.Callback):
    def __init__(self):
        self.calls = []

    def on_train_begin(self, logs=None):
        self.calls.append("begin")

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(f"epoch {epoch}")

    def on_train_batch_end(self, batch, logs=None):
        self.calls.append((batch, logs["size"]))

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append(f"end {epoch}")

    def on_train_end(self, logs=None):
        self.calls.append("end")


def test_calls_in_keras_order(lenet, digits, quick):
    record = Record()
    compiled(lenet, quick).fit(*digits, epochs=2, batch_size=40, callbacks=[record])
    epoch = [(0, 40), (1, 24)]
    assert record.calls == ["begin", "epoch 0", *epoch, "end 0", "epoch 1", *epoch, "end 1", "end"]


def test_an_exception_of_a_callback_arrives(lenet, digits, quick):
    def fail(batch, logs):
        if batch == 1:
            raise KeyError("from the callback")
    model = compiled(lenet, quick)
    with pytest.raises(KeyError, match="from the callback"):
        model.fit(*digits, batch_size=16, callbacks=[tandem.LambdaCallback(on_train_batch_end=fail)])
    assert model.fit(*digits, batch_size=16).steps == 4


def test_a_callback_may_measure_and_save_but_not_train(lenet, digits, quick, tmp_path):
    seen = []

    def look(epoch, logs):
        seen.append(model.evaluate(*digits)["loss"])
        model.save(tmp_path / "m.onnx")
        with pytest.raises(tandem.UsageError, match="being trained"):
            model.fit(*digits)
    model = compiled(lenet, quick)
    model.fit(*digits, batch_size=16, validation_data=digits, callbacks=[tandem.LambdaCallback(on_epoch_end=look)])
    assert len(seen) == 1 and (tmp_path / "m.onnx").exists()


def test_early_stopping_restores_the_best(lenet, digits, quick):
    """A loss that only rises stops the run after `patience` epochs, at the weights of the first."""
    x, y = digits
    model = compiled(lenet, quick, lr=0.2)
    wrong = (x, (y + 1) % 10)  # the better it learns, the worse this becomes
    weights = []
    keep = tandem.LambdaCallback(on_epoch_end=lambda epoch, logs: weights.append(model.get_weights()))
    stop = tandem.EarlyStopping(2, restore_best_weights=True)
    history = model.fit(x, y, epochs=50, batch_size=16, validation_data=wrong, callbacks=[stop, keep])
    losses = history.history["val_loss"]
    assert len(losses) < 50 and int(np.argmin(losses)) == len(losses) - 3 == stop.best_epoch
    assert history.steps == 4 * len(losses)
    np.testing.assert_array_equal(model.get_weights()["fc1.weight"], weights[stop.best_epoch]["fc1.weight"])


def test_reduce_lr_on_plateau(lenet, digits, quick):
    reduce = tandem.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=100.0, min_lr=0.02)
    rates = compiled(lenet, quick).fit(*digits, epochs=4, batch_size=32, callbacks=[reduce]).history["learning_rate"]
    assert rates == pytest.approx([0.05, 0.05, 0.025, 0.02])


def test_model_checkpoint_and_csv_logger(lenet, digits, quick, tmp_path):
    log, files = tandem.CSVLogger(tmp_path / "log.csv"), tandem.ModelCheckpoint(tmp_path / "m.{epoch:02d}-{loss:.1f}.onnx")
    history = compiled(lenet, quick).fit(*digits, epochs=2, batch_size=32, callbacks=[log, files])
    rows = list(csv.DictReader(open(tmp_path / "log.csv")))
    assert [float(r["loss"]) for r in rows] == pytest.approx(history.history["loss"])
    names = sorted(p.name for p in tmp_path.glob("m.*.onnx"))
    assert names == [f"m.{i + 1:02d}-{loss:.1f}.onnx" for i, loss in enumerate(history.history["loss"])]


def test_checkpoint_is_a_run_folder_that_goes_on(lenet, digits, quick, tmp_path):
    run = tmp_path / "run"
    compiled(lenet, quick).fit(*digits, epochs=1, batch_size=32, callbacks=[tandem.Checkpoint(run)])
    assert (run / "last.checkpoint").exists() and (run / "metrics.csv").exists()
    wanted = compiled(lenet, quick).fit(*digits, epochs=2, batch_size=32).history["loss"][1]
    history = compiled(lenet, quick).fit(*digits, epochs=2, batch_size=32, callbacks=[tandem.Checkpoint(run, resume=True)])
    assert history.epoch == [1] and history.history["loss"] == [wanted]
    with pytest.raises(tandem.UsageError, match="holds a run: resume=True goes on with it, overwrite=True starts anew"):
        compiled(lenet, quick).fit(*digits, callbacks=[tandem.Checkpoint(run)])


def test_batches_of_an_iterable(lenet, digits, quick):
    x, y = digits
    wanted = compiled(lenet, quick, shuffle=False).fit(x, y, batch_size=16, epochs=2).history["loss"]
    parts = [(x[i:i + 16], y[i:i + 16]) for i in range(0, 64, 16)]
    got = compiled(lenet, quick, shuffle=False).fit(iter(parts), batch_size=16, epochs=2).history["loss"]
    assert got == wanted


def test_data_by_text(lenet, digits, quick, tmp_path):
    x, y = digits
    np.savez(tmp_path / "d.npz", x=x, y=y)
    model = compiled(lenet, quick, shuffle=False)
    got = model.fit(f"npz:{tmp_path}/d.npz", batch_size=16, validation_data=f"npz:{tmp_path}/d.npz")
    wanted = compiled(lenet, quick, shuffle=False).fit(x, y, batch_size=16, validation_data=(x, y))
    assert got.history["loss"] == wanted.history["loss"] and got.history["val_loss"] == wanted.history["val_loss"]
    assert model.evaluate(f"npz:{tmp_path}/d.npz")["loss"] == pytest.approx(got.history["val_loss"][0])


def test_sample_weights_and_validation_split(lenet, digits, quick):
    x, y = digits
    weights = np.zeros(64)
    weights[:32] = 2.0
    got = compiled(lenet, quick, shuffle=False).fit(x, y, sample_weight=weights, batch_size=64).history["loss"]
    wanted = compiled(lenet, quick, shuffle=False).fit(x[:32], y[:32], batch_size=32).history["loss"]
    assert got == pytest.approx(wanted, rel=1e-5)
    history = compiled(lenet, quick).fit(x, y, validation_split=0.25, batch_size=16)
    assert history.steps == 3 and "val_loss" in history.history


def test_tables_of_arrow(two_towers, quick):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((8, 3), dtype=np.float32), rng.standard_normal((8, 2), dtype=np.float32)
    table = arrow.table({f"column {i}": a[:, i] for i in range(3)})
    model = tandem.Model(two_towers)
    model.compile(loss="mse", loss_on="sum", **quick)
    wanted = model.predict([a, b])
    np.testing.assert_array_equal(model.predict({"a": table, "b": b})["sum"], wanted["sum"])


def test_another_thread_is_told_that_the_model_is_in_use(lenet, digits, quick):
    import threading
    model, told = compiled(lenet, quick), []

    def look(epoch, logs):
        def use():
            try:
                model.predict(digits[0])
            except tandem.UsageError as error:
                told.append(str(error))
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
    model.fit(*digits, callbacks=[tandem.LambdaCallback(on_epoch_end=look)])
    assert told == ["the model is in use by another thread"]


@pytest.mark.parametrize("value, text", [({"length": [32, 64]}, {"length": "32|64"}), ({"length": 8}, {"length": 8})])
def test_sizes_of_dimensions(value, text):
    from tandem_onnx._options import _value
    assert _value("dim", value) == text


def test_options_are_told(capsys):
    tandem.options("clip_norm")
    assert capsys.readouterr().out.startswith("clip_norm=X  largest norm of all gradients")
    with pytest.raises(tandem.UsageError, match="did you mean clip_norm"):
        tandem.options("clip_nrom")


def test_multi_gpu_model_says_where_it_trains(lenet, digits, quick):
    model = compiled(lenet, {**quick, "devices": None})
    assert tandem.multi_gpu_model(model, gpus=2) is model
    model.fit(*digits, batch_size=16)
    assert model.get_config()["devices"] == ["cpu:0", "cpu:1"]  # without GPUs as many CPU devices
