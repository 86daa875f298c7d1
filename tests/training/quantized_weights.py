"""Weights that a file holds in 8 and 4 bits, shared by devices as float weights are: each device has its part of them.

Twenty steps in each way are those of one device, and so is an evaluation. A plan tells that constants lie in halves. So it is for scales
and zero points of a tensor, of an axis and of blocks, whichever axis is split; for odd sizes; for what stands between a weight and its
product; for weights that two nodes read; and with adapters. What cannot be split is whole, and computes the same.

TANDEM names the program. Exit code 3: a package is missing, 1: something differs. Arguments: models, all without.
"""
import json

from program import needed
from split_weights import MERGED, TENSOR, WAYS, WIDTH, check, run, tandem

with needed():
    import numpy
    from onnx import TensorProto, helper

INT8, INT4 = (numpy.int8, 127), (TensorProto.INT4, 7)


def quantized(m, name, shape, kind=INT8, axis=None, block=0, zeros=False):
    """A weight of that shape: one scale, one for each index of an axis, or one for each block along it. Returns what it is read as."""
    w, (dtype, most) = m.drawn(*shape), kind

    def spread(values):
        if block:
            return numpy.repeat(values, block, axis).take(range(shape[axis]), axis)
        return values if axis is None else values.reshape([-1 if i == axis else 1 for i in range(len(shape))])

    if block:
        scale = numpy.stack([abs(part).max(axis) for part in numpy.array_split(w, range(block, shape[axis], block), axis)], axis)
    else:
        scale = abs(w).max(tuple(i for i in range(len(shape)) if i != axis))
    scale = scale / most
    zero = m.random.integers(-2, 3, scale.shape) if zeros else numpy.zeros(scale.shape, int)
    numbers = numpy.clip(numpy.round(w / spread(scale)) + spread(zero), -most - 1, most).astype(numpy.int8)
    typed = lambda key, values: values if dtype is numpy.int8 else helper.make_tensor(key, dtype, values.shape, values.ravel().tolist())
    inputs = [m.tensor(name, typed(name, numbers)), m.tensor(name + ".scale", scale.astype(numpy.float32))]
    if zeros:
        inputs.append(m.tensor(name + ".zero", typed(name + ".zero", zero.astype(numpy.int8))))
    chosen = {"axis": axis} if axis is not None else {}
    return m.add("DequantizeLinear", inputs, name + ".read", **chosen, **({"block_size": block} if block else {}))


def turned(m, read, name="turned"):
    return m.add("Transpose", [read], name, perm=[1, 0])


def layers(m, up, down, x="x"):
    return m.add("Add", [x, m.add("MatMul", [m.add("Tanh", [m.add("MatMul", [x, up])]), down])])


def both(width=16, **how):
    """Both weights of a block in the same form: the first is split by its columns, the second by its rows."""
    return lambda m: layers(m, quantized(m, "up", (WIDTH, width), **how), quantized(m, "down", (width, WIDTH), **how))


def turned_blocks(m, kind=INT4, width=12):
    """As exporters write weights of 4 bits: blocks along what is summed over. Halves of six cut the second weight's blocks of four."""
    up, down = quantized(m, "up", (width, WIDTH), kind, 1, 4), quantized(m, "down", (WIDTH, width), kind, 1, 4, True)
    return layers(m, turned(m, up, "up.turned"), turned(m, down, "down.turned"))


def odd(m):
    """Halves of 35 elements of 4 bits: the second begins in the middle of a byte."""
    up = quantized(m, "up", (10, WIDTH), INT4, 0)
    narrow = m.add("MatMul", ["x", m.weight("narrow", WIDTH, 7)])
    read = quantized(m, "odd", (10, 7), INT4, 0, 0, True)
    h = m.add("Mul", [m.add("MatMul", ["x", turned(m, up)]), m.add("MatMul", [narrow, turned(m, read, "odd.turned")])])
    return m.add("Add", ["x", m.add("MatMul", [h, m.weight("down", 10, WIDTH)])])


def moved(m):
    """Cast, Reshape and Transpose between what is read and the product."""
    up = m.add("Cast", [m.add("Cast", [quantized(m, "up", (4, 4, WIDTH), axis=0)], to=TensorProto.FLOAT16)], to=TensorProto.FLOAT)
    up = turned(m, m.add("Reshape", [up, m.constant([16, WIDTH])]), "up.moved")
    down = m.add("Reshape", [quantized(m, "down", (16 * WIDTH,), axis=0), m.constant([16, WIDTH])], "down.moved")
    return layers(m, up, down)


def attention(kind, **how):
    return lambda m: m.attention("x", quantized(m, "qkv", (WIDTH, 16), kind, **how), 4, 2)


def shared(m):
    """One tensor read twice, with scales of its own each time; and what is read of it by two products."""
    first = quantized(m, "up", (WIDTH, 16), axis=1)
    again = m.add("DequantizeLinear", ["up", m.tensor("other.scale", numpy.full(16, 0.01, numpy.float32))], "up.again", axis=1)
    y = layers(m, first, m.weight("down1", 16, WIDTH))
    y = layers(m, again, m.weight("down2", 16, WIDTH), y)
    return layers(m, first, m.weight("down3", 16, WIDTH), y)


def one_cannot(m):
    """Columns of the second product are added up, which has no parts, and seven rows have no halves."""
    up, narrow = quantized(m, "up", (7, 16), axis=1), m.weight("narrow", WIDTH, 7)
    y = m.add("Add", ["x", m.add("MatMul", [m.add("Tanh", [m.add("MatMul", [m.add("MatMul", ["x", narrow]), up])]), m.weight("down1", 16, WIDTH)])])
    sums = m.add("CumSum", [m.add("MatMul", [m.add("MatMul", [y, narrow]), up]), m.constant(2)])
    y = m.add("Add", [y, m.add("MatMul", [sums, m.weight("down2", 16, WIDTH)])])
    return m.attention(y, m.weight("qkv", WIDTH, 16), 4, 2)


def table(m):
    """A table of words that the samples pick from."""
    words = m.add("Cast", [m.add("Abs", [m.add("Mul", ["x", m.tensor("three", numpy.float32(3))])])], to=TensorProto.INT64)
    words = m.add("Mod", [m.add("ReduceSum", [words, m.constant([2])], keepdims=0), m.constant(64)])
    return m.add("Gather", [quantized(m, "words", (64, WIDTH), axis=0), words])


def filters(m):
    x = m.add("Transpose", ["x"], perm=[0, 2, 1])
    h = m.add("Tanh", [m.add("Conv", [x, quantized(m, "first", (12, WIDTH, 3), axis=0)], pads=[1, 1])])
    y = m.add("Conv", [h, quantized(m, "second", (WIDTH, 12, 3), axis=1)], pads=[1, 1])
    return m.add("Transpose", [y], perm=[0, 2, 1])


def blocked_products(m):
    """com.microsoft's: columns in blocks of 16, two numbers a byte."""
    def product(x, name, k, n):
        blocks = -(-k // 16)
        inputs = [x, m.tensor(name, m.random.integers(0, 256, (n, blocks, 8)).astype(numpy.uint8)),
                  m.tensor(name + ".scales", (m.random.random(n * blocks) * 0.02).astype(numpy.float32))]
        return m.add("MatMulNBits", inputs, name + ".product", domain="com.microsoft", K=k, N=n, bits=4, block_size=16)

    return m.add("Add", ["x", product(m.add("Tanh", [product("x", "up", WIDTH, 24)]), "down", 24, WIDTH)])


BOTH = {"up.read", "down.read"}
SOME = WAYS[:3]
# Name, model, options, ways, and the parameters and constants that tensor=2 has in parts.
ROWS = [
    ("of_tensor", both(), "", WAYS, BOTH),
    ("of_tensor_zero", both(zeros=True), "", SOME, BOTH),
    ("of_columns", both(axis=1, zeros=True), "", WAYS + MERGED[:2], BOTH),
    ("of_rows", both(axis=0, zeros=True), "--optimizer adamw --lr 0.002", WAYS, BOTH),
    ("of_blocks", both(axis=0, block=4), "", SOME, BOTH),
    ("of_uneven_blocks", both(18, axis=1, block=5, zeros=True), "", SOME, BOTH),
    ("int4", both(kind=INT4, axis=1, zeros=True), "", WAYS, BOTH),
    ("turned_blocks", turned_blocks, "", WAYS, {"up.turned", "down.turned"}),
    ("odd", odd, "", SOME, {"turned", "odd.turned", "down"}),
    ("moved", moved, "", SOME, {"up.moved", "down.moved"}),
    ("attention8", attention(INT8, axis=1), "", WAYS + MERGED[:2], {"qkv.read", "proj"}),
    ("attention4", attention(INT4, axis=0, block=4), "", WAYS, {"qkv.read", "proj"}),
    ("shared", shared, "", SOME, {"up.read", "up.again", "down1", "down2", "down3"}),
    ("one_cannot", one_cannot, "--optimizer adamw --lr 0.002", SOME, {"qkv", "proj"}),
    ("table", table, "", SOME, {"words.read"}),
    ("filters", filters, "", SOME, {"first.read", "second.read"}),
    ("blocked_products", blocked_products, "", SOME, {"up.product/B", "down.product/B"}),
    ("uneven", both(15, axis=1), "", WAYS[:1], {"down.read", "head"}),
    ("adapted8", attention(INT8, axis=1), "--lora r=4,targets=qkv --lora-export adapter", WAYS, {"qkv.read", "qkv.lora_B", "proj"}),
    ("adapted4", turned_blocks, "--lora r=2,targets=up,targets=down --lora-export adapter", WAYS,
     {"up.turned", "up.lora_B", "down.turned", "down.lora_A"}),
]
TOLD = [("uneven", TENSOR, "'up.read': axis 1 of [8,15] has no 2 equal parts, but 3")]


def evaluated(c):
    data = f"--data npz:{c.folder.parent}/data.npz"
    loss = lambda way: json.loads(tandem("evaluate", c.folder / "out.onnx", data, "--no-autotune --json", way).stdout)["loss"]
    off = check(c.name, "evaluated", {"loss": numpy.array(loss(TENSOR))}, {"loss": numpy.array(loss("--devices cpu:0"))})
    print(f"{c.name}, evaluated: {off:.0e}")


checks = run(ROWS, ["of_columns", "turned_blocks", "adapted8"], TOLD)
for name in checks.keys() & {"of_columns", "turned_blocks", "attention8"}:
    evaluated(checks[name])
