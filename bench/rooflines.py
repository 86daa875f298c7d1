#!/usr/bin/env python3
"""Plans of models for one H200 in bf16, by kernel: launches, FLOPs, bytes, the roofline bound and the plan's estimate.

    bench/rooflines.py build/release/tandem MODEL.onnx:BATCH[:CLASS_AXIS] ... > table.md

Needs no GPU and no package. Bytes are counted as kernels move them: what one reads twice counts twice. The bound of a kernel is the
larger of its FLOPs by the data sheet's peak and its bytes by the memory's rate; of a step it is the sum, as the kernels follow each
other. Launches cost nothing in it. All of it is on paper: no GPU reaches such a bound.
"""
import collections
import json
import pathlib
import subprocess
import sys

# NVIDIA's data sheet of the H200 (SXM), without sparsity.
BANDWIDTH, FLOAT32, BFLOAT16 = 4.8e12, 67e12, 989e12
SHOWN = 8  # kernels of a model, the rest in one row


def bound(step):
    products = step.get("kernel", "").startswith(("cudnn.attention", "cudnn.convolution", "cudnn.inner_product", "cublaslt", "native.attention"))
    return max(step.get("flops", 0) / (BFLOAT16 if products else FLOAT32), step.get("bytes", 0) / BANDWIDTH)


def rows_of(plan):
    rows = collections.defaultdict(lambda: [0, 0.0, 0.0, 0.0, 0.0])
    for step in plan["programs"][0]["steps"]:
        name = step.get("kernel", step["kind"])
        name = name.split(".eng")[0].removesuffix(".heuristic")
        for i, value in enumerate((1, step.get("flops", 0), step.get("bytes", 0), bound(step), step.get("seconds", 0))):
            rows[name][i] += value
    return rows


def line(name, row):
    count, flops, moved, least, estimate = row
    return f"| {name} | {count} | {flops / 1e12:.2f} | {moved / 1e9:.2f} | {least * 1e3:.2f} | {estimate * 1e3:.2f} |"


def total(rows):
    return [sum(column) for column in zip(*rows)] if rows else [0] * 5


for argument in sys.argv[2:]:
    file, batch, *axis = argument.split(":")
    words = [sys.argv[1], "plan", file, "--devices", "cuda:0", "--precision", "bf16", "--batch-size", batch, "--optimizer", "adamw", "--format", "json"] + [f"--class-axis={a}" for a in axis]
    plan = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    rows = sorted(rows_of(plan).items(), key=lambda item: -item[1][3])
    print(f"\n{pathlib.Path(file).stem}, batch {batch}\n\n| kernel | steps of the plan | TFLOP | GB moved | bound, ms | estimate, ms |\n|---|---|---|---|---|---|")
    for name, row in rows[:SHOWN]:
        print(line(f"`{name}`", row))
    print(line("others", total([row for _, row in rows[SHOWN:]])))
    print(line("**step**", total([row for _, row in rows])))
