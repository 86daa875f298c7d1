"""Device configurations (ONNX IR 11) as the onnx package alone writes them: models train by them as on one device.

Exit code 3: a package is missing, 1: a model trains otherwise.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from program import TANDEM, needed

with needed():
    import numpy
    import onnx
    import onnx_ir
    from onnx import TensorProto, helper, numpy_helper
if not hasattr(onnx, "DeviceConfigurationProto"):
    print("onnx has no device configurations")
    sys.exit(3)

random = numpy.random.default_rng(1)


def weight(name, *shape):
    return numpy_helper.from_array((random.standard_normal(shape) / shape[0] ** 0.5).astype(numpy.float32), name)


def model():
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h1"], name="up"), helper.make_node("Add", ["h1", "b1"], ["h2"], name="bias"),
             helper.make_node("Relu", ["h2"], ["h3"], name="relu"), helper.make_node("MatMul", ["h3", "w2"], ["y"], name="down")]
    graph = helper.make_graph(nodes, "layers", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 12])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])], [weight("w1", 12, 32), weight("b1", 32), weight("w2", 32, 4)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=11)


def configured(proto, devices):
    c = proto.configuration.add()
    c.name, c.num_devices = "c", devices
    said = {}
    for node in proto.graph.node:
        said[node.name] = node.device_configurations.add()
        said[node.name].configuration_id = "c"
    return said


def shard(node, tensor, axis, devices, groups=()):
    """`groups`: of devices, one a part; else a device has one."""
    spec = node.sharding_spec.add()
    spec.tensor_name = tensor
    for number, group in enumerate(groups, 1):
        entry = spec.index_to_device_group_map.add()
        entry.key = -number
        entry.value.extend(group)
    spec.device.extend([-n for n in range(1, len(groups) + 1)] or devices)
    dim = spec.sharded_dim.add()
    dim.axis = axis
    dim.simple_sharding.add().num_shards = len(groups) or len(devices)


def layers(proto, devices, groups=()):
    said = configured(proto, devices)
    numbers = list(range(devices))
    shard(said["up"], "w1", 1, numbers, groups)
    shard(said["bias"], "b1", 0, numbers, groups)
    shard(said["down"], "w2", 0, numbers, groups)


def samples(proto):
    shard(configured(proto, 2)["up"], "x", 0, [0, 1])


def stages(proto, first):
    for name, node in configured(proto, 2).items():
        node.pipeline_stage = first + (name == "down")


WAYS = {"layers": lambda m: layers(m, 2), "layers_and_copies": lambda m: layers(m, 4, [(0, 2), (1, 3)]), "samples": samples,
        "stages_from_0": lambda m: stages(m, 0), "stages_from_1": lambda m: stages(m, 1)}


def train(folder, path, devices, name, *options):
    out = folder / (name + ".onnx")
    done = subprocess.run([TANDEM, "train", path, "--data", f"npz:{folder}/data.npz", "--devices", devices, "--steps", "20", "--batch-size", "16", "--lr", "0.05", "--momentum",
                           "0.9", "--no-shuffle", "--no-autotune", "--init", "keep", "--run-dir", "none", "--json", "--output", out, *options], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr}")
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    losses = [step["loss"] for step in steps if step.get("event") == "step"]
    return losses, {w.name: numpy_helper.to_array(w) for w in onnx.load(out).graph.initializer}, done.stderr


def main():
    folder = pathlib.Path(tempfile.mkdtemp())
    x = random.standard_normal((320, 12)).astype(numpy.float32)
    numpy.savez(folder / "data.npz", x=x, y=(x[:, 0] > 0) * 2 + (x[:, 1] > 0))
    base = model()
    onnx.save(base, folder / "base.onnx")
    wanted, weights, _ = train(folder, folder / "base.onnx", "cpu:0", "one")
    for name, annotate in WAYS.items():
        proto = onnx.ModelProto()
        proto.CopyFrom(base)
        annotate(proto)
        onnx.checker.check_model(proto, full_check=True)
        onnx.save(proto, folder / "annotated.onnx")
        devices = f"cpu:0-{proto.configuration[0].num_devices - 1}"
        losses, got, said = train(folder, folder / "annotated.onnx", devices, name)
        assert "device configuration 'c'" in said, said
        assert numpy.allclose(losses, wanted, rtol=0, atol=1e-5 * wanted[0]), (name, losses[-1], wanted[-1])
        for w, value in weights.items():
            off = numpy.linalg.norm(got[w] - value) / numpy.linalg.norm(value)
            assert off < 1e-5, (name, w, off)
        kept = onnx.load(folder / (name + ".onnx"))
        assert kept.configuration == proto.configuration, name
        assert [n.device_configurations for n in kept.graph.node] == [n.device_configurations for n in proto.graph.node], name
        print(f"{name}: {devices}, last loss {losses[-1]:.6f}")
    # What tandem writes onnx_ir reads and writes again without a change.
    subprocess.run([TANDEM, "plan", folder / "base.onnx", "--devices", "cpu:0-1", "--parallel", "tensor=2", "--format", "onnx", "--annotate", "--output", folder / "a.onnx"], check=True)
    written = onnx.load(folder / "a.onnx")
    onnx.checker.check_model(written, full_check=True)
    again = onnx_ir.to_proto(onnx_ir.from_proto(written))
    assert again.configuration == written.configuration
    assert [n.device_configurations for n in again.graph.node] == [n.device_configurations for n in written.graph.node]


main()
