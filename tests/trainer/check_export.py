"""Asks other readers of ONNX about files that tandem wrote.

check_export.py EXPORT.onnx VALUES.npz GRAPH.onnx

VALUES.npz holds inputs as in/NAME and what tandem computes from them as out/NAME. onnx's checker must accept the export
and the training graph, and ONNX Runtime and onnx's reference evaluator must compute the same outputs. Exit code 3: the
packages are missing.
"""
import sys

try:
    import numpy
    import onnx
    import onnx.helper
    import onnx.inliner
    import onnxruntime
    from onnx.reference import ReferenceEvaluator
except ImportError as missing:
    print(missing)
    sys.exit(3)

TOLERANCE = 1e-5  # of the largest output, or of 1 where that is smaller

# Where onnx's reference evaluator does not compute what the standard says: operator, opsets, and what it does.
DEPARTURES = [
    ("LRN", range(1, 99), "sums over as many channels as the batch has samples"),
    ("BatchNormalization", range(1, 14), "mixes the batch's statistics into the running ones"),
    ("Softmax", range(1, 13), "takes the last axis where none is given"),
    ("LogSoftmax", range(1, 13), "takes the last axis where none is given"),
]


def compare(who, names, got, wanted):
    for name, values in zip(names, got):
        want = wanted[f"out/{name}"]
        assert values.shape == want.shape, f"{who}: {name} is {values.shape}, tandem's {want.shape}"
        error = numpy.abs(values - want).max() / max(1.0, numpy.abs(want).max())
        assert error <= TOLERANCE, f"{who}: {name} differs by {error:.1e}"
        print(f"{who}: {name} {want.shape} agrees to {error:.1e}")


def main(export, values, graph):
    onnx.checker.check_model(export)
    onnx.checker.check_model(graph)
    model = onnx.load(export)
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    if model.functions:  # some exporters' functions have bodies whose types ONNX Runtime cannot infer
        model = onnx.inliner.inline_local_functions(model)
    wanted = numpy.load(values)
    feeds = {key[3:]: wanted[key] for key in wanted.files if key.startswith("in/")}
    names = [key[4:] for key in wanted.files if key.startswith("out/")]
    outputs = {o.name for o in model.graph.output}
    # A model may hand out only labels made from the scores; tandem leaves those to other readers and gives the scores.
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names if name not in outputs)

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    compare("ONNX Runtime", names, session.run(names, feeds), wanted)

    operators = {node.op_type for node in model.graph.node if node.domain in ("", "ai.onnx")}
    foreign = [node.op_type for node in model.graph.node if node.domain not in ("", "ai.onnx")]
    reasons = [f"its {op} {what}" for op, opsets, what in DEPARTURES if op in operators and opset in opsets]
    reasons += [f"it has no {op}" for op in foreign]
    if reasons:
        print("reference evaluator left out:", "; ".join(reasons))
    else:
        compare("reference evaluator", names, ReferenceEvaluator(model).run(names, feeds), wanted)


main(*sys.argv[1:])
