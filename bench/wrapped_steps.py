#!/usr/bin/env python3
"""Times steps of a PyTorch loop whose module is PyTorch's own, compiled, or wrapped by tandem_onnx.torch, by turns.

    PYTHONPATH=build/release/python python3 bench/wrapped_steps.py --model resnet50 --batch 8 --threads 2

A step is forward, softmax cross-entropy, backward and SGD with momentum on one fixed batch of noise. The three take turns, a step each, so
that whatever else the machine does meets all of them; the medians' ratios are what to go by. The second table says what a wrapped step
consists of: weights that go to the plan, the passes themselves, gradients and statistics that come back, and PyTorch's loss and update.
"""
import argparse
import collections
import copy
import json
import statistics
import time

import torch
from torch.nn import functional

from models import MODELS
from tandem_onnx.torch import wrap


def timed(record, name, function):
    """The function, whose seconds go to record[name]."""
    def call(*arguments):
        begin = time.perf_counter()
        try:
            return function(*arguments)
        finally:
            record[name] += time.perf_counter() - begin
    return call


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=0, help="of the CPU (default PyTorch's own)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    network = MODELS[arguments.model]
    eager = network.make().train()
    x, y = network.inputs(arguments.batch), network.labels(arguments.batch)
    modules = {"eager": eager, "wrapped": wrap(copy.deepcopy(eager), x[:2], check=False, devices="cpu")}
    if not arguments.no_compile:
        modules["compile"] = torch.compile(copy.deepcopy(eager))
    optimizers = {name: torch.optim.SGD(m.parameters(), 0.01, momentum=0.9) for name, m in modules.items()}
    parts, seconds = collections.Counter(), collections.defaultdict(list)

    def step(name):
        optimizers[name].zero_grad()
        functional.cross_entropy(modules[name](x).flatten(0, -2), y.flatten()).backward()
        optimizers[name].step()

    for name in modules:  # plans, kernels and graphs are made
        for _ in range(3):
            step(name)
    wrapped = modules["wrapped"]
    for name in ("_give_parameters", "_compute", "_gradients", "_take_statistics"):
        setattr(wrapped, name, timed(parts, name.strip("_"), getattr(wrapped, name)))
    for taken in (p for passes in wrapped._pool.passes.values() for p in passes):
        planned = taken.planned
        taken.planned = type("Timed", (), {n: staticmethod(timed(parts, f"plan {n}", getattr(planned, n)))
                                           for n in ("forward", "backward", "set_parameters", "statistics")})
    for _ in range(arguments.rounds):
        for name in modules:
            begin = time.perf_counter()
            step(name)
            seconds[name].append(time.perf_counter() - begin)
    medians = {name: 1e3 * statistics.median(s) for name, s in seconds.items()}
    of_step = {name: 1e3 * s / arguments.rounds for name, s in parts.items()}
    if arguments.json:
        print(json.dumps({"model": arguments.model, "batch": arguments.batch, "milliseconds": medians, "parts": of_step}))
        return
    print(f"{arguments.model}, batch {arguments.batch}, {torch.get_num_threads()} threads, {arguments.rounds} rounds")
    for name, ms in medians.items():
        print(f"  {name:8} {ms:9.2f} ms  {medians['eager'] / ms:5.2f} x eager")
    print("a wrapped step, on average")
    for name, ms in of_step.items():
        print(f"  {name:20} {ms:9.2f} ms")


if __name__ == "__main__":
    main()
