"""Runs every command of docs/training.md, in its order, on small files made here.

Exit code 3: a package is missing, 1: a command fails.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile

from program import TANDEM, needed

with needed():
    import numpy
    import onnx
    import pyarrow
    import pyarrow.parquet
    from PIL import Image, ImageDraw
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
KINDS = ["iris", "lily", "rose"]
random = numpy.random.default_rng(1)


def drawn(name, *shape):
    return numpy_helper.from_array((random.standard_normal(shape) / shape[0] ** 0.5).astype(numpy.float32), name)


def zeros(name, n):
    return numpy_helper.from_array(numpy.zeros(n, numpy.float32), name)


def save(path, nodes, x, outputs, weights):
    graph = helper.make_graph(nodes, path.stem, [helper.make_tensor_value_info("x", *x)],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def models(folder):
    hidden = [helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]), helper.make_node("Relu", ["h"], ["r"])]
    both = [drawn("w1", 4, 16), zeros("b1", 16)]
    rows = (TensorProto.FLOAT, ["N", 4])
    save(folder / "flowers.onnx", [*hidden, helper.make_node("Gemm", ["r", "w2", "b2"], ["y"])], rows, {"y": ["N", 3]}, [*both, drawn("w2", 16, 3), zeros("b2", 3)])
    save(folder / "two.onnx", [*hidden, helper.make_node("Gemm", ["r", "w2", "b2"], ["kind"]), helper.make_node("Gemm", ["r", "w3", "b3"], ["box"])], rows,
         {"kind": ["N", 3], "box": ["N", 2]}, [*both, drawn("w2", 16, 3), zeros("b2", 3), drawn("w3", 16, 2), zeros("b3", 2)])
    save(folder / "words.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], (TensorProto.FLOAT, ["N", 8, 4]), {"y": ["N", 8, 5]}, [drawn("w", 4, 5)])
    save(folder / "letters.onnx", [helper.make_node("Gather", ["e", "x"], ["g"]), helper.make_node("MatMul", ["g", "w"], ["y"])],
         (TensorProto.INT64, ["N", 16]), {"y": ["N", 16, 256]}, [drawn("e", 256, 16), drawn("w", 16, 256)])


    tokens = [helper.make_tensor_value_info(name, TensorProto.INT64, ["N", "T"]) for name in ("ids", "attention_mask")]
    nodes = [helper.make_node("Gather", ["e", "ids"], ["g"]), helper.make_node("Cast", ["attention_mask"], ["f"], to=TensorProto.FLOAT),
             helper.make_node("Unsqueeze", ["f", "two"], ["m"]), helper.make_node("Mul", ["g", "m"], ["kept"]), helper.make_node("ReduceSum", ["kept", "one"], ["sum"], keepdims=0),
             helper.make_node("ReduceSum", ["m", "one"], ["count"], keepdims=0), helper.make_node("Div", ["sum", "count"], ["mean"]), helper.make_node("MatMul", ["mean", "w"], ["y"])]
    weights = [drawn("e", 50, 16), drawn("w", 16, 3), *(numpy_helper.from_array(numpy.array([v]), name) for v, name in ((1, "one"), (2, "two")))]
    graph = helper.make_graph(nodes, "sentences", tokens, [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "sentences.onnx")


def other_inputs(folder):
    def file(name, nodes, inputs, output, weights):
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in inputs.items()]
        graph = helper.make_graph(nodes, name, inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)], weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / f"{name}.onnx")

    nodes = [helper.make_node("GRU", ["x", "w", "r", "", "", "h0"], ["steps"], hidden_size=8), helper.make_node("Squeeze", ["steps", "one"], ["s"]),
             helper.make_node("MatMul", ["s", "v"], ["y"])]
    file("recurrent", nodes, {"x": [7, "N", 4], "h0": [1, "N", 8]}, [7, "N", 3],
         [drawn("w", 1, 24, 4), drawn("r", 1, 24, 8), drawn("v", 8, 3), numpy_helper.from_array(numpy.array([1]), "one")])
    file("scaled", [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Div", ["h", "temperature"], ["y"])],
         {"x": ["N", 4], "temperature": []}, ["N", 3], [drawn("w", 4, 3)])
    numpy.savez(folder / "steps.npz", x=random.standard_normal((40, 7, 4)).astype(numpy.float32), y=random.integers(0, 3, (40, 7)))


def losses(folder):
    def file(name, nodes, shape):
        inputs = [helper.make_tensor_value_info("pred", TensorProto.FLOAT, ["N", "C"]), helper.make_tensor_value_info("target", TensorProto.INT64, ["N"])]
        graph = helper.make_graph(nodes, name, inputs, [helper.make_tensor_value_info("result", TensorProto.FLOAT, shape)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / f"{name}.onnx")

    file("my_loss", [helper.make_node("SoftmaxCrossEntropyLoss", ["pred", "target"], ["result"])], [])
    file("my_accuracy", [helper.make_node("ArgMax", ["pred"], ["best"], axis=1, keepdims=0), helper.make_node("Equal", ["best", "target"], ["right"]),
                         helper.make_node("Cast", ["right"], ["result"], to=TensorProto.FLOAT)], ["N"])


def tables(folder):
    kinds = numpy.arange(120) % 3
    x = (random.standard_normal((120, 4)) + 2 * numpy.eye(4)[kinds]).astype(numpy.float32)
    names = [KINDS[k] for k in kinds]
    (folder / "flowers.csv").write_text("\n".join([",".join([*COLUMNS, "species"]), *(",".join([*map(str, r), n]) for r, n in zip(x, names))]) + "\n")
    (folder / "flowers.jsonl").write_text("".join(json.dumps({"numbers": r.tolist(), "species": n}) + "\n" for r, n in zip(x, names)))
    sentences = [random.integers(1, 50, random.integers(1, 33)).tolist() for _ in kinds]
    (folder / "sentences.jsonl").write_text("".join(json.dumps({"ids": ids, "kind": n}) + "\n" for ids, n in zip(sentences, names)))
    for i in range(2):
        part = slice(60 * i, 60 * i + 60)
        pyarrow.parquet.write_table(pyarrow.table({**{c: x[part, k] for k, c in enumerate(COLUMNS)}, "species": names[part]}), folder / f"flowers-{i}.parquet")
    numpy.savez(folder / "flowers.npz", x=x, y=kinds)
    numpy.save(folder / "x.npy", x)
    numpy.save(folder / "y.npy", kinds)
    numpy.savez(folder / "two.npz", x=x, y_kind=kinds, y_box=x[:, :2] * 2)
    words = numpy.where(numpy.arange(3) < random.integers(0, 4, (40, 1)), random.integers(1, 5, (40, 3)), -1)
    numpy.savez(folder / "words.npz", x=random.standard_normal((40, 8, 4)).astype(numpy.float32), y=words)
    (folder / "book.txt").write_bytes((ROOT / "docs/architecture.md").read_bytes()[:20000])


def images(folder):
    for part, count in (("train", 12), ("val", 3)):
        for digit in range(10):
            place = folder / "digits" / part / str(digit)
            place.mkdir(parents=True)
            for i in range(count):
                image = Image.new("L", (30 + i, 32))
                ImageDraw.Draw(image).text((8 + int(random.integers(5)), 6 + int(random.integers(8))), str(digit), fill=255)
                image.save(place / f"{i}.{'png' if i % 2 else 'jpg'}")
    for shard in range(2):
        with tarfile.open(folder / f"digits-{shard}.tar", "w") as tar:
            for i, file in enumerate(sorted((folder / "digits/train").rglob("*.jpg"))[shard::2]):
                label = folder / "label"
                label.write_text(file.parent.name)
                tar.add(file, f"{i}{file.suffix}")
                tar.add(label, f"{i}.cls")


def commands():
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs/training.md").read_text(), re.M | re.S)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]


def main():
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    environment.pop("TANDEM_RUN_DIR", None)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "models").symlink_to(ROOT / "models")
        for make in (models, other_inputs, losses, tables, images):
            make(folder)
        failed = 0
        for command in commands():
            words = shlex.split(command)
            if words[0] != "tandem":
                sys.exit(f"docs/training.md: only tandem is run here: {command}")
            run = subprocess.run([TANDEM, *words[1:]], cwd=folder, env=environment, capture_output=True, text=True, errors="replace")
            print(f"{'ok' if run.returncode == 0 else 'FAILS (' + str(run.returncode) + ')'}  {command}", flush=True)
            if run.returncode:
                print(run.stdout + run.stderr)
                failed += 1
        print(f"{len(commands())} commands, {failed} failed")
        return failed > 0


sys.exit(main())
