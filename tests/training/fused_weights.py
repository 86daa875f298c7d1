"""One weight for several layers (queries, keys and values; a gate and what goes through it), in runs of unequal widths, shared by devices.

Twenty steps in each way are those of one device. So it is for a weight that two layers read, is frozen or has an adapter; with merged
outputs, in several processes, and in runs that go on elsewhere. What has no equal parts is told.

TANDEM names the program. Exit code 3: a package is missing, 1: something differs.
"""
from split_weights import MERGED, TENSOR, WAYS, WIDTH, run


def grouped(m, heads=4, keys=2, nested=False):
    return m.attention("x", m.weight("qkv", WIDTH, 2 * (heads + 2 * keys)), heads, keys, nested=nested)


def read_twice(m):
    weight = m.weight("qkv", WIDTH, 16)
    return m.attention(m.attention("x", weight, 4, 2, "first."), weight, 4, 2, "second.")


def gated(m):
    product = m.add("Add", [m.add("MatMul", ["x", m.weight("gate_up", WIDTH, 32)]), m.weight("gate_up.bias", 32)])
    gate, up, alone = m.runs(product, [8, 8, 16])
    one = m.add("MatMul", [m.add("Mul", [m.add("Sigmoid", [gate]), up]), m.weight("down1", 8, WIDTH)])
    return m.add("Add", ["x", m.add("Add", [one, m.add("MatMul", [m.add("Tanh", [alone]), m.weight("down2", 16, WIDTH)])])])


ROWS = [
    ("grouped", grouped, "", WAYS + MERGED, {"qkv", "proj"}),
    ("nested", lambda m: grouped(m, nested=True), "", WAYS, {"qkv", "proj"}),
    ("gated", gated, "--optimizer adamw --lr 0.002", WAYS, {"gate_up", "gate_up.bias", "down1", "down2"}),
    ("read_twice", read_twice, "", WAYS, {"qkv", "first.proj", "second.proj"}),
    ("frozen", grouped, "--freeze qkv", WAYS, {"qkv", "proj"}),
    ("adapted", grouped, "--lora r=4,targets=qkv", WAYS, {"qkv", "qkv.lora_B", "proj"}),
    ("three_heads", lambda m: grouped(m, 3, 3), "", WAYS[:1], {"proj", "head"}),
]
TOLD = [("three_heads", TENSOR, "'qkv': Reshape 'Reshape2': axis 2 of [8,6,3,2] has no 2 equal parts, but 3"),
        ("grouped", "--devices cpu:0-3 --parallel tensor=4", "axis 2 of [8,6,2,2] has no 4 equal parts, but 2")]

run(ROWS, ["grouped", "gated", "adapted"], TOLD)
