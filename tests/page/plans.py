"""The plans whose pages and traces are opened in a browser, by name: the model, options, and what a page must have: (role, part of a name)."""
import os
import pathlib
import subprocess

import models

ROOT = pathlib.Path(__file__).resolve().parents[2]

PLANS = {
    "resnet50": ("models/resnet50.onnx", "--devices cpu:0-7 --batch-size 32",
                 [("button", "layer1"), ("image", "all_reduce"), ("image", "sliced by samples")]),
    "mesh": ("deep.onnx", "--devices cpu:0-7 --batch-size 16 --parallel data=2,tensor=2,pipeline=2 --micro-batches 4",
             [("image", "send"), ("combobox", "Device")]),
    "zero-bubble": ("deep.onnx", "--devices cpu:0-3 --batch-size 16 --parallel pipeline=4 --micro-batches 8 --schedule zb-h1",
                    [("term", "Bubble")]),
    "zero3": ("deep.onnx", "--devices cpu:0-3 --batch-size 16 --parallel data=4,zero=3 --optimizer adam",
              [("image", "all_gather")]),
    "inference": ("models/lenet.onnx", "--devices cpu:0 --inference --batch-size 8", [("image", "rows joined")]),
    "64 devices": ("48.onnx", "--devices cpu:0-63 --batch-size 128 --parallel data=8,pipeline=8 --micro-batches 8",
                   [("button", "layers")]),
    "hostile": ("hostile.onnx", "--devices cpu:0 --batch-size 4 --loss mse", []),
}


def make_models(folder):
    models.transformer(folder / "deep.onnx", 8)
    models.transformer(folder / "48.onnx", 48)
    models.hostile(folder / "hostile.onnx")


def make(folder, name, form, suffix):
    """The plan's file in a format of `tandem plan`. RuntimeError: the program's own words."""
    model, options, _ = PLANS[name]
    path = ROOT / model if model.startswith("models/") else folder / model
    file = folder / (name.replace(" ", "-") + suffix)
    line = [os.environ["TANDEM"], "plan", str(path), *options.split(), "--format", form, "--output", str(file)]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{name}: tandem plan ends with {done.returncode}: {done.stderr.strip()[-600:]}")
    return file
