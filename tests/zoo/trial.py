"""One variant of a row: what tandem makes of the file, beside PyTorch and ONNX Runtime."""
import ast
import functools
import json
import os
import pathlib
import re
import subprocess

import numpy
import onnx
import onnx.numpy_helper
import onnxruntime

from reference import BATCH, PREDICTED, STEPS, error_of, marks, reference, rounding
from zoo import TRACED, export

TOLERANCE, EXPORT_TOLERANCE = 1e-4, 1e-5
OUTPUT_TOLERANCE = 1e-2  # of the trained model's output, beside PyTorch's: rounding is multiplied by every step
MOST = 1e-3  # that is allowed where PyTorch's own float32 is no better
COLOUR = re.compile(r"\x1b\[\d+m")
SECONDS = 300  # that one run of the program may take
FELT = 2e-6  # a difference from the module that rounding does not make
OWN_FELT = 1e-3  # of one parameter's gradient alone
# Warnings that say that training differs from the module's; others tell what was inferred so that it does not.
ALARMS = ("the exporter computed", "the exporter fused", "the exporter left out", "the model's parameters", "the source of", "PyTorch's calls of")


class Fails(Exception):
    """What the program says, or where it differs."""


def tandem(*arguments):
    environment = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "TANDEM_RUN_DIR": "none", **os.environ}
    try:
        run = subprocess.run([os.environ["TANDEM"], *map(str, arguments)], capture_output=True, text=True, env=environment, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise Fails(f"tandem {arguments[0]} took more than {SECONDS} s") from None
    if run.returncode:
        raise Fails(f"tandem {arguments[0]}: exit code {run.returncode}: {' '.join(run.stderr.split())[:600]}")
    return run.stdout


def tensors_of(path):
    """Every float tensor of the file's graph: initializers, Constant nodes and lists of numbers in attributes."""
    graph = onnx.load(path).graph
    tensors = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            tensors[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
        if node.domain == "ai.onnx.ml":  # weights as attributes
            tensors.update({f"{node.name}.{a.name}": numpy.array(a.floats, dtype=numpy.float32) for a in node.attribute if a.floats})
    return {name: t for name, t in tensors.items() if t.dtype == numpy.float32}


def copies_of(path):
    """Names of tensors that the exporter notes as computed from one parameter p, and that hold p, c + p or c - p, or, of p alone, what an earlier one holds: they follow it."""
    tensors, found, first = tensors_of(path), set(), {}
    notes = {value.name: ast.literal_eval(entry.value) for value in onnx.load(path, load_external_data=False).graph.value_info
             for entry in value.metadata_props if entry.key == "pkg.onnxscript.optimizer.folded_from"}
    for name, copy in tensors.items():
        note = notes.get(name, ())
        originals = [tensors[n] for n in note if n in tensors and tensors[n].size > 1]
        if copy.size > 1 and len(note) == 1:
            first.setdefault(note[0], []).append(copy)
            originals = originals or first[note[0]][:-1]
        forms = [form for original in originals for form in (original, original.T, -original) if form.shape == copy.shape]
        if any(numpy.ptp(copy - form) <= 1e-6 * numpy.abs(copy).max() for form in forms):
            found.add(name)
    return found


def statistics_of(path):
    """Names of running means and variances."""
    return {name for node in onnx.load(path, load_external_data=False).graph.node if node.op_type == "BatchNormalization" for name in node.input[3:5]}


class Trial:
    def __init__(self, row, variant, folder, exports, count=STEPS):
        self.row, self.count = row, count
        self.exporter, self.batch = variant.split(".")
        self.folder = pathlib.Path(folder)
        self.file = pathlib.Path(exports) / f"{row.name}.{variant}.onnx"
        self.result = {"name": row.name, "family": row.family, "variant": variant}
        self.options = list(row.options)
        self.result["module"], self.otherwise, self.apart = {}, False, 0.0

    def run(self):
        """What was found out, as the table and the findings want it."""
        r = self.result
        try:
            if not self.file.exists():
                export(self.row, self.exporter, self.batch, self.file)
        except Exception as error:  # the exporter's own
            r["not_exported"] = f"{type(error).__name__}: {' '.join(COLOUR.sub('', str(error)).split())[:200]}"
            return r
        try:
            self.names = self.write_data()
            self.plan()
            r["imports"] = True
            wanted = self.wanted()
            self.first_step(wanted)
            self.steps(wanted)
            self.exported(wanted)
            self.told(wanted)
        except Fails as why:
            r["fails"] = str(why)
        return r

    def write_data(self):
        graph = onnx.load(self.file, load_external_data=False).graph
        held = {t.name for t in graph.initializer}
        names = [i.name for i in graph.input if i.name not in held]
        inputs, labels = self.row.data(self.count * BATCH)
        self.inputs = {name: inputs[name].numpy() for name in names}
        arrays = dict(self.inputs) if labels is None else {**self.inputs, "y": labels.numpy()}
        numpy.savez(self.folder / "data.npz", **arrays)
        return names

    def common(self):
        axis = ["--class-axis", self.row.class_axis] if self.row.class_axis > 0 else []
        return ["--loss", self.row.loss, "--batch-size", BATCH, *axis, *self.options]

    def plan(self):
        tied = []
        while True:
            found = json.loads(tandem("plan", self.file, "--format", "json", *self.common()))
            shared = [match[1] for match in (re.match(r"equal values that are trained apart: (.*); exporters", warning) for warning in found.get("warnings", ())) if match]
            if not shared:
                break
            tied += [pair for pair in shared[0].split(", ") if "=" in pair]  # of what the model shares and the file has twice it names some
            self.options = [*self.row.options, "--tie", ",".join(tied)]
        self.alarms = [warning for warning in found.get("warnings", ()) if warning.startswith(ALARMS) or "that overlap" in warning]
        self.picked = {name for warning in found.get("warnings", ()) for name in re.findall(r"^the exporter (?:looked up|computed) '([^']*)' (?:in|from) [^:]*:.* different rows", warning)}
        self.copies = copies_of(self.file) | {pair.split("=")[1] for option in self.options for pair in option.split(",") if "=" in pair}

    def wanted(self):
        kept = self.file.with_suffix(f".{self.count}.json")
        if not kept.exists() or "gradients" not in json.loads(kept.read_text()).get("module", ()):
            kept.write_text(json.dumps(reference(self.row, tensors_of(self.file), self.count)))
        return json.loads(kept.read_text())

    @functools.cached_property
    def rounding(self):
        return rounding(self.row, tensors_of(self.file), self.count, self.wanted())

    def train(self, steps, rate):
        """The losses; the trained model is trained.onnx."""
        lines = tandem("train", self.file, "--data", f"npz:{self.folder / 'data.npz'}", "--lr", rate, "--steps", steps, "--no-shuffle",
                       "--no-autotune", "--output", self.folder / "trained.onnx", "--quiet", "--json", *self.common())
        events = [json.loads(line) for line in lines.splitlines()]
        return [e for e in events if e["event"] == "step"]

    def compare(self, what, got, wanted, own, module):
        keras = self.row.family == "keras"  # whose models on PyTorch are no others in float64
        error, allowed = error_of(got, wanted), max(TOLERANCE, 0 if keras else 4 * (own or 0))
        if error > allowed and not keras:
            allowed = max(allowed, 4 * self.rounding[what])
        allowed = min(allowed, MOST)
        self.result[what] = error
        if not error <= allowed:
            self.result.setdefault("differs", []).append(f"{what} {got:.7g} in place of {wanted:.7g}")
        self.result["module"][what] = beside = error_of(got, module)
        self.otherwise = self.otherwise or not beside <= allowed
        self.apart = max(self.apart, beside)

    def told(self, wanted):
        """What trains otherwise than the module is warned of, and nothing else is; of files by torch.export, whose notes tell."""
        self.result["module"]["told"] = bool(self.alarms)
        if not self.exporter.startswith(("dynamo", "plain")):
            return
        if self.otherwise and not self.alarms:
            self.result.setdefault("differs", []).append("the module trains otherwise, and no warning says so")
        if self.alarms and self.apart < FELT:
            gradients = wanted["module"]["gradients"]
            if any(self.moves_otherwise(name, gradients.get(parameter)) for name, parameter in re.findall(r"'([^']*)' from '([^']*)'", " ".join(self.alarms))):
                return
            self.result.setdefault("differs", []).append("a false alarm: " + self.alarms[0])

    def first_step(self, wanted):
        """At a rate of 1 the weights change by the gradient."""
        own = wanted["own"] or {}
        loss = self.train(1, 1)[0]["loss"]
        self.result["trains"] = True
        self.compare("loss", loss, wanted["losses"][0], own.get("loss"), wanted["module"]["losses"][0])
        before, after, skip = tensors_of(self.file), tensors_of(self.folder / "trained.onnx"), statistics_of(self.file) | self.copies
        first = {n: n if n in before else n.split("@")[0] for n in after if n not in skip}  # NAME@2: what one reader of NAME trains by itself
        changed = [n for n, b in first.items() if b in before and b not in skip and not numpy.array_equal(after[n], before[b])]  # inf, too, is equal to itself
        square = sum((self.once(n, before[first[n]], self.one(after[n]).astype(numpy.float64) - self.one(before[first[n]])) ** 2).sum() for n in changed)
        self.compare("norm", float(numpy.sqrt(square)), wanted["norm"], own.get("norm"), wanted["module"]["norm"])

    def moves_otherwise(self, name, wanted):
        """Whether what the exporter computed from a parameter has another gradient than the parameter, `wanted`, which the whole model's may be too large to show.
        A step's rate is such that the tensor moves by about its own size."""
        before = tensors_of(self.file).get(name)
        if before is None or not wanted:
            return False
        before = before.astype(numpy.float64)
        rate = float(2.0 ** numpy.round(numpy.log2(numpy.linalg.norm(before) / wanted)))
        self.train(1, rate)
        moved = numpy.linalg.norm(tensors_of(self.folder / "trained.onnx")[name] - before) / rate
        return not abs(moved - wanted) <= OWN_FELT * wanted

    def once(self, name, before, change):
        """What the exporter looked up in a parameter counts as often as the parameter has it."""
        return change.reshape(-1)[numpy.unique(before, return_index=True)[1]] if name in self.picked else change

    def one(self, tensor):
        """A token that the exporter repeated for each sample of the batch is that token."""
        repeated = self.batch != "dyn" and tensor.ndim > 1 and len(tensor) == TRACED and (tensor == tensor[:1]).all()
        return tensor[:1] if repeated else tensor

    def steps(self, wanted):
        events = self.train(self.count, self.row.rate)
        losses, own = [e["loss"] for e in events], (wanted["own"] or {}).get("losses")
        worst = max(range(self.count), key=lambda i: error_of(losses[i], wanted["losses"][i]))
        self.compare("losses", losses[worst], wanted["losses"][worst], own, wanted["module"]["losses"][worst])
        self.result["samples_per_second"] = max(e["samples_per_second"] for e in events)

    def exported(self, wanted):
        """The trained model's output here, in ONNX Runtime, at the file's own batch, and in PyTorch's trained model."""
        if self.exporter.startswith("train") and statistics_of(self.file):
            return  # normalizes by the batch that ONNX Runtime is given
        if self.row.labels is None and not onnx.load(self.file, load_external_data=False).graph.output[0].type.tensor_type.shape.dim:
            return  # a loss over the whole batch has no rows that could be predicted
        n = TRACED if self.batch != "dyn" else BATCH
        arrays = {name: x[:n] for name, x in self.inputs.items()}
        numpy.savez(self.folder / "x.npz", **arrays)
        trained = self.folder / "trained.onnx"
        tandem("predict", trained, "--data", f"npz:{self.folder / 'x.npz'}", "--batch-size", n, "--output", self.folder / "y.npy", "--quiet")
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        try:
            by_runtime = onnxruntime.InferenceSession(str(trained), options, providers=["CPUExecutionProvider"]).run(None, arrays)[0]
        except Exception as error:
            self.result["onnx_runtime"] = str(error).split("\n")[0][:200]
            return
        got = numpy.load(self.folder / "y.npy")
        self.output(got, wanted)
        error = float(numpy.abs(got.reshape(by_runtime.shape) - by_runtime).max() / max(1e-30, numpy.abs(by_runtime).max()))
        self.result["export"] = error
        if not error <= EXPORT_TOLERANCE:
            self.result.setdefault("differs", []).append(f"its export differs from ONNX Runtime by {error:.1e}")

    def output(self, got, wanted):
        if not wanted.get("output") or len(got) < PREDICTED:
            return
        error = max(abs(a - b) for a, b in zip(marks(got[:PREDICTED]), wanted["output"]))
        self.result["output"] = error
        if not error <= max(OUTPUT_TOLERANCE, 4 * (wanted["own"] or {}).get("output", 0)):
            self.result.setdefault("differs", []).append(f"its trained output is {error:.1e} from PyTorch's")
