#!/usr/bin/env python3
"""Times the Python package beside the program and the C API, by turns.

    PYTHONPATH=build/release/python python3 bench/python_steps.py build/release/tandem --threads 1

First a fit from NumPy arrays beside `tandem train` on the same samples, by the samples a second that both report, without planning.
Then train_on_batch beside tandem_model_train_on_batch of the same library in the same process, whose tensors view the same arrays. Both
sides take turns, so that whatever else the machine does meets both. The medians of the ratio and of the difference are what to go by.
Two models of the same file differ by more than Python costs: where their memory lies decides. So the third model, `pooled`, takes
LeNet's arrays and computes next to nothing.
"""
import argparse
import ctypes
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnx

import tandem_onnx as tandem

MODELS = pathlib.Path(__file__).parent.parent / "models"
TRAINING = {"batch_size": 128, "lr": 0.01, "init": "he-normal", "devices": "cpu", "autotune": False}


def samples(count):
    random = np.random.default_rng(1)
    return random.random((count, 1, 28, 28), dtype=np.float32), random.integers(0, 10, count)


def fit(model, x, y, epochs):
    """Samples a second."""
    m = tandem.Model(MODELS / f"{model}.onnx")
    m.compile(loss="cross_entropy", **TRAINING)
    return m.fit(x, y, epochs=epochs, verbose=0).samples_per_second


def train(program, model, folder, epochs):
    """The same of `tandem train`, which says it at its end."""
    command = [program, "train", MODELS / f"{model}.onnx", "--data", f"npz:{folder}/data.npz", "--loss", "cross_entropy", "--batch-size",
               "128", "--lr", "0.01", "--init", "he-normal", "--devices", "cpu", "--no-autotune", "--epochs", str(epochs), "--output",
               f"{folder}/trained.onnx", "--overwrite"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return float(re.findall(r"(\d+) samples/s \(", done.stdout)[-1])


class InC:
    """A model of the C API whose step reads the arrays where they lie."""

    def __init__(self, path, arrays):
        library = next(line.split()[-1] for line in open("/proc/self/maps") if "libtandem.so" in line)
        self.c = ctypes.CDLL(library)
        self.c.tandem_last_error.restype = ctypes.c_char_p
        self.model = ctypes.c_void_p()
        options = json.dumps({**TRAINING, "loss": "cross_entropy", "batch_size": len(arrays[0])})
        self.call("tandem_model_load", os.fsencode(path), options.encode(), ctypes.byref(self.model))
        self.arrays, self.tensors = arrays, (ctypes.c_void_p * len(arrays))()
        for place, array in enumerate(arrays):
            tensor, dims = ctypes.c_void_p(), (ctypes.c_int64 * array.ndim)(*array.shape)
            self.call("tandem_tensor_view", {"float32": 1, "int64": 7}[array.dtype.name], array.ndim, dims,
                      ctypes.c_void_p(array.ctypes.data), None, None, ctypes.byref(tensor))
            self.tensors[place] = tensor

    def call(self, name, *arguments):
        if getattr(self.c, name)(*arguments):
            raise RuntimeError(self.c.tandem_last_error().decode())

    def step(self):
        self.call("tandem_model_train_on_batch", self.model, self.tensors, ctypes.c_size_t(len(self.arrays)), ctypes.c_double(0.01), None)


def seconds(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def pooled(path):
    """A model of LeNet's input and labels that computes next to nothing: averages of 16 tiles by a matrix [16, 10]."""
    make, f32 = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    nodes = [onnx.helper.make_node("AveragePool", ["x"], ["mean"], kernel_shape=[7, 7], strides=[7, 7]), onnx.helper.make_node("Flatten", ["mean"], ["flat"]),
             onnx.helper.make_node("MatMul", ["flat", "w"], ["scores"])]
    weights = [onnx.helper.make_tensor("w", f32, [16, 10], np.random.default_rng(2).standard_normal(160) / 4)]
    graph = onnx.helper.make_graph(nodes, "pooled", [make("x", f32, ["N", 1, 28, 28])], [make("scores", f32, ["N", 10])], weights)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


def step_times(path, x, y, rounds, pairs):
    """Medians of a step in C, of train_on_batch, and of the difference between neighbours, in seconds.

    Where a model's memory lies makes a step some percent faster or slower: several pairs of models are made, each side first by turns.
    """
    def in_python():
        m = tandem.Model(path)
        m.compile(loss="cross_entropy", **TRAINING)
        return lambda: m.train_on_batch(x, y)

    makers, times = [lambda: InC(path, [x, y]).step, in_python], ([], [])
    for pair in range(pairs):
        steps = [None, None]
        for side in ((0, 1), (1, 0))[pair % 2]:
            steps[side] = makers[side]()
            for _ in range(3):  # plans are made, caches are warm
                steps[side]()
        for _ in range(rounds // pairs):
            for side in (0, 1):
                times[side].append(seconds(steps[side]))
    return [statistics.median(t) for t in (*times, [p - c for c, p in zip(*times)])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="tandem")
    parser.add_argument("--threads", type=int, default=0, help="of the CPU (default: all cores)")
    parser.add_argument("--fits", type=int, default=7, help="rounds of fits")
    parser.add_argument("--steps", type=int, default=600, help="rounds of steps")
    parser.add_argument("--pairs", type=int, default=6, help="of models whose steps are timed")
    parser.add_argument("--samples", type=int, default=12800)
    arguments = parser.parse_args()
    if arguments.threads:
        os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    x, y = samples(arguments.samples)
    print("samples a second      tandem train   fit from NumPy   ratio")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        np.savez(folder / "data.npz", x=x, y=y)
        for model, epochs in (("lenet", 1), ("mlp", 3)):
            rates = [(train(arguments.program, model, folder, epochs), fit(model, x, y, epochs)) for _ in range(arguments.fits)]
            program, python = (statistics.median(r) for r in zip(*rates))
            print(f"{model:20} {program:13.0f} {python:16.0f} {statistics.median(p / c for c, p in rates):7.3f}")
    print("a step of 128            C API   train_on_batch   difference")
    with tempfile.TemporaryDirectory() as name:
        pooled(pathlib.Path(name) / "pooled.onnx")
        for path in (MODELS / "lenet.onnx", MODELS / "mlp.onnx", pathlib.Path(name) / "pooled.onnx"):
            c, python, difference = step_times(path, x[:128], y[:128], arguments.steps, arguments.pairs)
            print(f"{path.stem:20} {1e6 * c:6.0f} us {1e6 * python:13.0f} us {1e6 * difference:9.0f} us")


if __name__ == "__main__":
    main()
