"""Predictions of libtandem_runtime beside ONNX Runtime's on one thread, by turns in one process, in milliseconds of processor time.

  bench/runtime_predictions.py build/release MODEL.onnx... [--batch 1 32] [--rounds 9]

Weights are drawn by `tandem pack --init he-normal`; ONNX Runtime runs the same model with them, as `tandem unpack` writes it. Outputs of
both must agree. Prints a table of medians; the ratio is the median of the rounds' ratios.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from packed_runtime import Runtime, pack  # first: it takes one core

import numpy
import onnxruntime

SECONDS = 0.2  # of processor time, of each measurement at least


def milliseconds(call):
    """Of processor time, of one call."""
    count, spent = 1, 0
    while True:
        begin = time.process_time()
        for _ in range(count):
            call()
        spent = time.process_time() - begin
        if spent >= SECONDS:
            return 1e3 * spent / count
        count = max(2 * count, int(1.2 * count * SECONDS / max(spent, 1e-6)))


def measure(build, model, batch, rounds, folder):
    packed, whole = folder / "packed", folder / "whole.onnx"
    pack(build / "tandem", model, packed, "--inference", "--devices", "cpu:0", "--batch-size", str(batch), "--autotune", "--init", "he-normal")
    subprocess.run([str(build / "tandem"), "unpack", str(packed), "--output", str(whole), "--quiet"], check=True)
    runtime = Runtime(build / "libtandem_runtime.so", packed)
    draw = numpy.random.default_rng(1)
    feeds = [draw.standard_normal(shape).astype(t) for _, shape, t in runtime.inputs]
    results = runtime.bind(feeds)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(whole), options, providers=["CPUExecutionProvider"])
    named = dict(zip((name for name, _, _ in runtime.inputs), feeds))
    runtime.step()
    for got, wanted in zip(results, session.run([name for name, _, _ in runtime.outputs], named)):
        error = numpy.abs(got - wanted).max() / max(1e-30, numpy.abs(wanted).max())
        if not error < 1e-3:
            sys.exit(f"{model}: outputs differ by {error} of the largest")
    calls = [runtime.step, lambda: session.run(None, named)]
    times = [[milliseconds(call) for call in calls] for _ in range(rounds)]
    runtime.close()
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--rounds", type=int, default=9)
    a = parser.parse_args()
    print(f"ONNX Runtime {onnxruntime.__version__}, {a.rounds} rounds\n")
    print("| model | batch | tandem, ms | ONNX Runtime, ms | speed ratio | smallest and largest |")
    print("|---|---|---|---|---|---|")
    for model in a.models:
        for batch in a.batch:
            with tempfile.TemporaryDirectory() as folder:
                times = measure(a.build.resolve(), model, batch, a.rounds, pathlib.Path(folder))
            own, peer = (statistics.median(t[i] for t in times) for i in range(2))
            ratios = sorted(t[1] / t[0] for t in times)
            print(f"| {model.stem} | {batch} | {own:.3f} | {peer:.3f} | {statistics.median(ratios):.2f} | {ratios[0]:.2f}, {ratios[-1]:.2f} |",
                  flush=True)


main()
