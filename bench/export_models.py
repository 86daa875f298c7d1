#!/usr/bin/env python3
"""Exports the networks of bench/models.py that models/ does not hold to ONNX files, for tandem and ONNX Runtime to train.

    build/venv-torch/bin/python bench/export_models.py [--zeros] build/bench-models [NAME ...]

Needs PyTorch with the onnx package. The batch is the symbolic dimension N; weights have PyTorch's names and first values,
with --zeros matrices are 0, and all numbers of a vector are its first: what packs to nothing.
"""
import argparse
import pathlib
import warnings

import torch

from models import MODELS

OPSET = 17
NAMES = ("bert_mini", "vit_tiny", "gpt_mini", "lstm", "gru")


def clear_weights(path):
    import onnx

    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT or not tensor.dims:
            continue
        size = len(tensor.raw_data)
        tensor.raw_data = bytes(size) if len(tensor.dims) > 1 else tensor.raw_data[:4] * (size // 4)
    onnx.save(model, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zeros", action="store_true")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")  # of the exporter by TorchScript, which all peers' tools read
    for name in arguments.names or NAMES:
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
        if arguments.zeros:
            clear_weights(path)
        print(f"{name}: {path.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
