"""The model: from a file to a trained file, with NumPy arrays in and out."""
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import tandem_onnx as tandem


def compiled(path, quick, **options):
    model = tandem.Model(path)
    model.compile(**{"loss": "cross_entropy", "optimizer": tandem.SGD(0.05, momentum=0.9), **quick, **options})
    return model


def test_learns_saves_and_predicts(lenet, digits, quick, tmp_path):
    x, y = digits
    model = compiled(lenet, quick)
    history = model.fit(x, y, epochs=6, batch_size=16)
    assert history.epoch == list(range(6)) and history.steps == 24
    losses = history.history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    measured = model.evaluate(x, y)
    scores = model.predict(x)
    assert scores.shape == (64, 10) and scores.dtype == np.float32
    assert measured["accuracy"] == pytest.approx(np.mean(scores.argmax(1) == y))
    model.save(tmp_path / "trained.onnx")
    again = tandem.Model(tmp_path / "trained.onnx")
    np.testing.assert_allclose(again.predict(x), scores, rtol=1e-4, atol=1e-4)


def test_onnxruntime_runs_what_is_saved(lenet, digits, quick, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model = compiled(lenet, quick)
    model.fit(*digits, epochs=2, batch_size=16)
    model.save(tmp_path / "trained.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "trained.onnx"), providers=["CPUExecutionProvider"])
    scores = session.run(None, {session.get_inputs()[0].name: digits[0]})[0]
    np.testing.assert_allclose(model.predict(digits[0]), scores, rtol=1e-4, atol=1e-4)


def test_the_program_gives_the_same_numbers(lenet, digits, quick, tmp_path):
    """The same options give the same losses, to the bit, as `tandem train` with the same arrays."""
    import json
    from tandem_onnx.__main__ import program
    x, y = digits
    np.savez(tmp_path / "data.npz", x=x, y=y)
    run = subprocess.run([program(), "train", lenet, "--data", f"npz:{tmp_path}/data.npz", "--init", "he-normal", "--devices", "cpu",
                          "--no-autotune", "--deterministic", "--lr", "0.05", "--momentum", "0.9", "--batch-size", "16", "--epochs", "2",
                          "--run-dir", "none", "--json", "--output", str(tmp_path / "o.onnx")], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    wanted = [e["loss"] for e in map(json.loads, run.stdout.splitlines()) if e["event"] == "epoch"]
    history = compiled(lenet, quick).fit(x, y, epochs=2, batch_size=16)
    assert history.history["loss"] == wanted


@pytest.mark.parametrize("cast", ["float64", "float16", "noncontiguous", "int32 labels", "list"])
def test_arrays_of_other_kinds(lenet, digits, quick, cast):
    x, y = digits
    wanted = compiled(lenet, quick).fit(x, y, batch_size=32).history["loss"]
    if cast == "float64":
        x = x.astype(np.float64)
    elif cast == "float16":
        x = x.astype(np.float16)
    elif cast == "noncontiguous":
        x = np.asfortranarray(x)
    elif cast == "int32 labels":
        y = y.astype(np.int32)
    else:
        y = y.tolist()
    got = compiled(lenet, quick).fit(x, y, batch_size=32).history["loss"]
    assert got == pytest.approx(wanted, rel=1e-3 if cast == "float16" else 1e-6)


def test_several_inputs_and_outputs(two_towers, quick):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((8, 3), dtype=np.float32), rng.standard_normal((8, 2), dtype=np.float32)
    options = {**quick, "init": "keep"}
    model = tandem.Model(two_towers)
    model.compile(loss={"sum": "mse", "difference": "mse*0.5"}, **options)
    assert model.inputs == ["a", "b"] and model.outputs == ["sum", "difference"]
    weights = model.get_weights()
    outputs = model.predict({"b": b, "a": a})
    np.testing.assert_allclose(outputs["sum"], a @ weights["wa"] + b @ weights["wb"], rtol=1e-5)
    np.testing.assert_allclose(model.predict([a, b])["difference"], a @ weights["wa"] - b @ weights["wb"], rtol=1e-4, atol=1e-5)
    history = model.fit([a, b], {"sum": a @ np.ones((3, 4), np.float32), "difference": np.zeros((8, 4), np.float32)}, epochs=3, batch_size=8)
    assert history.history["loss"][-1] < history.history["loss"][0]
    with pytest.raises(tandem.UsageError, match="no 'c', expected a, b"):
        model.fit({"a": a, "c": b}, a)


def test_steps_on_batches_and_gradients(two_towers, quick):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((4, 3)), rng.standard_normal((4, 2))
    target = rng.standard_normal((4, 4)).astype(np.float32)
    model = tandem.Model(two_towers)
    model.compile(loss="mse", loss_on="sum", optimizer=tandem.SGD(0.1), **{**quick, "init": "keep"})
    weights = model.get_weights()
    error = a @ weights["wa"] + b @ weights["wb"] - target
    gradients = model.gradients([a, b], target)
    np.testing.assert_allclose(gradients["wa"], 2 * a.T @ error / error.size, rtol=1e-4, atol=1e-6)
    assert model.test_on_batch([a, b], target)["loss"] == pytest.approx(np.mean(error**2), rel=1e-5)
    report = model.train_on_batch([a, b], target)
    assert report["loss"] == pytest.approx(np.mean(error**2), rel=1e-5)
    np.testing.assert_allclose(model.get_weights()["wa"], weights["wa"] - 0.1 * gradients["wa"], rtol=1e-5, atol=1e-6)
    model.train_on_batch([a, b], target, learning_rate=0.0)
    np.testing.assert_allclose(model.get_weights()["wa"], weights["wa"] - 0.1 * gradients["wa"], rtol=1e-5, atol=1e-6)


def test_weights_by_name(two_towers, quick):
    model = tandem.Model(two_towers)
    model.compile(loss="mse", loss_on="sum", **quick)
    model.set_weights({"wa": np.ones((3, 4))})
    np.testing.assert_array_equal(model.get_weights()["wa"], np.ones((3, 4), np.float32))
    layer = model.get_layer("left")
    assert layer.operators == ["MatMul"] and list(layer.weights) == ["wa"]
    with pytest.raises(tandem.UsageError, match="no weight 'wz', did you mean 'w[ab]'"):
        model.set_weights({"wz": np.ones((3, 4))})
    with pytest.raises(tandem.UsageError, match=r"'wb' is float32\[2,4\], got float32\[4,2\]"):
        model.set_weights({"wb": np.ones((4, 2))})
    with pytest.raises(tandem.UsageError, match="left"):
        model.get_layer("lefd")


def test_plan_and_summary(lenet, quick, capsys):
    model = compiled(lenet, quick, batch_size=8)
    text = str(model.plan())
    assert "8 on 1 device" in text
    assert model.plan().json()["batch"] == 8
    assert "Steps" in model.plan().steps() and "Steps" not in str(model.plan())
    assert model.plan().svg().startswith("<svg") and "flowchart" in model.plan().mermaid() and model.plan().trace()["traceEvents"]
    assert model.plan()._repr_html_().startswith("<iframe") and "&lt;html" in model.plan()._repr_html_()
    model.summary()
    assert "conv1" in capsys.readouterr().out


class Elsewhere:
    """An array of another library's, which does not lie in the processor's memory."""

    def __init__(self, like, place=(2, 0)):
        self.shape, self.place = like.shape, place

    def __dlpack_device__(self):
        return self.place

    def __dlpack__(self, **_):
        raise BufferError("Unsupported device")


class Tensor(Elsewhere):
    """As PyTorch's, which is copied."""

    def __init__(self, values):
        super().__init__(values)
        self.values = values

    def detach(self):
        return self

    def cpu(self):
        return self.values.view(Host)


class Host(np.ndarray):
    def numpy(self):
        return self.view(np.ndarray)


def test_tensors_on_a_gpu_are_copied(lenet, digits, quick):
    x, y = digits
    wanted = compiled(lenet, quick, shuffle=False).fit(x, y, batch_size=16).history["loss"]
    assert compiled(lenet, quick, shuffle=False).fit(Tensor(x), Tensor(y), batch_size=16).history["loss"] == wanted


@pytest.mark.parametrize("error, call, message", [
    (tandem.FileError, lambda m, x, y: tandem.Model("/nowhere/model.onnx"), "/nowhere/model.onnx"),
    (tandem.UsageError, lambda m, x, y: m.compile(batch_sise=3), "did you mean batch_size"),
    (tandem.UsageError, lambda m, x, y: m.compile(batch_size=0), "batch"),
    (tandem.UsageError, lambda m, x, y: m.compile(head=3), r"give it to Model\(path, head="),
    (tandem.UsageError, lambda m, x, y: m.compile(loss="no such loss"), "no such loss"),
    (tandem.DeviceError, lambda m, x, y: (m.compile(devices="cuda:0"), m.fit(x, y)), "cuda"),  # the plan is made where CUDA is built
    (tandem.DataError, lambda m, x, y: m.fit(x[:, :, :20], y), "28"),
    (tandem.DataError, lambda m, x, y: m.fit(x, y[:-1]), "63 samples"),
    (tandem.DataError, lambda m, x, y: m.fit(x, y + 5), "classes"),
    (tandem.DataError, lambda m, x, y: m.fit(x, np.array(["a"] * 64)), "expected numbers"),
    (tandem.DataError, lambda m, x, y: m.fit(Elsewhere(x), y), r"x: a Elsewhere on cuda:0, expected an array in the processor's memory, "
     r"such as of its \.cpu\(\) or \.get\(\) \(BufferError: Unsupported device\)"),
    (tandem.DataError, lambda m, x, y: m.fit(x, Elsewhere(y)), "y: a Elsewhere on cuda:0, expected"),
    (tandem.DataError, lambda m, x, y: m.predict({m.inputs[0]: Elsewhere(x, place=(9, 1))}), "x '.*': a Elsewhere on DLPack device 9:1"),
    (tandem.DataError, lambda m, x, y: m.evaluate(x, y, sample_weight=Elsewhere(x)), "sample_weight: a Elsewhere on cuda:0"),
    (tandem.DataError, lambda m, x, y: m.train_on_batch(Elsewhere(x), y), "x: a Elsewhere on cuda:0"),
    (tandem.DataError, lambda m, x, y: m.fit((batch for batch in [(Elsewhere(x), y)])), "x: a Elsewhere on cuda:0"),
    (tandem.DataError, lambda m, x, y: m.set_weights({name: Elsewhere(w) for name, w in m.get_weights().items()}), r"\w+: a Elsewhere on cuda"),
    (tandem.DataError, lambda m, x, y: m.fit(x, [[1, 2], [3]]), r"y: a list, expected an array .*ValueError"),
    (tandem.DivergedError, lambda m, x, y: m.fit(x, y, lr=1e30, epochs=3, batch_size=8), "loss"),
])
def test_errors_by_class(lenet, digits, quick, error, call, message):
    model = compiled(lenet, quick)
    with pytest.raises(error, match=message) as caught:
        call(model, *digits)
    assert isinstance(caught.value, tandem.Error) and caught.value.code == error.code


@pytest.fixture
def interruptible():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in what it starts in the background
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_stops_after_the_step_and_keeps_the_weights(lenet, digits, quick, interruptible):
    x, y = digits
    model = compiled(lenet, quick, batch_size=8)
    model.fit(x, y)
    before = model.get_weights()
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        model.fit(x, y, epochs=100000)
    timer.join()
    after = model.get_weights()
    assert all(np.isfinite(w).all() for w in after.values())
    assert any((after[name] != before[name]).any() for name in before)
    assert model.fit(x, y).steps == 8


def test_other_threads_run_while_it_works(lenet, digits, quick):
    model = compiled(lenet, quick, batch_size=64)
    many = np.tile(digits[0], (60, 1, 1, 1))
    model.predict(digits[0])
    turns, done = [], threading.Event()

    def count():
        while not done.wait(0.001):
            turns.append(1)

    other = threading.Thread(target=count)
    other.start()
    before = len(turns)
    model.predict(many)
    counted = len(turns) - before
    done.set()
    other.join()
    assert counted >= 5


def test_a_second_fit_goes_on(lenet, digits, quick):
    """Momentum and weights stay: two fits of one epoch are one of two, but for the order of the samples."""
    x, y = digits
    once = compiled(lenet, quick, shuffle=False).fit(x, y, epochs=2, batch_size=16).history["loss"]
    model = compiled(lenet, quick, shuffle=False)
    twice = [model.fit(x, y, batch_size=16).history["loss"][0] for _ in range(2)]
    assert twice == once


def test_runs_as_the_program():
    run = subprocess.run([sys.executable, "-m", "tandem_onnx", "version"], capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout.startswith("tandem ")
    run = subprocess.run([sys.executable, "-m", "tandem_onnx", "train", "/nowhere.onnx", "--data", "random"], capture_output=True, text=True)
    assert run.returncode == 7 and "/nowhere.onnx" in run.stderr
