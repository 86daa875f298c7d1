#!/usr/bin/env python3
"""What `tandem train --export-training-info` writes, against onnx's reference evaluator: one step of the exported training_info gives the
weights that tandem's next step gives, to 1e-6, for each optimizer and loss that is written; and tandem goes on from its own file. The
evaluator has no Gradient: here it is taken by central differences, in double, of what the file itself says.

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
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

TRAINING = "ai.onnx.preview.training"
rng = np.random.default_rng(7)


def template(path, outputs, last):
    held = {"w1": (4, 6), "b1": (6,), "w2": (6, outputs), "b2": (outputs,)}
    tensors = [numpy_helper.from_array((rng.standard_normal(s) * 0.5).astype(np.float32), n) for n, s in held.items()]
    nodes = [helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]), helper.make_node("Tanh", ["h"], ["a"]), helper.make_node("Gemm", ["a", "w2", "b2"], ["scores"])]
    if last:
        nodes.append(helper.make_node(last, ["scores"], ["y"]))
    out = "y" if last else "scores"
    graph = helper.make_graph(nodes, "mlp", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])], [helper.make_tensor_value_info(out, TensorProto.FLOAT, ["N", outputs])], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def weights(model):
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def combined(model):
    """The inference graph and the algorithm, one behind the other, as the specification says."""
    info = model.training_info[0]
    both = onnx.ModelProto()
    both.CopyFrom(model)
    del both.training_info[:]
    both.graph.node.extend(info.algorithm.node)
    both.graph.initializer.extend(info.algorithm.initializer)
    both.graph.input.extend(info.algorithm.input)
    del both.graph.output[:]
    both.graph.output.extend(info.algorithm.output)
    onnx.checker.check_model(both)
    return both, info


def gradient_of(model):
    """Gradient as an operator of this model: central differences in double."""
    forward = onnx.ModelProto()
    forward.CopyFrom(model)
    wanted, kept = {"training/loss"}, []
    for n in reversed(forward.graph.node):
        if wanted & set(n.output):
            wanted |= set(n.input)
            kept.append(onnx.NodeProto.FromString(n.SerializeToString()))
    del forward.graph.node[:]
    forward.graph.node.extend(reversed(kept))
    for t in forward.graph.initializer:
        if t.data_type == TensorProto.FLOAT:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float64), t.name))

    class Gradient(OpRun):
        op_domain = TRAINING

        def _run(self, *values, xs=None, zs=None, y=None):
            wide = [v.astype(np.float64) if v.dtype == np.float32 else v for v in values]
            feeds = dict(zip(list(xs) + list(zs or []), wide))
            held = {t.name: t for t in forward.graph.initializer}
            one = onnx.ModelProto()
            one.CopyFrom(forward)
            del one.graph.initializer[:]
            one.graph.initializer.extend(t for n, t in held.items() if n not in feeds)
            del one.graph.input[:]
            one.graph.input.extend(helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), None) for n, v in feeds.items())
            del one.graph.output[:]
            one.graph.output.append(helper.make_tensor_value_info(y, TensorProto.DOUBLE, []))
            session = ReferenceEvaluator(one)
            results = []
            for x in xs:
                g = np.zeros(feeds[x].shape)
                for i in np.ndindex(*g.shape):
                    ends = []
                    for step in (1e-5, -1e-5):
                        moved = feeds[x].copy()
                        moved[i] += step
                        ends.append(float(session.run(None, {**feeds, x: moved})[0]))
                    g[i] = (ends[0] - ends[1]) / 2e-5
                results.append(g.astype(np.float32))
            return tuple(results)

    return Gradient


def reference_step(path, x, labels):
    model = onnx.load(path)
    both, info = combined(model)
    session = ReferenceEvaluator(both, new_ops=[gradient_of(both)])
    results = dict(zip([o.name for o in both.graph.output], session.run(None, {"x": x, info.algorithm.input[0].name: labels})))
    after = weights(model)
    states = {t.name: numpy_helper.to_array(t) for t in info.algorithm.initializer}
    for b in info.update_binding:
        (after if b.key in after else states)[b.key] = results[b.value]
    return after, states, info


def start_of(info):
    """What the initialization sets."""
    model = helper.make_model(info.initialization, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    values = dict(zip([o.name for o in info.initialization.output], ReferenceEvaluator(model).run(None, {})))
    return {b.key: values[b.value] for b in info.initialization_binding}


def tandem(*arguments):
    done = subprocess.run([TANDEM, "train", *arguments, "--run-dir", "none", "--no-shuffle", "--devices", "cpu:0", "--batch-size", "8", "--no-autotune"], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def worst(a, b):
    return max(float(np.abs(a[n].astype(np.float64) - b[n]).max()) for n in a)


LOSSES = {
    "softmax-cross-entropy": (3, "Softmax", lambda: rng.integers(0, 3, 8)),
    "mse": (2, None, lambda: rng.standard_normal((8, 2)).astype(np.float32)),
    "l1": (2, None, lambda: rng.standard_normal((8, 2)).astype(np.float32)),
    "binary-cross-entropy": (2, "Sigmoid", lambda: rng.integers(0, 2, (8, 2)).astype(np.float32)),
}
OPTIMIZERS = [
    ["sgd"], ["sgd", "--weight-decay", "0.1"], ["momentum"], ["nesterov", "--weight-decay", "0.01"], ["momentum", "--dampening", "0.5"],
    ["adagrad", "--rate-decay", "0.1"], ["adam"], ["adam", "--epsilon-hat", "--epsilon", "1e-3", "--weight-decay", "0.01"], ["adamw"], ["rmsprop"],
    ["adam", "--group", "b1,b2: lr=10x,weight-decay=0.1"],
]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        cases = [(loss, ["nesterov"]) for loss in LOSSES] + [("softmax-cross-entropy", o) for o in OPTIMIZERS]
        for loss, optimizer in cases:
            outputs, last, labels = LOSSES[loss]
            template("m.onnx", outputs, last)
            x, y = rng.standard_normal((8, 4)).astype(np.float32), labels()
            np.savez("d.npz", x=x, y=y)
            said = ["--data", "npz:d.npz", "--loss", loss, "--optimizer", *optimizer, "--init", "keep"]
            name = f"{loss}, {' '.join(optimizer)}"
            runs = [("m.onnx", *said, "--steps", "2", "--export-training-info", "--output", "two.onnx"), ("m.onnx", *said, "--steps", "3", "--output", "three.onnx"),
                    ("two.onnx", "--data", "npz:d.npz", "--steps", "1", "--output", "again.onnx")]
            for arguments in runs:
                code, text = tandem(*arguments)
                if code != 0:
                    print(f"{name}: {arguments}: exit {code}\n{text}")
                    failed += 1
                    break
            else:
                after, states, info = reference_step("two.onnx", x, y)
                ours, again = weights(onnx.load("three.onnx")), weights(onnx.load("again.onnx"))
                by_reference, by_tandem = worst(ours, after), worst(ours, again)
                moved = worst(ours, weights(onnx.load("two.onnx")))
                zeros = all(not v.any() for k, v in start_of(info).items() if k != "training/step") if info.initialization_binding else True
                ok = by_reference <= 1e-6 and by_tandem == 0 and moved > 1e-5 and zeros
                failed += not ok
                print(f"{'ok  ' if ok else 'FAIL'} {name}: the step moves {moved:.1e}; reference evaluator differs by {by_reference:.1e}, tandem from its own file by {by_tandem:.1e}")
        code, text = tandem("m.onnx", "--data", "npz:d.npz", "--optimizer", "lion", "--steps", "1", "--export-training-info", "--output", "no.onnx")
        if code != 2 or "optimizer lion is not written" not in text or os.path.exists("no.onnx"):
            print(f"FAIL lion: exit {code}\n{text}")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
