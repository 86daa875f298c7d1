"""Models for the page's test, made by ONNX's own helper: their weights are small, for plans alone count."""
import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper


class Builder:
    def __init__(self):
        self.nodes, self.weights = [], []

    def weight(self, name, *shape):
        values = numpy.random.default_rng(len(self.weights)).standard_normal(shape, numpy.float32) / max(1, shape[0]) ** 0.5
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def indices(self, name, *values):
        self.weights.append(numpy_helper.from_array(numpy.array(values, numpy.int64), name))
        return name

    def node(self, op, inputs, name, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [name + "_out"], name=name, **attributes))
        return name + "_out"

    def save(self, path, inputs, outputs):
        graph = helper.make_graph(self.nodes, path.stem, inputs, outputs, self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def transformer(path, layers, width=64, heads=4, length=16, words=128):
    """A decoder without a mask: names of nodes as PyTorch exports them, /layers/layers.3/attn/q/MatMul."""
    b = Builder()
    x = b.node("Gather", [b.weight("embed.weight", words, width), "tokens"], "/embed/Gather")
    shape, back = b.indices("heads", 0, 0, heads, width // heads), b.indices("whole", 0, 0, width)
    for layer in range(layers):
        at, of = f"/layers/layers.{layer}", f"layers.{layer}"

        def norm(value, name):
            scale, bias = b.weight(f"{of}.{name}.weight", width), b.weight(f"{of}.{name}.bias", width)
            return b.node("LayerNormalization", [value, scale, bias], f"{at}/{name}/LayerNormalization")

        def linear(value, name, inner, outer):
            return b.node("MatMul", [value, b.weight(f"{of}.{name}.weight", inner, outer)], f"{at}/{name}/MatMul")

        def split(value, name, order):
            rows = b.node("Reshape", [value, shape], f"{at}/attn/{name}/Reshape")
            return b.node("Transpose", [rows], f"{at}/attn/{name}/Transpose", perm=order)

        h = norm(x, "norm1")
        q, k, v = (split(linear(h, f"attn/{n}", width, width), n, [0, 2, 3, 1] if n == "k" else [0, 2, 1, 3]) for n in "qkv")
        scores = b.node("Softmax", [b.node("MatMul", [q, k], f"{at}/attn/MatMul")], f"{at}/attn/Softmax", axis=-1)
        mixed = b.node("Transpose", [b.node("MatMul", [scores, v], f"{at}/attn/MatMul_1")], f"{at}/attn/Transpose", perm=[0, 2, 1, 3])
        x = b.node("Add", [x, linear(b.node("Reshape", [mixed, back], f"{at}/attn/Reshape"), "attn/out", width, width)], f"{at}/Add")
        h = linear(b.node("Relu", [linear(norm(x, "norm2"), "mlp/up", width, 4 * width)], f"{at}/mlp/Relu"), "mlp/down", 4 * width, width)
        x = b.node("Add", [x, h], f"{at}/Add_1")
    b.nodes.append(helper.make_node("MatMul", [x, b.weight("head.weight", width, words)], ["logits"], name="/head/MatMul"))
    b.save(path, [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["N", length])],
           [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", length, words])])


HOSTILE = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>", "\"'><svg onload=alert(3)>", "<!--<script>",
           "javascript:alert(4)//${alert(5)}`"]


def hostile(path):
    """Two layers whose names are markup."""
    b = Builder()
    x = b.node("Gemm", ["x", b.weight(HOSTILE[0], 8, 8)], HOSTILE[1] + "/" + HOSTILE[0])
    x = b.node("Relu", [x], HOSTILE[2])
    b.nodes.append(helper.make_node("Gemm", [x, b.weight(HOSTILE[3], 8, 4)], [HOSTILE[4]], name=HOSTILE[4] + "/" + HOSTILE[3]))
    b.save(path, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8])],
           [helper.make_tensor_value_info(HOSTILE[4], TensorProto.FLOAT, ["N", 4])])
