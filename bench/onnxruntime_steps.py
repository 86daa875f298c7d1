#!/usr/bin/env python3
"""Times training steps of an ONNX file in ONNX Runtime Training and prints one JSON line, as bench/pytorch_steps.py does.

    python3 -m venv build/venv-ort
    build/venv-ort/bin/pip install onnxruntime-training==1.19.2 'onnx<1.17' 'numpy<2' 'protobuf<5'
    build/venv-ort/bin/python bench/onnxruntime_steps.py --model models/lenet.onnx --batch 128 --threads 2

The training artifacts are made first, by a process of its own so that its memory counts nowhere: weights without values
get He et al.'s, BatchNormalization and Dropout train. ONNX Runtime's SGD has no momentum, so that its update reads and writes
less than the others'. It has no mixed precision on CPUs.
"""
import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import types

import numpy
import onnxruntime

# Front ends for PyTorch, which the package imports and would need PyTorch for: nothing here uses them.
for name in ("optim", "amp"):
    sys.modules[f"onnxruntime.training.{name}"] = types.ModuleType(name)
sys.modules["onnxruntime.training.ortmodule"] = None


def peak_rss():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def with_weights(graph):
    """The ConstantOfShape nodes that stand for weights in models/ become initializers, and all matrices get random values."""
    from onnx import numpy_helper
    random = numpy.random.default_rng(0)
    values = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    empty = [n for n in graph.node if n.op_type == "ConstantOfShape" and n.input[0] in values]
    for node in empty:
        shape = values[node.input[0]]
        value = numpy_helper.to_array(node.attribute[0].t) if node.attribute else numpy.zeros(1, numpy.float32)
        weight = numpy.full(shape, value, numpy.float32)
        if len(shape) > 1:
            weight = (random.standard_normal(shape) * (2 * shape[0] / weight.size) ** 0.5).astype(numpy.float32)
        graph.initializer.append(numpy_helper.from_array(weight, node.output[0]))
        graph.node.remove(node)


def in_training_mode(graph):
    """What only training has: running statistics, Dropout's switch, and the outputs that gradients read."""
    from onnx import helper, numpy_helper
    for node in graph.node:
        if node.op_type == "BatchNormalization":
            node.attribute.append(helper.make_attribute("training_mode", 1))
            node.output.extend([node.input[3] + ".next", node.input[4] + ".next"])
        if node.op_type == "Dropout":
            graph.initializer.append(numpy_helper.from_array(numpy.array(True), node.name + ".training"))
            node.input.append(node.name + ".training")
            node.output.append(node.name + ".mask")
        if node.op_type == "LayerNormalization":
            node.output.extend([node.output[0] + ".mean", node.output[0] + ".inverse"])


def with_global_pools(model):
    """AveragePool over the whole image becomes GlobalAveragePool: the gradient of the former crashes (1.19.2)."""
    import onnx
    sizes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim[2:]]
             for v in onnx.shape_inference.infer_shapes(model).graph.value_info}
    for node in model.graph.node:
        if node.op_type == "AveragePool" and set(sizes.get(node.output[0], [0])) == {1}:
            node.op_type = "GlobalAveragePool"
            del node.attribute[:]


def make_artifacts(path, folder):
    import onnx
    from onnxruntime.training import artifacts
    model = onnx.load(path)
    with_global_pools(model)
    graph = model.graph
    with_weights(graph)
    in_training_mode(graph)
    statistics_ = {name for n in graph.node if n.op_type == "BatchNormalization" for name in n.input[3:5]}
    weights = [i.name for i in graph.initializer
               if i.data_type == onnx.TensorProto.FLOAT and i.name not in statistics_ and len(i.dims) > 0 and is_weight(i)]
    # All positions of a sample are rows of one cross-entropy.
    loss = artifacts.LossType.CrossEntropyLoss
    output = graph.output[0]
    classes = output.type.tensor_type.shape.dim[-1].dim_value
    if len(output.type.tensor_type.shape.dim) > 2:
        rows = onnx.helper.make_tensor("rows.shape", onnx.TensorProto.INT64, [2], [-1, classes])
        graph.initializer.append(rows)
        graph.node.append(onnx.helper.make_node("Reshape", [output.name, "rows.shape"], ["rows"], name="rows"))
        graph.output.remove(output)
        graph.output.append(onnx.helper.make_tensor_value_info("rows", onnx.TensorProto.FLOAT, ["rows", classes]))
    artifacts.generate_artifacts(model, requires_grad=weights, loss=loss, optimizer=artifacts.OptimType.SGD,
                                 artifact_directory=folder)
    (pathlib.Path(folder) / "classes").write_text(str(classes))


def is_weight(initializer):
    """Exporters name weights by their module ("0.weight", "1.table") or by a number of their own, and constants by their node."""
    return not initializer.name.startswith("/") and "Constant" not in initializer.name


def make_batch(path, batch, classes):
    """Noise for images, ids for tokens; labels by the output's shape."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    random = numpy.random.default_rng(1)
    given, wanted = session.get_inputs()[0], session.get_outputs()[0]
    shape = [batch, *given.shape[1:]]
    if given.type == "tensor(int64)":
        x = random.integers(0, 8192, shape, numpy.int64)
    else:
        x = random.standard_normal(shape).astype(numpy.float32)
    labels = random.integers(0, classes, batch * int(numpy.prod(wanted.shape[1:-1])), numpy.int64)
    return x, labels


def main():
    base_rss = peak_rss()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="ONNX file")
    parser.add_argument("--artifacts", help="only make the training artifacts, in this folder")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    if arguments.artifacts:
        make_artifacts(arguments.model, arguments.artifacts)
        return

    from onnxruntime.training import api
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([sys.executable, __file__, "--model", arguments.model, "--artifacts", folder], capture_output=True, text=True)
        if made.returncode != 0:
            sys.exit(made.stderr)
        classes = int((pathlib.Path(folder) / "classes").read_text())
        x, labels = make_batch(arguments.model, arguments.batch, classes)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = arguments.threads
        options.log_severity_level = 3  # errors
        state = api.CheckpointState.load_checkpoint(f"{folder}/checkpoint")
        module = api.Module(f"{folder}/training_model.onnx", state, session_options=options)
        optimizer = api.Optimizer(f"{folder}/optimizer_model.onnx", module)
    optimizer.set_learning_rate(1e-3)
    module.train()
    milliseconds = []
    for number in range(-arguments.warmup, arguments.steps):
        begin = time.perf_counter()
        loss = module(x, labels)
        optimizer.step()
        module.lazy_reset_grad()
        if number >= 0:
            milliseconds.append(1e3 * (time.perf_counter() - begin))
    median = statistics.median(milliseconds)
    print(json.dumps({
        "program": f"onnxruntime-training {onnxruntime.__version__}", "model": arguments.model, "batch": arguments.batch,
        "precision": "fp32", "threads": arguments.threads, "steps": arguments.steps, "median_ms": median,
        "min_ms": min(milliseconds), "samples_per_second": 1e3 * arguments.batch / median, "loss": float(loss),
        "base_rss_bytes": base_rss, "peak_rss_bytes": peak_rss(), "device_bytes": 0,
    }))


if __name__ == "__main__":
    main()
