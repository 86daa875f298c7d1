#!/usr/bin/env python3
"""Forms that exporters write, by the program against ONNX Runtime and PyTorch: missing values that the model itself fills, assignments by
a mask, norms at zeros, QONNX's quantizers; and what `evaluate` and `predict` say of a model whose weights are not numbers.

TANDEM names the program. Exit code 3: a package is missing, 1: something differs.
"""
import os
import subprocess
import sys
import tempfile

from program import TANDEM, needed

with needed():
    import numpy as np
    import onnx
    import onnxruntime
    import torch
    import torch.nn.functional as F
    from onnx import TensorProto, helper, numpy_helper

FOLDER = tempfile.mkdtemp()
rng = np.random.default_rng(3)
failed = []
node = helper.make_node


def values(*shape):
    return rng.uniform(-2, 2, shape).astype(np.float32)


def check(good, what):
    if not good:
        failed.append(what)
        print("FAILED:", what)


def model(nodes, inputs, output, held=None, opset=18):
    tensors = [numpy_helper.from_array(np.asarray(v), n) for n, v in (held or {}).items()]
    given = [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs]
    outputs = [onnx.ValueInfoProto(name=o) for o in output]
    domains = {n.domain for n in nodes if n.domain}
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, {"ai.onnx.ml": 3}.get(d, 1)) for d in domains]
    return helper.make_model(helper.make_graph(nodes, "g", given, outputs, tensors), opset_imports=imports, ir_version=9)


def tandem(verb, made, data, *options):
    path, file = os.path.join(FOLDER, "m.onnx"), os.path.join(FOLDER, "d.npz")
    onnx.save(made, path)
    np.savez(file, **data)
    return subprocess.run([TANDEM, verb, path, "--data", "npz:" + file, "--devices", "cpu:0", *options], capture_output=True, text=True)


def predict(made, data, *options):
    out = os.path.join(FOLDER, "p.npz")
    done = tandem("predict", made, data, "--output", out, *options)
    return (dict(np.load(out)) if done.returncode == 0 else None), done


def by_onnxruntime(made, data):
    return onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, data)


def near(a, b, tolerance=1e-5):
    return a is not None and np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


def missing_values():
    x = values(6, 3)
    x[0, 1] = x[2, 0] = x[2, 2] = np.nan
    held = {"w": values(3, 2), "zero": np.float32(0)}
    product = node("MatMul", ["v", "w"], ["y"])
    fills = {
        "Imputer": [node("Imputer", ["x"], ["v"], domain="ai.onnx.ml", imputed_value_floats=[0.5, 1.0, 2.0], replaced_value_float=np.nan)],
        "Where of IsNaN": [node("IsNaN", ["x"], ["n"]), node("Where", ["n", "zero", "x"], ["v"])],
        "Where of not IsNaN": [node("IsNaN", ["x"], ["n"]), node("Not", ["n"], ["s"]), node("Where", ["s", "x", "zero"], ["v"])],
        "Where of x equal x": [node("Equal", ["x", "x"], ["s"]), node("Where", ["s", "x", "zero"], ["v"])],
        "through a view": [node("Transpose", ["x"], ["t"], perm=[0, 1]), node("IsNaN", ["t"], ["n"]), node("Where", ["n", "zero", "t"], ["v"])],
    }
    inputs = [("x", TensorProto.FLOAT, ["N", 3])]
    for name, nodes in fills.items():
        made = model(nodes + [product], inputs, ["y"], held)
        got, done = predict(made, {"x": x})
        check(got and near(got["y"], by_onnxruntime(made, {"x": x})[0]), f"{name}: {done.stderr}")
    refused = {
        "no fill": [node("Identity", ["x"], ["v"])],
        "half a fill": [node("IsNaN", ["x"], ["n"]), node("Where", ["n", "zero", "x"], ["f"]), node("Add", ["f", "x"], ["v"])],
        "an Imputer of another number": [node("Imputer", ["x"], ["v"], domain="ai.onnx.ml", imputed_value_floats=[0.5, 1.0, 2.0], replaced_value_float=-1.0)],
        "Where the wrong way round": [node("IsNaN", ["x"], ["n"]), node("Where", ["n", "x", "zero"], ["v"])],
    }
    for name, nodes in refused.items():
        _, done = predict(model(nodes + [product], inputs, ["y"], held), {"x": x})
        check(done.returncode == 4 and "sample 0 has nan in 'x'" in done.stderr, f"{name}: {done.returncode} {done.stderr}")


def assignments():
    x = values(7, 6)
    number = {"zero": np.float32(0), "two": np.float32(2), "flat": np.array([-1], np.int64), "half": np.float32(0.25), "row": values(6), "axis": np.array([0], np.int64)}
    places = [node("Greater", ["x", "zero"], ["m"]), node("NonZero", ["m"], ["z"]), node("Transpose", ["z"], ["i"], perm=[1, 0])]
    picked = places + [node("GatherND", ["x", "i"], ["p"])]
    rows = [node("ReduceSum", ["x", "one"], ["s"], keepdims=0), node("Greater", ["s", "zero"], ["m"]), node("NonZero", ["m"], ["z"]), node("Transpose", ["z"], ["i"], perm=[1, 0])]
    number["one"] = np.array([1], np.int64)
    forms = {
        "y[m] = 2 x[m]": picked + [node("Mul", ["p", "two"], ["u"]), node("Mul", ["x", "half"], ["d"]), node("ScatterND", ["d", "i", "u"], ["y"])],
        "y[m] = log x[m]": picked + [node("Log", ["p"], ["u"]), node("Mul", ["x", "half"], ["d"]), node("ScatterND", ["d", "i", "u"], ["y"])],
        "y[m] += x[m]": picked + [node("Mul", ["x", "half"], ["d"]), node("ScatterND", ["d", "i", "p"], ["y"], reduction="add")],
        "counted": picked + [node("Shape", ["p"], ["n"]), node("Mul", ["p", "two"], ["q"]), node("Expand", ["q", "n"], ["e"]), node("Reshape", ["e", "flat"], ["u"]), node("Mul", ["x", "half"], ["d"]),
                             node("ScatterND", ["d", "i", "u"], ["y"])],
        "y[m] = 2": places + [node("Shape", ["i"], ["n2"]), node("Gather", ["n2", "axis"], ["n"]), node("Expand", ["two", "n"], ["u"]), node("Mul", ["x", "half"], ["d"]), node("ScatterND", ["d", "i", "u"], ["y"])],
        "a second NonZero": picked + [node("Shape", ["x"], ["xs"]), node("Expand", ["m", "xs"], ["m2"]), node("NonZero", ["m2"], ["z2"]), node("Transpose", ["z2"], ["i2"], perm=[1, 0]), node("Exp", ["p"], ["u"]),
                                      node("Mul", ["x", "half"], ["d"]), node("ScatterND", ["d", "i2", "u"], ["y"])],
        "rows": rows + [node("GatherND", ["x", "i"], ["p"]), node("Mul", ["p", "row"], ["u"]), node("Mul", ["x", "half"], ["d"]), node("ScatterND", ["d", "i", "u"], ["y"])],
    }
    inputs = [("x", TensorProto.FLOAT, ["N", 6])]
    for name, nodes in forms.items():
        used = {i for n in nodes for i in n.input}
        made = model(nodes, inputs, ["y"], {k: v for k, v in number.items() if k in used})
        got, done = predict(made, {"x": x}, "--batch-size", "3")
        check(got and near(got["y"], by_onnxruntime(made, {"x": x})[0]), f"{name}: {done.stderr}")
    left = {
        "what a mask picks is the output": picked + [node("Identity", ["p"], ["y"])],
        "a sum of it": picked + [node("ReduceSum", ["p"], ["y"], keepdims=1)],
        "another mask's": picked + [node("Less", ["x", "zero"], ["m3"]), node("NonZero", ["m3"], ["z3"]), node("Transpose", ["z3"], ["i3"], perm=[1, 0]), node("ScatterND", ["x", "i3", "p"], ["y"])],
    }
    for name, nodes in left.items():
        used = {i for n in nodes for i in n.input}
        _, done = predict(model(nodes, inputs, ["y"], {k: v for k, v in number.items() if k in used}), {"x": x})
        check(done.returncode == 3 and "NonZero" in done.stderr and "how many elements are not zero is a shape" in done.stderr, f"{name}: {done.returncode} {done.stderr}")


def gradients():
    """By ONNX's Gradient, of the sum of y · weights."""
    x = values(4, 3)
    x[1] = 0
    weights = values(4, 1)

    def compare(name, nodes, f, held, opset=18):
        made = model(nodes + [node("Mul", ["y", "weights"], ["yw"]), node("ReduceSum", ["yw"], ["total"], keepdims=0),
                              node("Gradient", ["x"], ["dx"], domain="ai.onnx.preview.training", xs=["x"], y="total")],
                     [("x", TensorProto.FLOAT, [4, 3])], ["y", "dx"], {"weights": weights, **held}, opset)
        got, done = predict(made, {"x": x}, "--batch-size", "4")
        t = torch.tensor(x, requires_grad=True)
        y = f(t)
        (y * torch.tensor(weights)).sum().backward()
        check(got and near(got["y"], y.detach().numpy()), f"{name}: {done.stderr} {got and got['y']} {y}")
        check(got and near(got["dx"], t.grad.numpy(), 1e-4), f"gradient of {name}: {got and got['dx']}, expected {t.grad}")

    axis = {"axis": np.array([1], np.int64)}
    compare("ReduceL2", [node("ReduceL2", ["x", "axis"], ["y"])], lambda t: t.norm(2, 1, True), axis)
    compare("ReduceL1", [node("ReduceL1", ["x", "axis"], ["y"])], lambda t: t.norm(1, 1, True), axis)
    compare("√ Σ x², written out", [node("ReduceSumSquare", ["x", "axis"], ["s"]), node("Sqrt", ["s"], ["y"])], lambda t: (t * t).sum(1, True).sqrt(), axis)
    compare("normalize", [node("ReduceL2", ["x", "axis"], ["n"]), node("Clip", ["n", "least"], ["c"]), node("Div", ["x", "c"], ["y"])], lambda t: F.normalize(t, dim=1, eps=1e-2),
            {**axis, "least": np.float32(1e-2)})

    class Rounded(torch.autograd.Function):  # as Brevitas has it
        @staticmethod
        def forward(context, x, f):
            return f(x)

        @staticmethod
        def backward(context, dy):
            return dy, None

    def quant(t, scale, zero, low, high, f=torch.round):
        r = Rounded.apply(t / scale + zero, f)
        r = torch.where(r > high, float(high), r)
        return (torch.where(r < low, float(low), r) - zero) * scale

    held = {"s": np.float32(0.3), "z": np.float32(0), "b": np.float32(3), "seven": np.float32(7)}
    for name, attributes, zero, low, high in [("signed", {"signed": 1, "narrow": 0}, 0, -4, 3), ("narrow", {"signed": 1, "narrow": 1}, 0, -3, 3), ("unsigned", {"signed": 0, "narrow": 0}, 0, 0, 7),
                                              ("with a zero point", {"signed": 0, "narrow": 0}, 3, 0, 7)]:
        operands = {**held, "z": np.float32(zero)}
        compare(f"Quant, {name}", [node("Quant", ["x", "s", "z", "b"], ["y"], domain="qonnx.custom_op.general", rounding_mode="ROUND", **attributes)],
                lambda t: quant(t, 0.3, zero, low, high), {k: operands[k] for k in ("s", "z", "b")})
    compare("Quant, floor", [node("Quant", ["x", "s", "z", "b"], ["y"], domain="qonnx.custom_op.general", rounding_mode="FLOOR", signed=1, narrow=0)],
            lambda t: quant(t, 0.3, 0, -4, 3, torch.floor), {k: held[k] for k in ("s", "z", "b")})
    compare("BipolarQuant", [node("BipolarQuant", ["x", "s"], ["y"], domain="qonnx.custom_op.general")],
            lambda t: Rounded.apply(t, lambda v: torch.where(v >= 0, 1.0, -1.0)) * 0.3, {"s": held["s"]})
    compare("Trunc", [node("Trunc", ["x", "s", "z", "seven", "b"], ["y"], domain="qonnx.custom_op.general", rounding_mode="FLOOR")],
            lambda t: Rounded.apply(Rounded.apply(t / 0.3, torch.round) / 16, torch.floor) * 0.3, held)


def loss_inside():
    """What lies behind the loss's value does not follow the batch: the error names the way out, which works."""
    made = model([node("MatMul", ["x", "w"], ["h"]), node("ReduceMean", ["h", "axis"], ["m"], keepdims=1), node("Sub", ["h", "m"], ["y"])], [("x", TensorProto.FLOAT, ["N", 4])], ["y"],
                 {"w": values(4, 3), "axis": np.array([0], np.int64)})
    options = ["--loss-on", "h", "--loss", "mse", "--epochs", "1", "--run-dir", "none", "--batch-size", "3", "--output", os.path.join(FOLDER, "t.onnx")]
    data = {"x": values(6, 4), "y": values(6, 3)}
    done = tandem("train", made, data, *options)
    check(done.returncode == 3 and "--cut ends the model at a value before it" in done.stderr, f"loss-on: {done.returncode} {done.stderr}")
    done = tandem("train", made, data, *options, "--cut", "h")
    check(done.returncode == 0, f"loss-on with cut: {done.returncode} {done.stderr}")


def lost_weights():
    lost = values(4, 8)
    lost[1, 2] = np.nan
    made = model([node("MatMul", ["x", "w1"], ["a"]), node("Relu", ["a"], ["h"]), node("MatMul", ["h", "w2"], ["y"])], [("x", TensorProto.FLOAT, ["N", 4])], ["y"],
                 {"w1": lost, "w2": values(8, 3)})
    data = {"x": values(6, 4), "y": np.arange(6) % 3}
    for options in ([], ["--json"]):
        done = tandem("evaluate", made, data, *options)
        check(done.returncode == 8 and "the loss is not a number" in done.stderr, f"evaluate: {done.returncode} {done.stdout} {done.stderr}")
    _, done = predict(made, {"x": data["x"]})
    check(done.returncode == 0 and "warning: 'y' holds NaN in 6 samples of 6" in done.stderr, f"predict: {done.returncode} {done.stderr}")
    done = tandem("train", made, data, "--epochs", "1", "--run-dir", "none", "--output", os.path.join(FOLDER, "t.onnx"))
    check(done.returncode == 8, f"train: {done.returncode} {done.stderr}")


def feature_columns():
    """A number a sample of several inputs, beside a vector of another, as Core ML's files have them."""
    data = {"a": values(5), "b": values(5, 2)}
    made = model([node("FeatureVectorizer", ["a", "b"], ["v"], domain="ai.onnx.ml", inputdimensions=[1, 2]), node("MatMul", ["v", "w"], ["y"])],
                 [("a", TensorProto.FLOAT, ["N"]), ("b", TensorProto.FLOAT, ["N", 2])], ["y"], {"w": values(3, 2)})
    weights = numpy_helper.to_array(made.graph.initializer[0])
    got, done = predict(made, data, "--batch-size", "2")
    check(got and near(got["y"], np.concatenate([data["a"][:, None], data["b"]], 1) @ weights), f"FeatureVectorizer: {done.stderr}")


for part in (missing_values, assignments, gradients, feature_columns, loss_inside, lost_weights):
    part()
print(len(failed), "failed")
sys.exit(bool(failed))
