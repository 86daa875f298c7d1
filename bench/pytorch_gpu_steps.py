#!/usr/bin/env python3
"""Times training steps of one network in PyTorch on a GPU and prints one JSON line.

    python3 bench/pytorch_gpu_steps.py --model resnet50 --batch 256 --precision bf16 --mode compile

A step is that of bench/pytorch_steps.py, channels last; bf16 is autocast with float32 weights, fp32 has TF32 switched
off. Modes: eager; compile (torch.compile); graphs (torch.compile with CUDA graphs). The batch stays on the GPU.
"""
import argparse
import contextlib
import json
import statistics

import torch
from torch.nn import functional

from pytorch_steps import MODELS


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    parser.add_argument("--mode", choices=("eager", "compile", "graphs"), default="eager")
    parser.add_argument("--warmup", type=int, default=15)
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = arguments.precision == "tf32"
    make, image, classes = MODELS[arguments.model]
    model = make().cuda().to(memory_format=torch.channels_last).train()
    x = torch.randn(arguments.batch, *image, device="cuda").contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (arguments.batch,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    compiled = {"eager": lambda m: m, "compile": torch.compile, "graphs": lambda m: torch.compile(m, mode="reduce-overhead")}
    forward = compiled[arguments.mode](model)
    precision = torch.autocast("cuda", torch.bfloat16) if arguments.precision == "bf16" else contextlib.nullcontext()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with precision:
            loss = functional.cross_entropy(forward(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(arguments.warmup):
        step()
    torch.cuda.synchronize()
    milliseconds = []
    for _ in range(arguments.steps):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        loss = step()
        end.record()
        end.synchronize()
        milliseconds.append(begin.elapsed_time(end))
    median = statistics.median(milliseconds)
    print(json.dumps({
        "program": f"pytorch {torch.__version__} {arguments.mode}", "model": arguments.model, "batch": arguments.batch,
        "precision": arguments.precision, "steps": arguments.steps, "median_ms": median, "min_ms": min(milliseconds),
        "samples_per_second": 1e3 * arguments.batch / median, "loss": loss.item(),
        "peak_bytes": torch.cuda.max_memory_allocated(),
    }))


if __name__ == "__main__":
    main()
