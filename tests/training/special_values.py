#!/usr/bin/env python3
"""NaN, infinities, zeros and the largest numbers through every operator that takes floats: `tandem predict` against ONNX Runtime, and the
gradients (ONNX's Gradient) against PyTorch's, for each instruction set. Where ONNX Runtime and PyTorch do not agree, `follows` tells whom
tandem follows, as docs/not-numbers.md does.

TANDEM names the program. Exit code 3: a package is missing, 1: something differs. Arguments: operators, all without.
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

NAN, INF = float("nan"), float("inf")
VALUES = [NAN, INF, -INF, 0.0, -0.0, 1.5, -2.5, 0.5, 100.0, -100.0, 3e38, -3e38, 1e-30]
N = len(VALUES)

# Samples: a[i, j] = VALUES[i], b[i, j] = VALUES[j]; c has rows with one of them at each place, or two.
A = np.repeat(np.array(VALUES, np.float32)[:, None], N, 1)
B = A.T.copy()
C = np.random.default_rng(3).uniform(-2, 2, (N, N)).astype(np.float32)
for row, (place, value) in enumerate([(0, NAN), (5, NAN), (12, NAN), (0, INF), (12, INF), (3, -INF), (12, -INF)]):
    C[row, place] = value
C[7, [2, 9]] = INF
C[8, [2, 9]] = INF, -INF
C[9, [2, 9]] = INF, NAN
C[10] = -INF
C[11] = NAN
V = np.random.default_rng(4).uniform(-1, 1, (N, 3, 8, 8)).astype(np.float32)
V[0, 0, 3, 3] = V[1, 2, 7, 7] = V[2, 1, 0, 0] = NAN
V[3, 0, 3, 3] = INF
V[4, 1, 2, 5] = -INF
SAMPLES = {"a": A, "b": B, "c": C, "v": V}
FILTER = np.random.default_rng(5).uniform(-1, 1, (20, 3, 3, 3)).astype(np.float32)
CHANNELS = np.random.default_rng(6).uniform(0.5, 1, (4, 3)).astype(np.float32)


class Case:
    """y = op(operands), of which a, b and c are samples, v images; `torch`: the same, of tensors. `follows`: whom, where they differ."""

    def __init__(self, op, operands, torch=None, outputs=1, name=None, held=(), follows="ort", finite=(), smooth=True, **attributes):
        self.op, self.operands, self.torch, self.outputs, self.attributes, self.held = op, operands, torch, outputs, attributes, held
        self.name, self.follows = name or op, follows
        self.finite = finite  # operands that have finite values alone
        self.smooth = smooth  # the gradient is compared, too


def unary(op, f=None, **more):
    return Case(op, ["a"], f, **more)


def binary(op, f=None, **more):
    return Case(op, ["a", "b"], f, **more)


def rows(op, f=None, **more):
    return Case(op, ["c"], f, **more)


def i64(*values):
    return np.array(values, np.int64)


def f32(*values):
    return np.array(values, np.float32)


AXES = [i64(1)]
CASES = [
    unary("Abs", torch.abs, smooth=False), unary("Acos", torch.acos), unary("Acosh", torch.acosh), unary("Asin", torch.asin), unary("Asinh", torch.asinh),
    unary("Atan", torch.atan), unary("Atanh", torch.atanh), unary("Ceil", torch.ceil), unary("Celu", F.celu), unary("Cos", torch.cos), unary("Cosh", torch.cosh),
    unary("Elu", F.elu), unary("Erf", torch.erf), unary("Exp", torch.exp), unary("Floor", torch.floor), unary("Gelu", F.gelu),
    unary("Gelu", lambda x: F.gelu(x, approximate="tanh"), name="Gelu/tanh", approximate="tanh"),
    unary("HardSigmoid", F.hardsigmoid, alpha=1 / 6), unary("HardSwish", F.hardswish), unary("Identity", lambda x: x.clone()), unary("LeakyRelu", F.leaky_relu, alpha=0.01, smooth=False),
    unary("Log", torch.log), unary("Mish", F.mish), unary("Neg", torch.neg), unary("Reciprocal", torch.reciprocal), unary("Relu", F.relu), unary("Round", torch.round),
    unary("Selu", F.selu), unary("Sigmoid", torch.sigmoid), unary("Sign", torch.sign), unary("Sin", torch.sin), unary("Sinh", torch.sinh),
    unary("Softplus", F.softplus), unary("Softsign", F.softsign), unary("Sqrt", torch.sqrt), unary("Tan", torch.tan), unary("Tanh", torch.tanh),
    unary("ThresholdedRelu", lambda x: F.threshold(x, 1.0, 0.0), smooth=False), unary("Shrink", lambda x: F.hardshrink(x), lambd=0.5, bias=0.0),
    unary("Clip", lambda x: torch.clamp(x, -1, 6), held=[f32(-1).reshape(()), f32(6).reshape(())]), unary("Clip", F.relu6, name="Clip/relu6", held=[f32(0).reshape(()), f32(6).reshape(())]),
    unary("IsNaN", torch.isnan), unary("IsInf", torch.isinf), unary("Cast", name="Cast/float64", to=TensorProto.DOUBLE), unary("Cast", lambda x: x.to(torch.bool), name="Cast/bool", to=TensorProto.BOOL),
    binary("Add", torch.add), binary("Sub", torch.sub), binary("Mul", torch.mul), binary("Div", torch.div), binary("Max", torch.maximum, smooth=False), binary("Min", torch.minimum, smooth=False),
    binary("Pow", torch.pow, smooth=False), binary("Mod", torch.fmod, fmod=1, smooth=False), binary("PRelu", lambda x, w: torch.where(x > 0, x, x * w), finite=["b"], smooth=False),
    binary("Equal", torch.eq), binary("Greater", torch.gt), binary("GreaterOrEqual", torch.ge), binary("Less", torch.lt), binary("LessOrEqual", torch.le),
    rows("Softmax", lambda x: torch.softmax(x, 1), axis=1), rows("LogSoftmax", lambda x: torch.log_softmax(x, 1), axis=1),
    rows("ReduceMax", lambda x: torch.amax(x, 1, True), follows="torch", held=AXES), rows("ReduceMin", lambda x: torch.amin(x, 1, True), follows="torch", held=AXES), rows("ReduceSum", lambda x: x.sum(1, True), held=AXES),
    rows("ReduceMean", lambda x: x.mean(1, True), held=AXES), rows("ReduceProd", lambda x: x.prod(1, True), held=AXES), rows("ReduceL1", lambda x: x.norm(1, 1, True), held=AXES, smooth=False),
    rows("ReduceL2", lambda x: x.norm(2, 1, True), held=AXES), rows("ReduceLogSumExp", lambda x: torch.logsumexp(x, 1, True), held=AXES, smooth=False),
    rows("ReduceSumSquare", lambda x: (x * x).sum(1, True), held=AXES), rows("CumSum", lambda x: x.cumsum(1), held=[i64(1).reshape(())]),
    rows("ArgMax", lambda x: x.argmax(1, True), follows="torch", axis=1), rows("ArgMin", lambda x: x.argmin(1, True), follows="torch", axis=1), rows("Hardmax", lambda x: F.one_hot(x.argmax(1), N).float(), follows="torch", axis=1),
    rows("TopK", lambda x: torch.topk(x, 3)[0], smooth=False, outputs=2, held=[i64(3)]),
    rows("TopK", lambda x: torch.topk(x, 3, largest=False)[0], smooth=False, outputs=2, name="TopK/smallest", held=[i64(3)], largest=0),
]


T = torch.tensor
LAYERS = [
    Case("Conv", ["v"], lambda x: F.relu(F.conv2d(x, T(FILTER), padding=1)), held=[FILTER], pads=[1, 1, 1, 1], name="Conv, Relu"),
    Case("ConvTranspose", ["v"], lambda x: F.relu(F.conv_transpose2d(x, T(FILTER.swapaxes(0, 1).copy()))), held=[FILTER.swapaxes(0, 1).copy()], name="ConvTranspose, Relu"),
    Case("MatMul", ["c"], lambda x: F.relu(x @ torch.full((N, 5), 0.5)), held=[np.full((N, 5), 0.5, np.float32)], name="MatMul, Relu"),
    Case("BatchNormalization", ["v"], lambda x: F.relu(F.batch_norm(x, T(CHANNELS[2]), T(CHANNELS[3]), T(CHANNELS[0]), T(CHANNELS[1]))), held=list(CHANNELS), name="BatchNormalization, Relu"),
    Case("MaxPool", ["v"], lambda x: F.max_pool2d(x, 2), follows="torch", kernel_shape=[2, 2], strides=[2, 2]),
    Case("MaxPool", ["v"], lambda x: F.max_pool2d(x, 3, 1, 1), follows="torch", kernel_shape=[3, 3], pads=[1, 1, 1, 1], name="MaxPool, overlapping"),
    Case("AveragePool", ["v"], lambda x: F.avg_pool2d(x, 2), kernel_shape=[2, 2], strides=[2, 2]),
    Case("GlobalMaxPool", ["v"], lambda x: torch.amax(x, (2, 3), True), follows="torch"),
    Case("GlobalAveragePool", ["v"], lambda x: x.mean((2, 3), True)),
]
CASES += LAYERS


def model(cases, gradients):
    """Each case is an output, or the gradient of its sum by each of the samples that it reads."""
    nodes, held, outputs = [], [], []
    for s in SAMPLES:  # data may not hold what is no number: a quotient is one
        nodes.append(helper.make_node("Div", [s + "/above", s + "/below"], [s]))
    for i, case in enumerate(cases):
        for k, array in enumerate(case.held):
            held.append(numpy_helper.from_array(array, f"held{i}/{k}"))
        y = f"y{i}"
        nodes.append(helper.make_node(case.op, case.operands + [f"held{i}/{k}" for k in range(len(case.held))], [y] + [f"more{i}/{k}" for k in range(case.outputs - 1)], **case.attributes))
        if case.name.endswith(", Relu"):
            nodes.append(helper.make_node("Relu", [y], [y + "/relu"]))
            y += "/relu"
        if case.op in ("IsNaN", "IsInf", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual") or case.name == "Cast/bool":
            nodes.append(helper.make_node("Cast", [y], [y + "/number"], to=TensorProto.FLOAT))
            y += "/number"
        if not gradients:
            outputs.append(y)
            continue
        nodes.append(helper.make_node("ReduceSum", [y], [y + "/sum"], keepdims=0))
        nodes.append(helper.make_node("Gradient", case.operands, [f"{y}/d{x}" for x in case.operands], domain="ai.onnx.preview.training", xs=case.operands, y=y + "/sum"))
        outputs += [f"{y}/d{x}" for x in case.operands]
    inputs = [helper.make_tensor_value_info(f"{s}/{part}", TensorProto.FLOAT, list(SAMPLES[s].shape)) for s in SAMPLES for part in ("above", "below")]
    graph = helper.make_graph(nodes, "special", inputs, [onnx.ValueInfoProto(name=o) for o in outputs], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.preview.training", 1)], ir_version=9), outputs


def quotient(x):
    below = np.where(np.isfinite(x), 1, 0).astype(np.float32)
    above = np.where(np.isnan(x), 0, np.where(np.isinf(x), np.sign(x), x)).astype(np.float32)
    return above, below


def feeds():
    return {f"{s}/{part}": v for s, x in SAMPLES.items() for part, v in zip(("above", "below"), quotient(x))}


def predict(folder, made, isa):
    path, data, out = (os.path.join(folder, n) for n in ("m.onnx", "d.npz", "p.npz"))
    onnx.save(made, path)
    np.savez(data, **feeds())
    limits = {"TANDEM_ISA": isa, "DNNL_MAX_CPU_ISA": {"baseline": "SSE41", "avx2": "AVX2", "avx512": "ALL"}[isa]}
    done = subprocess.run([TANDEM, "predict", path, "--data", "npz:" + data, "--batch-size", str(N), "--output", out, "--devices", "cpu:0"],
                          env={**os.environ, **limits}, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{isa}: tandem predict gives {done.returncode}: {done.stderr}")
    return np.load(out)


def difference(case, got, wanted, gradient=False):
    """The operands where they differ, and how. Of gradients what is not finite need only be not finite."""
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    if got.shape != wanted.shape:
        return f"shape {got.shape} for {wanted.shape}"
    with np.errstate(all="ignore"):
        good = (np.abs(got - wanted) <= 1e-5 + 1e-5 * np.abs(wanted)) | (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    if gradient:
        good |= ~np.isfinite(got) & ~np.isfinite(wanted)
    for operand in case.finite:
        good |= ~np.isfinite(SAMPLES[operand])
    places = list(zip(*np.where(~good)))
    described = [f"{'row' if case.operands[0] in 'cv' else ''} {[str(SAMPLES[x][p]) for x in case.operands] if case.operands[0] in 'ab' else p}: {got[p]} for {wanted[p]}" for p in places[:4]]
    return "; ".join(described) + (f" and {len(places) - 4} more" if len(places) > 4 else "")


def main():
    names = set(sys.argv[1:])
    cases = [c for c in CASES if not names or c.name in names]
    smooth = [c for c in cases if c.smooth and c.torch and c not in LAYERS]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    forward, outputs = model(cases, False)
    backward, _ = model(smooth, True)
    session = onnxruntime.InferenceSession(forward.SerializeToString(), options, providers=["CPUExecutionProvider"])
    reference = dict(zip(outputs, session.run(outputs, feeds())))
    tensors = {s: torch.tensor(x) for s, x in SAMPLES.items()}
    failed, agree = 0, 0
    folder = tempfile.mkdtemp()
    for isa in os.environ.get("ISAS", "baseline avx2 avx512").split():
        got = predict(folder, forward, isa)
        for case, name in zip(cases, outputs):
            by_torch = case.torch(*[tensors[x] for x in case.operands]).float().numpy() if case.torch else None
            told = difference(case, got[name], by_torch if case.follows == "torch" else reference[name])
            if told:
                print(f"{isa}: {case.name}, against {case.follows}: {told}")
            failed, agree = failed + bool(told), agree + (not told)
        got = predict(folder, backward, isa)
        for i, case in enumerate(smooth):
            xs = [tensors[x].clone().requires_grad_() for x in case.operands]
            y = case.torch(*xs)
            if not y.requires_grad:
                continue
            y.sum().backward()
            for x, operand in zip(xs, case.operands):
                made = next(k for k in got.files if k.startswith(f"y{i}/") and k.endswith("/d" + operand))
                told = difference(case, got[made], x.grad.numpy(), gradient=True)
                if told:
                    print(f"{isa}: {case.name}, gradient by {operand}, against torch: {told}")
                failed, agree = failed + bool(told), agree + (not told)
    print(f"{agree} agree, {failed} differ")
    sys.exit(failed > 0)


main()
