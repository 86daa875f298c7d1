"""Small models whose weights devices share, and what is checked of each: to train it in some way is to train it on one device.

Losses and weights agree to 1e-5, and a plan tells which weights lie in parts. A file that says its own placement gives that placement
again. Runs go on elsewhere and come back.
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
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

TOKENS, WIDTH, BATCH, STEPS = 6, 8, 8, 20


class Model:
    """Nodes and values are named by `name`, or numbered."""

    def __init__(self):
        self.nodes, self.tensors, self.random = [], [], numpy.random.default_rng(1)

    def tensor(self, name, values):
        self.tensors.append(values if isinstance(values, TensorProto) else numpy_helper.from_array(values, name))
        return name

    def drawn(self, *shape):
        return (self.random.standard_normal(shape) * shape[0] ** -0.5).astype(numpy.float32)

    def weight(self, name, *shape):
        return self.tensor(name, self.drawn(*shape))

    def constant(self, values):
        return self.tensor(f"constant{len(self.tensors)}", numpy.array(values, numpy.int64))

    def add(self, op, inputs, name=None, results=1, **attributes):
        name = name or f"{op}{len(self.nodes)}"
        outputs = [name] if results == 1 else [f"{name}.{i}" for i in range(results)]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=name, **attributes))
        return outputs[0] if results == 1 else outputs

    def runs(self, x, lengths):
        return self.add("Split", [x, self.constant(lengths)], results=len(lengths), axis=-1)

    def attention(self, x, weight, heads, keys, name="", nested=False):
        """Heads of two numbers; as many of keys and of values."""
        product = self.add("MatMul", [x, weight], name + "product")
        if nested:
            q, pair = self.runs(product, [2 * heads, 4 * keys])
            k, v = self.runs(pair, [2 * keys, 2 * keys])
        else:
            q, k, v = self.runs(product, [2 * heads, 2 * keys, 2 * keys])

        def by_heads(y, count):
            y = self.add("Transpose", [self.add("Reshape", [y, self.constant([0, 0, count, 2])])], perm=[0, 2, 1, 3])
            if count == heads:
                return y
            y = self.add("Expand", [self.add("Unsqueeze", [y, self.constant([2])]), self.constant([1, 1, heads // count, 1, 1])])
            return self.add("Reshape", [y, self.constant([0, heads, TOKENS, 2])])

        turned = self.add("Transpose", [by_heads(k, keys)], perm=[0, 1, 3, 2])
        shares = self.add("Softmax", [self.add("MatMul", [by_heads(q, heads), turned])], axis=-1)
        read = self.add("Transpose", [self.add("MatMul", [shares, by_heads(v, keys)])], perm=[0, 2, 1, 3])
        joined = self.add("Reshape", [read, self.constant([0, 0, 2 * heads])])
        return self.add("Add", [x, self.add("MatMul", [joined, self.weight(name + "proj", 2 * heads, WIDTH)])])

    def save(self, path, x):
        mean = self.add("ReduceMean", [x, self.constant([1])], keepdims=0)
        y = self.add("Add", [self.add("MatMul", [mean, self.weight("head", WIDTH, 5)]), self.weight("head.bias", 5)])
        graph = helper.make_graph(self.nodes, "fused", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", TOKENS, WIDTH])],
                                  [helper.make_tensor_value_info(y, TensorProto.FLOAT, ["N", 5])], self.tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, path)
        return path


TENSOR, MESH, ONE = "--devices cpu:0-1 --parallel tensor=2", "--devices cpu:0-3 --parallel data=2,tensor=2", "--devices cpu:0 --parallel="
DATA, ZERO = "--devices cpu:0-1 --parallel data=2", "--devices cpu:0-1 --parallel zero=3"
WAYS = [TENSOR, TENSOR + " --processes 2", MESH, MESH + ",zero=3", ZERO]
MERGED = ["--devices cpu:0-1 --merge cpu:0", "--devices cpu:0-1 --merge cpu:0 --processes 2", "--devices cpu:0-3 --merge cpu:3 --processes 2"]
# Each epoch in another way.
LIVES = [(TENSOR, ONE, TENSOR), (TENSOR, DATA, TENSOR), (DATA, TENSOR, DATA), (TENSOR + " --processes 2", MESH + ",zero=3", ONE)]


def tandem(*arguments):
    done = subprocess.run([TANDEM, *" ".join(map(str, arguments)).split()], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{arguments}: exit code {done.returncode}: {done.stderr}")
    return done


def weights(path):
    """What training has written: adapters, where they are in a file of their own, else the model's float tensors."""
    adapters = path.with_suffix(".onnx_adapter")
    if adapters.exists():
        file = onnxruntime.AdapterFormat.read_adapter(str(adapters))  # values lie in its memory
        return {name: value.numpy().copy() for name, value in file.get_parameters().items()}
    tensors = onnx.load(path).graph.initializer
    return {t.name: numpy_helper.to_array(t).astype(numpy.float64) for t in tensors if t.data_type == TensorProto.FLOAT}


def others(path):
    return {t.name: t.SerializeToString() for t in onnx.load(path).graph.initializer if t.data_type != TensorProto.FLOAT}


def check(name, way, got, wanted):
    off = {key: float(numpy.linalg.norm(got[key] - value) / numpy.linalg.norm(value)) for key, value in wanted.items()}
    key = max(off, key=off.get)
    if not off[key] < 1e-5:
        sys.exit(f"{name}, {way}: '{key}' differs by {off[key]:.1e}")
    return off[key]


class Check:
    """A model in a folder of its own, beside the data in `data`."""

    def __init__(self, data, name, build, options):
        m = Model()
        self.name, self.folder = name, data / name
        self.folder.mkdir()
        self.path = m.save(self.folder / f"{name}.onnx", build(m))
        rates = "" if "--optimizer" in options else "--momentum 0.9 --lr 0.05"
        planned, _, export = options.partition(" --lora-export ")
        self.planned = f"--batch-size {BATCH} {rates} {planned}"
        written = f"--lora-export {export}" if export else ""
        self.options = f"--data npz:{data}/data.npz --no-autotune --init keep --seed 3 {self.planned} {written}"

    def trained(self, way, model=None):
        out = self.folder / "out.onnx"
        done = tandem("train", model or self.path, self.options, way, "--steps", STEPS, "--run-dir none --json --output", out)
        if "--lora" not in self.options and others(out) != others(self.path):
            sys.exit(f"{self.name}, {way}: other tensors than float weights changed")
        steps = [json.loads(line) for line in done.stdout.splitlines()]
        return {"losses": numpy.array([step["loss"] for step in steps if step.get("event") == "step"]), **weights(out)}

    def plan(self, way, model=None):
        return json.loads(tandem("plan", model or self.path, self.planned, way, "--format json").stdout)

    def constants(self, way):
        """Elements on the first device, by name."""
        buffers = self.plan(way)["programs"][0]["buffers"]
        return {b["name"]: int(numpy.prod(b["shape"])) for b in buffers if b.get("constant") and len(b["shape"]) > 1}

    def ways(self, ways, split):
        """`split`: the parameters that tensor=2 has in parts, and the constants, each of which it has in halves."""
        plain = [p for p in self.plan(TENSOR)["parameters"] if p.get("role", "plain") == "plain"]
        found = {p["name"] for p in plain if any(part.get("ranges") for part in p["parts"])}
        whole, own = self.constants("--devices cpu:0"), self.constants(TENSOR)
        found |= {name for name, elements in own.items() if 2 * elements == whole.get(name)}
        if found != split:
            sys.exit(f"{self.name}: tensor=2 splits {found}, expected {split}")
        one = self.trained("--devices cpu:0")
        for way in [TENSOR, MESH]:
            if "--lora" not in self.planned:  # adapters are not in the file
                self.follows_its_file(way, one)
        for way in ways:
            print(f"{self.name}, {way}: {check(self.name, way, self.trained(way), one):.0e}")

    def follows_its_file(self, way, one):
        annotated, devices = self.folder / "annotated.onnx", " ".join(way.split()[:2])
        tandem("plan", self.path, self.planned, way, "--format onnx --annotate --output", annotated)
        onnx.checker.check_model(onnx.load(annotated))
        asked, again = self.plan(way), self.plan(devices, annotated)
        for said in (asked, again):  # how it was asked for
            for key in ("warnings", "hash", "record"):
                said.pop(key, None)
        if asked != again:
            sys.exit(f"{self.name}, {way}: its file gives another plan")
        check(self.name, way + ", by its file", self.trained(devices, annotated), one)

    def lives(self):
        run, out, one = self.folder / "run", self.folder / "lived.onnx", self.folder / "one.onnx"
        tandem("train", self.path, self.options, "--devices cpu:0 --epochs 3 --run-dir none --output", one)
        for number, (first, *others) in enumerate(LIVES):
            folder = f"{run}.{number}"
            tandem("train", self.path, self.options, first, "--epochs 1 --run-dir", folder, "--output", out)
            for epochs, way in enumerate(others, 2):
                tandem("train --resume --run-dir", folder, "--epochs", epochs, way)
            print(f"{self.name}, {first} and on: {check(self.name, (first, *others), weights(out), weights(one)):.0e}")


def run(rows, lives, told):
    """Rows: name, model, options, ways, and what tensor=2 has in parts. `lives`: names. `told`: name, way and what a warning says.

    Arguments of the script are names of rows; without, all are run.
    """
    folder = pathlib.Path(tempfile.mkdtemp())
    x = numpy.random.default_rng(2).standard_normal((BATCH * STEPS, TOKENS, WIDTH)).astype(numpy.float32)
    numpy.savez(folder / "data.npz", x=x, y=(x[:, 0, 0] > 0) * 2 + (x[:, 0, 1] > 0))
    checks = {}
    for name, build, options, ways, split in rows:
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        checks[name] = Check(folder, name, build, options)
        checks[name].ways(ways, split)
    for name in lives:
        if name in checks:
            checks[name].lives()
    for name, way, text in told:
        if name not in checks:
            continue
        said = checks[name].plan(way)["warnings"]
        if not any(text in warning for warning in said):
            sys.exit(f"{name}, {way}: expected '{text}' in: {said}")
    return checks
