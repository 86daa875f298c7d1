"""A packed model run for a million steps by libtandem_runtime: does the process grow, and how long does a step take?

  bench/runtime_endurance.py build/release [--model models/mlp.onnx] [--steps 1000000] [--batch 1] [--inference]

Prints the resident memory after each tenth. Exit code 1: it grew by more than 1 MiB after the first.
"""
import argparse
import pathlib
import sys
import tempfile
import time

from packed_runtime import Runtime, pack

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent


def resident():
    """KiB."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/mlp.onnx")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--inference", action="store_true", help="predict instead of training")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pack(a.build / "tandem", a.model, folder + "/packed", "--devices", "cpu:0", "--batch-size", str(a.batch), "--init", "he-normal",
             *(["--inference"] if a.inference else ["--lr", "1e-4"]))
        runtime = Runtime((a.build / "libtandem_runtime.so").resolve(), folder + "/packed")
        draw = numpy.random.default_rng(1)
        runtime.bind([draw.standard_normal(shape) if t == numpy.float32 else draw.integers(0, 2, shape) for _, shape, t in runtime.inputs])
        sizes = []
        for part in range(10):
            begin = time.process_time()
            for _ in range(a.steps // 10):
                runtime.step()
            spent = time.process_time() - begin
            sizes.append(resident())
            print(f"{(part + 1) * (a.steps // 10):>9} steps: {sizes[-1]} KiB resident, {1e6 * spent / (a.steps // 10):.1f} µs of processor time a step"
                  + ("" if a.inference else f", loss {runtime.loss.value:.4g}"), flush=True)
        runtime.close()
    sys.exit(sizes[-1] - sizes[0] > 1024)


main()
