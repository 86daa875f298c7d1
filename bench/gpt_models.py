#!/usr/bin/env python3
"""Decoders of Megatron-LM's table of scaling, for plans alone: weights are holes of a sparse file, which takes no room on a disk.

    build/venv/bin/python bench/gpt_models.py build/bench-models [NAME ...]

Layers, widths and heads are those of the paper (arXiv 1909.08053, table 1): 1,024 tokens, vocabulary 51,200. The inputs are token ids [N, 1024],
the outputs scores [N, 1024, 51200]. Needs the onnx package.
"""
import argparse
import math
import pathlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

TOKENS, WORDS = 1024, 51200
MODELS = {"gpt_1b2": (40, 1536, 16), "gpt_2b5": (54, 1920, 20), "gpt_4b2": (64, 2304, 24), "gpt_8b3": (72, 3072, 32)}  # layers, width, heads


class Builder:
    def __init__(self, weights):
        self.nodes, self.initializers, self.weights, self.bytes = [], [], weights, 0

    def weight(self, name, *shape):
        tensor = onnx.TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
        length = 4 * math.prod(shape)
        for key, value in (("location", self.weights), ("offset", self.bytes), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        self.bytes += length
        self.initializers.append(tensor)
        return name

    def constant(self, name, values):
        self.initializers.append(numpy_helper.from_array(values, name))
        return name

    def node(self, op, inputs, name, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [name + "_out"], name=name, **attributes))
        return name + "_out"


def make(folder, name):
    layers, width, heads = MODELS[name]
    path = folder / f"{name}.onnx"
    b = Builder(f"{name}.weights")
    shape = b.constant("heads", numpy.array([0, 0, heads, width // heads], numpy.int64))
    whole = b.constant("whole", numpy.array([0, 0, width], numpy.int64))
    scale = b.constant("scale", numpy.array((width // heads) ** -0.5, numpy.float32))
    mask = b.constant("mask", numpy.triu(numpy.full((1, 1, TOKENS, TOKENS), -1e4, numpy.float32), 1))

    def norm(value, at, of):
        return b.node("LayerNormalization", [value, b.weight(of + ".weight", width), b.weight(of + ".bias", width)], at + "/LayerNormalization")

    def linear(value, at, of, inner, outer):
        product = b.node("MatMul", [value, b.weight(of + ".weight", inner, outer)], at + "/MatMul")
        return b.node("Add", [product, b.weight(of + ".bias", outer)], at + "/Add")

    x = b.node("Add", [b.node("Gather", [b.weight("embed.weight", WORDS, width), "tokens"], "/embed/Gather"),
                       b.weight("positions.weight", 1, TOKENS, width)], "/positions/Add")
    for layer in range(layers):
        at, of = f"/layers.{layer}", f"layers.{layer}"
        h = norm(x, at + "/norm1", of + ".norm1")
        q, k, v = (b.node("Transpose", [b.node("Reshape", [linear(h, f"{at}/attn/{n}", f"{of}.attn.{n}", width, width), shape],
                                               f"{at}/attn/{n}/Reshape")], f"{at}/attn/{n}/Transpose", perm=[0, 2, 3, 1] if n == "k" else [0, 2, 1, 3])
                   for n in "qkv")
        scores = b.node("Mul", [b.node("MatMul", [q, k], at + "/attn/MatMul"), scale], at + "/attn/Mul")
        shares = b.node("Softmax", [b.node("Add", [scores, mask], at + "/attn/Add")], at + "/attn/Softmax", axis=-1)
        mixed = b.node("Transpose", [b.node("MatMul", [shares, v], at + "/attn/MatMul_1")], at + "/attn/Transpose", perm=[0, 2, 1, 3])
        rows = b.node("Reshape", [mixed, whole], at + "/attn/Reshape")
        x = b.node("Add", [x, linear(rows, at + "/attn/out", of + ".attn.out", width, width)], at + "/Add")
        h = linear(norm(x, at + "/norm2", of + ".norm2"), at + "/mlp/up", of + ".mlp.up", width, 4 * width)
        h = linear(b.node("Gelu", [h], at + "/mlp/Gelu"), at + "/mlp/down", of + ".mlp.down", 4 * width, width)
        x = b.node("Add", [x, h], at + "/Add_1")
    x = norm(x, "/norm", "norm")
    b.nodes.append(helper.make_node("MatMul", [x, b.weight("head.weight", width, WORDS)], ["logits"], name="/head/MatMul"))
    graph = helper.make_graph(b.nodes, name, [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["N", TOKENS])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", TOKENS, WORDS])], b.initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    with open(folder / b.weights, "wb") as file:
        file.truncate(b.bytes)
    print(f"{name}: {b.bytes / 4e9:.1f} billion weights")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", default=MODELS)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or MODELS:
        make(arguments.folder, name)


if __name__ == "__main__":
    main()
