#!/usr/bin/env python3
"""Exports the networks of bench/models.py that models/ does not hold to ONNX files, for tandem and ONNX Runtime to train.

    build/venv-torch/bin/python bench/export_models.py build/bench-models [NAME ...]

Needs PyTorch with the onnx package. The batch is the symbolic dimension N; weights have PyTorch's names and first values.
"""
import pathlib
import sys
import warnings

import torch

from models import MODELS

OPSET = 17
NAMES = ("bert_mini", "vit_tiny", "gpt_mini", "lstm", "gru")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")  # of the exporter by TorchScript, which all peers' tools read
    for name in sys.argv[2:] or NAMES:
        torch.manual_seed(0)
        network = MODELS[name]
        axes = {"input": {0: "N"}, "logits": {0: "N"}}
        path = folder / f"{name}.onnx"
        model = network.make().eval()
        with torch.no_grad():
            for weight in model.parameters():  # the exporter makes one weight of two that are equal, as norms' first values are
                weight += 1e-4 * torch.randn_like(weight)
        torch.onnx.export(model, (network.inputs(2),), path, input_names=["input"], output_names=["logits"],
                          opset_version=OPSET, dynamo=False, dynamic_axes=axes)
        print(f"{name}: {path.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
