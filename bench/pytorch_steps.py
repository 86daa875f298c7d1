#!/usr/bin/env python3
"""Times training steps of one network in PyTorch and prints one JSON line.

    python3 bench/pytorch_steps.py --model resnet50 --batch 8 --threads 2 --mode compile --memory channels_last
    python3 bench/pytorch_steps.py --model resnet50 --batch 256 --device cuda --precision bf16 --mode graphs --memory channels_last

A step is forward, softmax cross-entropy, backward and SGD with momentum on one fixed batch of noise, as in
bench/tandem_steps.cpp; the networks are in bench/models.py. Times are of whole steps, after a warm-up. On a GPU the batch
stays there and steps follow each other without a wait; bf16 is autocast with float32 weights, fp32 has TF32 switched
off. Modes: eager; compile (torch.compile); graphs (torch.compile with CUDA graphs).
"""
import argparse
import contextlib
import json
import resource
import statistics
import time

import torch
from torch.nn import functional

from models import MODELS


def peak_rss():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def times_on_cpu(step, count):
    milliseconds = []
    for _ in range(count):
        begin = time.perf_counter()
        step()
        milliseconds.append(1e3 * (time.perf_counter() - begin))
    return milliseconds


def times_on_gpu(step, count):
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in zip(marks, marks[1:])]


COMPILED = {"eager": lambda m: m, "compile": lambda m: torch.compile(m), "graphs": lambda m: torch.compile(m, mode="reduce-overhead")}
MEMORY = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def main():
    base_rss = peak_rss()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=0, help="of the CPU (default PyTorch's own)")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    parser.add_argument("--mode", choices=COMPILED, default="eager")
    parser.add_argument("--memory", choices=MEMORY, default="contiguous")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()

    gpu = arguments.device == "cuda"
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = arguments.precision == "tf32"
    network = MODELS[arguments.model]
    memory = MEMORY[arguments.memory]
    model = network.make().to(arguments.device).to(memory_format=memory).train()
    x = network.inputs(arguments.batch).to(arguments.device)
    if x.dim() == 4:
        x = x.contiguous(memory_format=memory)
    labels = network.labels(arguments.batch).to(arguments.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, **({"fused": True} if gpu else {}))
    forward = COMPILED[arguments.mode](model)
    precision = torch.autocast(arguments.device, torch.bfloat16) if arguments.precision == "bf16" else contextlib.nullcontext()
    losses = []

    def step():
        optimizer.zero_grad(set_to_none=True)
        with precision:
            loss = functional.cross_entropy(forward(x).flatten(0, -2), labels.flatten())
        loss.backward()
        optimizer.step()
        losses[:] = [loss.detach()]

    for _ in range(arguments.warmup):
        step()
    milliseconds = (times_on_gpu if gpu else times_on_cpu)(step, arguments.steps)
    median = statistics.median(milliseconds)
    print(json.dumps({
        "program": f"pytorch {torch.__version__} {arguments.mode} {arguments.memory}", "model": arguments.model,
        "batch": arguments.batch, "precision": arguments.precision, "threads": torch.get_num_threads(), "steps": arguments.steps,
        "median_ms": median, "min_ms": min(milliseconds), "samples_per_second": 1e3 * arguments.batch / median, "loss": losses[0].item(),
        "base_rss_bytes": base_rss, "peak_rss_bytes": peak_rss(), "device_bytes": torch.cuda.max_memory_allocated() if gpu else 0,
    }))


if __name__ == "__main__":
    main()
