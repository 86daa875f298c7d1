#!/usr/bin/env python3
"""Instructions and bytes of our own CUDA kernels' inner loops, from the compiled code, and what of an H200's memory rate the
issue of these instructions allows.

    bench/kernel_instructions.py build/release/kernels/cuda/CMakeFiles/tandem_cuda_objects.dir/launch > table.md

Needs cuobjdump (of the CUDA toolkit) in PATH, and no GPU. A kernel's inner loop is the one that moves the most bytes of global memory
in a trip; instructions and bytes are those between its first and its last instruction, paths that a launch leaves out included. Of a
kernel without such a loop all of it is counted.
"""
import pathlib
import re
import subprocess
import sys

# NVIDIA's data sheet of the H200 (SXM): multiprocessors, their schedulers, boost clock, threads of a warp; bytes per second.
INSTRUCTIONS, BANDWIDTH = 132 * 4 * 1.98e9 * 32, 4.8e12

# What, object, body.
ROWS = [
    ("every optimizer, float32, gradient and copy in 16 bits", "update", "UpdateBody<float>"),
    ("norm of gradients", "update", "SquaresBody"),
    ("running statistics", "batch_normalization", "RunningBody<float>"),
    ("BatchNormalization's moments", "batch_normalization", "MomentsBody<BFloat16, 8>"),
    ("BatchNormalization, with an addend", "batch_normalization", "NormalizeBody<BFloat16, float, 8>"),
    ("its gradient's sums, at a fork", "batch_normalization", "NormSumsBody<BFloat16, 8>"),
    ("its gradient", "batch_normalization", "NormGradientBody<BFloat16, 8>"),
    ("LayerNormalization, rows of 768 in float32", "row_normalization", "RowNormalizationBody<float, 4, 32, 6, BFloat16, BFloat16>"),
    ("its gradient, of two", "row_normalization", "RowGradientBody<float, 4, 32, 6, float, BFloat16>"),
    ("LayerNormalization, rows of 4096", "row_normalization", "RowNormalizationBody<BFloat16, 8, 256, 2, BFloat16, BFloat16>"),
    ("its gradient", "row_normalization", "RowGradientBody<BFloat16, 8, 256, 2, BFloat16"),
    ("max pooling", "pooling", "MaxPoolBody<BFloat16, 8>"),
    ("its gradient", "pooling", "MaxPoolBackwardBody<BFloat16, 8>"),
    ("average pooling", "pooling", "AveragePoolBody<BFloat16, 8>"),
    ("its gradient", "pooling", "AveragePoolBackwardBody<BFloat16, 8>"),
    ("dropout", "dropout", "DropoutPacksBody<BFloat16, 8, false>"),
    ("dropout in channels-last order", "dropout", "DropoutChannelsBody<BFloat16>"),
    ("Gather, 16 bits", "gather", "GatherBody<unsigned short, 8>"),
    ("Gather's gradient", "gather", "GatherPiecesBody<BFloat16, 8>"),
    ("LookUp, in the bytes' order", "look_up", "LookUpBody<unsigned short, true, true>"),
    ("LookUp, in another order", "look_up", "LookUpBody<unsigned short, false, true>"),
    ("softmax, a block a line", "softmax", "SoftmaxBody<BFloat16, BFloat16>"),
    ("cross-entropy", "loss", "CrossEntropyBody<BFloat16>"),
    ("sum or mean", "reduce", "ReductionBody<BFloat16, BFloat16>"),
    ("ArgMax, a block a line", "arg_max", "ArgLineBody<BFloat16, 256, 8>"),
    ("ArgMax, a thread a line", "arg_max", "ArgBody<BFloat16>"),
    ("Cast from float32", "cast", "FloatCastBody<float, BFloat16>"),
    ("Cast between other types", "cast", "CastBody"),
    ("copy of runs of 16 bytes", "copy", "CopyBody<Bytes16>"),
    ("copy of single elements into a run", "copy", "RunCopyBody<unsigned short, true>"),
    ("of a run into single elements", "copy", "RunCopyBody<unsigned short, false>"),
    ("of single elements to single elements", "copy", "CopyBody<unsigned short>"),
    ("transpose", "copy", "TransposeBody<unsigned short, 2, 64>"),
    ("transpose of odd lines", "copy", "TransposeBody<unsigned short, 1, 64>"),
    ("Fold of ranks on one device, float32", "fold", "FoldBody<float>"),
]
WIDTHS = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}


def functions(listing):
    """Of each function its name and its instructions: address, text."""
    for part in re.split(r"\n\s*Function : ", listing)[1:]:
        yield part.split("\n", 1)[0].strip(), [(int(a, 16), text) for a, text in re.findall(r"/\*([0-9a-f]{4,})\*/\s+([^;]+?)\s*;", part)]


def moved(text):
    found = re.search(r"\b(?:LDG|STG)\.([\w.]+)", text)
    return next((WIDTHS[w] for w in found[1].split(".") if w in WIDTHS), 4) if found else 0


def inner_loop(code):
    """Instructions and bytes of the loop that moves the most bytes in a trip and has no other such loop inside; without one, of all."""
    loops = []
    for address, text in code:
        target = re.search(r"\bBRA(?:\.\w+)* .*?(0x[0-9a-f]+)", text)
        if target and int(target[1], 16) < address:
            body = [t for a, t in code if int(target[1], 16) <= a <= address and not t.startswith("NOP")]
            loops.append((int(target[1], 16), address, len(body), sum(map(moved, body))))
    loops = [l for l in loops if l[3]]
    innermost = [l for l in loops if not any(o is not l and o[0] >= l[0] and o[1] <= l[1] for o in loops)]
    code = [text for _, text in code if not text.startswith("NOP")]
    return max(innermost, key=lambda l: l[3], default=(0, 0, len(code), sum(map(moved, code))))


def plain(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return [re.sub(r"^.*run_body<(.*?) ?>\(.*$", r"\1", re.sub(r"tandem::cuda::", "", line)) for line in text.splitlines()]


def main():
    folder, listings = pathlib.Path(sys.argv[1]), {}
    print("| kernel | body | instructions a trip | bytes a trip | instructions a byte | memory's rate |\n|---|---|---|---|---|---|")
    for what, name, body in ROWS:
        if name not in listings:
            text = subprocess.run(["cuobjdump", "-sass", str(folder / f"{name}.cu.o")], capture_output=True, text=True, check=True).stdout
            found = list(functions(text))
            listings[name] = dict(zip(plain([f for f, _ in found]), [code for _, code in found]))
        for full, code in listings[name].items():
            if not full.startswith(body):
                continue
            _, _, instructions, volume = inner_loop(code)
            if not volume:
                continue
            share = min(1.0, INSTRUCTIONS / BANDWIDTH * volume / instructions)
            print(f"| {what} | `{full}` | {instructions} | {volume} | {instructions / volume:.1f} | {share:.0%} |")


main()
