"""What the tests of the Python package share. The package is found by PYTHONPATH (the build folder's python/) or is installed."""
import pathlib

import numpy as np
import pytest

MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"


@pytest.fixture
def lenet():
    return str(MODELS / "lenet.onnx")


@pytest.fixture
def digits():
    """64 samples as LeNet takes them: float32 [64, 1, 28, 28], and classes int64 [64] that the pictures tell."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 64)
    x = rng.random((64, 1, 28, 28), dtype=np.float32) * 0.1
    for picture, label in zip(x, y):
        picture[0, 2 * label:2 * label + 3] += 1
    return x, y


@pytest.fixture
def quick():
    """Options that make a plan quickly and the same everywhere."""
    return {"devices": "cpu", "autotune": False, "deterministic": True, "init": "he-normal"}


@pytest.fixture
def two_towers(tmp_path):
    """A model of two inputs a [N, 3], b [N, 2] and two outputs: sum [N, 4] and difference [N, 4] of their products with wa, wb."""
    onnx = pytest.importorskip("onnx", reason="needs the onnx package to write a model")
    from onnx import TensorProto, helper, numpy_helper
    rng = np.random.default_rng(3)
    weights = [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in (("wa", (3, 4)), ("wb", (2, 4)))]
    info = lambda name, size: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size])
    nodes = [helper.make_node("MatMul", ["a", "wa"], ["pa"], "left"), helper.make_node("MatMul", ["b", "wb"], ["pb"], "right"),
             helper.make_node("Add", ["pa", "pb"], ["sum"], "add"), helper.make_node("Sub", ["pa", "pb"], ["difference"], "sub")]
    graph = helper.make_graph(nodes, "towers", [info("a", 3), info("b", 2)], [info("sum", 4), info("difference", 4)], weights)
    path = tmp_path / "towers.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return str(path)
