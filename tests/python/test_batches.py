"""Data that comes batch by batch is read while it trains, and gives the bits of the same samples as arrays."""
import itertools

import numpy as np
import pytest

import tandem_onnx as tandem
from test_model import compiled

EPOCHS, BATCH, STEPS = 3, 16, 4


class Counted:
    """Batches of these sizes, endlessly or `most` of them, and how many samples were taken."""

    def __init__(self, x, y, sizes, most=None):
        self.x, self.y, self.sizes, self.most, self.samples = x, y, itertools.cycle(sizes), most, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.most == 0:
            raise StopIteration
        self.most = self.most - 1 if self.most else None
        at = [(self.samples + i) % len(self.x) for i in range(next(self.sizes))]
        self.samples += len(at)
        return self.x[at], self.y[at]


def trained(model, *data, **options):
    history = model.fit(*data, epochs=EPOCHS, **options)
    return history.history["loss"], model.get_weights()


def equal(a, b):
    assert a[0] == b[0]
    for name, value in a[1].items():
        np.testing.assert_array_equal(value, b[1][name], err_msg=name)


@pytest.mark.parametrize("sizes", [(BATCH,), (5, 11, 0, 40), (64,)])
@pytest.mark.parametrize("devices", ["cpu", "cpu:0-1"])
def test_a_generator_gives_the_bits_of_arrays(lenet, digits, quick, sizes, devices):
    quick = {**quick, "devices": devices}
    wanted = trained(compiled(lenet, quick, shuffle=False), *digits, batch_size=BATCH)
    source = Counted(*digits, sizes)
    got = trained(compiled(lenet, quick), source, batch_size=BATCH, steps_per_epoch=STEPS)
    equal(got, wanted)
    assert source.samples - max(sizes) < EPOCHS * STEPS * BATCH, "no batch is drawn beyond the last step"


def test_an_epoch_goes_on_where_the_last_ended(lenet, digits, quick):
    """48 samples an epoch of 64: the third begins in the midst of the data."""
    x, y = digits
    model = compiled(lenet, quick)
    model.fit(Counted(x, y, (BATCH,)), epochs=EPOCHS, steps_per_epoch=3)
    other = compiled(lenet, quick, shuffle=False)
    order = [i % 64 for i in range(EPOCHS * 3 * BATCH)]
    other.fit(x[order], y[order], batch_size=BATCH)
    np.testing.assert_array_equal(model.get_weights()["fc1.weight"], other.get_weights()["fc1.weight"])


def test_an_iterable_begins_again_and_a_generator_does_not(lenet, digits, quick):
    class Again:
        def __iter__(self):
            return iter([(digits[0], digits[1])])
    wanted = trained(compiled(lenet, quick, shuffle=False), *digits, batch_size=BATCH)
    equal(trained(compiled(lenet, quick), Again(), batch_size=BATCH, steps_per_epoch=STEPS), wanted)
    with pytest.raises(tandem.DataError, match="the data has ended after 5 batches, expected more: steps_per_epoch asks"):
        compiled(lenet, quick).fit(Counted(*digits, (BATCH,), most=5), epochs=2, steps_per_epoch=STEPS)
    with pytest.raises(tandem.DataError, match="the data has no batches"):
        compiled(lenet, quick).fit(iter([]), steps_per_epoch=STEPS)
    x, y = digits
    class Empty:
        def __iter__(self):
            return iter([(x[:0], y[:0])])
    with pytest.raises(tandem.DataError, match="the data's batches have no samples"):
        compiled(lenet, quick).fit(Empty(), steps_per_epoch=STEPS)


def test_several_inputs_by_name(two_towers, quick):
    rng = np.random.default_rng(1)
    a, b, y = rng.standard_normal((12, 3)), rng.standard_normal((12, 2), dtype=np.float32), rng.standard_normal((12, 4), dtype=np.float32)
    models = [tandem.Model(two_towers) for _ in range(2)]
    for model in models:
        model.compile(loss="mse", loss_on="sum", shuffle=False, **{**quick, "init": None})
    models[0].fit({"a": a, "b": b}, y, batch_size=4)
    models[1].fit(({"a": a[i:i + 3], "b": b[i:i + 3], "y": y[i:i + 3]} for i in range(0, 12, 3)), batch_size=4, steps_per_epoch=3)
    np.testing.assert_array_equal(models[0].get_weights()["wa"], models[1].get_weights()["wa"])


def bad_label(x, y):
    wrong = y.copy()
    wrong[3] = 11
    return [(x[:BATCH], y[:BATCH]), (x[:BATCH], wrong[:BATCH])]


@pytest.mark.parametrize("batches, message", [
    (bad_label, "the data: sample 19 has label 11, the model's output has 10 classes"),
    (lambda x, y: [(x[:BATCH], y[:BATCH]), (x[:BATCH].astype(np.float64), y[:BATCH])], r"batch 2 has .*float64 \[N, 1, 28, 28\]"),
    (lambda x, y: [(x[:BATCH], y[:BATCH]), (x[:BATCH], y[:3])], "batch 2: not as many samples everywhere"),
])
def test_a_batch_that_does_not_fit_is_named(lenet, digits, quick, batches, message):
    with pytest.raises(tandem.DataError, match=message):
        compiled(lenet, quick).fit(iter(batches(*digits)), steps_per_epoch=2)


@pytest.mark.parametrize("options", [{"validation_split": 0.5}, {"normalize": "auto"}, {"class_weights": "balanced"}])
def test_what_looks_at_all_samples_first_is_refused(lenet, digits, quick, options):
    with pytest.raises(tandem.UsageError, match="looks at all of them first"):
        compiled(lenet, quick).fit(Counted(*digits, (BATCH,)), steps_per_epoch=2, **options)


def test_steps_per_epoch_is_for_batches(lenet, digits, quick):
    with pytest.raises(tandem.UsageError, match="steps_per_epoch: for an iterable of batches"):
        compiled(lenet, quick).fit(*digits, steps_per_epoch=2)
    with pytest.raises(tandem.UsageError, match="steps_per_epoch=0, expected 1 or more"):
        compiled(lenet, quick).fit(Counted(*digits, (BATCH,)), steps_per_epoch=0)


def test_an_exception_of_the_generator_arrives(lenet, digits, quick):
    def broken():
        yield digits[0][:BATCH], digits[1][:BATCH]
        raise KeyError("from the generator")
    with pytest.raises(KeyError, match="from the generator"):
        compiled(lenet, quick).fit(broken(), steps_per_epoch=2)


def test_a_run_folder_goes_on_with_the_next_batches(lenet, digits, quick, tmp_path):
    wanted = trained(compiled(lenet, quick, shuffle=False), *digits, batch_size=BATCH)
    source = Counted(*digits, (BATCH,))
    compiled(lenet, quick).fit(source, epochs=1, steps_per_epoch=STEPS, callbacks=[tandem.Checkpoint(tmp_path / "run")])
    model = compiled(lenet, quick)
    history = model.fit(source, epochs=EPOCHS, steps_per_epoch=STEPS, callbacks=[tandem.Checkpoint(tmp_path / "run", resume=True)])
    assert history.history["loss"] == wanted[0][1:]


def test_the_bar_of_verbose_1(lenet, digits, quick, capsys, monkeypatch):
    monkeypatch.setattr("tandem_onnx._progress._SECONDS", 0.0)
    compiled(lenet, quick).fit(*digits, batch_size=BATCH, epochs=2, verbose=1)
    text = capsys.readouterr().err
    assert "\repoch 2/2  step 2/4 [============............] 0:0" in text and "left  loss " in text
    lines = [line.split("\r")[-1] for line in text.split("\n")]
    assert [line.split("  ")[0] for line in lines if line.startswith("epoch")] == ["epoch 1/2", "epoch 2/2"]
    compiled(lenet, quick).fit(*digits, batch_size=BATCH, verbose=2)
    assert "\r" not in capsys.readouterr().err
    with pytest.raises(tandem.UsageError, match="verbose=3, expected 0, 1, 2"):
        compiled(lenet, quick).fit(*digits, verbose=3)
