"""One export: what PyTorch's model is, and what tandem makes of the file."""
import fnmatch
import functools
import json
import os
import subprocess

import numpy
import onnx
import onnx.numpy_helper
import onnxruntime
import torch

from architecture import as_exported
from export_models import ARCHITECTURES, BATCHES, export
from known_failures import NOT_FOR_ONNX_RUNTIME

TOLERANCE = 1e-5  # of the largest value of a tensor, or of a loss
STEPS, BATCH = 3, 4
CHECKS = ("list", "steps", "rows")


class Differs(Exception):
    """What tandem gives is not what PyTorch gives."""


def require(condition, *words):
    if not condition:
        raise Differs(" ".join(str(w) for w in words))


def tandem(*arguments):
    """The program's standard output; its message where it fails."""
    environment = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "TANDEM_RUN_DIR": "none", **os.environ}
    run = subprocess.run([os.environ["TANDEM"], *map(str, arguments)], capture_output=True, text=True, env=environment)
    message = " ".join(run.stderr.split())
    require(run.returncode == 0, f"tandem {arguments[0]}: exit code {run.returncode}: {message[:300]}")
    return run.stdout


def error_of(got, wanted):
    got, wanted = numpy.asarray(got, dtype=numpy.float64), numpy.asarray(wanted, dtype=numpy.float64)
    require(got.shape == wanted.shape, "shape", got.shape, "in place of", wanted.shape)
    return float(numpy.abs(got - wanted).max() / max(1e-30, numpy.abs(wanted).max())) if wanted.size else 0.0


def tensors_of(path):
    """Every float tensor in the file: initializers and Constant nodes."""
    graph = onnx.load(path).graph
    tensors = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            tensors[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
    return {name: t for name, t in tensors.items() if t.dtype == numpy.float32}


def order_in(tensor, values):
    """For each element of `tensor` its place in `values`, both flat; None where they do not hold the same values.

    Exporters rename, turn and reshape weights: the same numbers in another order are the same weight. A token that was
    repeated for each sample of the exported batch is that token."""
    copies = tensor.size // max(1, values.size)
    if tensor.size != copies * values.size or copies == 0:
        return None
    rows = tensor.reshape(copies, -1)
    if (rows != rows[0]).any() or (copies > 1 and tensor.shape[0] != copies):
        return None
    if (copies > 1 or tensor.shape == values.shape) and numpy.allclose(rows[0], values.reshape(-1), rtol=1e-5, atol=1e-6):
        return numpy.tile(numpy.arange(values.size), copies)
    if copies > 1 or not numpy.array_equal(numpy.sort(tensor, axis=None), numpy.sort(values, axis=None)):
        return None
    order = numpy.empty(tensor.size, dtype=numpy.int64)
    order[numpy.argsort(tensor, axis=None, kind="stable")] = numpy.argsort(values, axis=None, kind="stable")
    return order


class Trial:
    """Runs the checks of one export. `options`: what the file cannot say, for the program; `notes`: for the table."""

    def __init__(self, name, folder, exports):
        self.name, self.folder = name, folder
        architecture, self.exporter, self.batch = name.split(".")
        self.row = ARCHITECTURES[architecture]
        self.file = (exports or folder) / f"{name}.onnx"
        if not self.file.exists():
            export(name, self.file)
        self.tensors = tensors_of(self.file)
        self.options = []   # --freeze and --constant: what a file cannot say
        self.merged = []    # tensors that are several parameters of equal values
        self.notes = set()

    def holds(self, values):
        return any(order_in(t, values.detach().numpy()) is not None for t in self.tensors.values())

    def reference(self):
        model = self.row.model()
        if self.exporter == "torchscript_train":  # tracing has run the model once, which moved its statistics
            with torch.no_grad():
                model.train()(self.row.data(BATCHES[self.batch])[0])
        return as_exported(model.eval(), self.holds)

    def planned(self):
        plan = json.loads(tandem("plan", self.file, "--batch-size", BATCH, "--loss", self.row.loss, "--format", "json", *self.options))
        return [p["name"] for p in plan["parameters"] if p["trainable"]]

    def values(self, name):
        """Of a tensor of the file, or of what was told apart from it (NAME@2, or a parameter that the exporter merged with it); nothing where there is none."""
        held = self.tensors.get(name.partition("@")[0])
        if held is None and name in self.named:
            wanted = self.named[name].detach().numpy()
            held = next((t for t in self.tensors.values() if t.shape == wanted.shape and numpy.allclose(t, wanted, rtol=1e-5, atol=1e-6)), None)
        return held

    @functools.cached_property
    def named(self):
        model = self.reference()
        return dict([*model.named_parameters(), *model.named_buffers()])

    def tensors_of_model(self, name, candidates):
        """Those whose values the file's tensor holds."""
        return [n for n, values in candidates.items() if order_in(self.values(name), values) is not None]

    def matches(self, trained, parameters):
        """(tensor, parameter) for every trained tensor that holds a parameter's values, and the names of the others."""
        for name in trained:
            require(self.values(name) is not None, f"'{name}' is trained but is no tensor of the file")
        candidates = {n: p.detach().numpy() for n, p in parameters.items()}
        fits = {name: self.tensors_of_model(name, candidates) for name in trained}
        pairs = [(name, p) for name, found in fits.items() for p in ([name] if name in found else found)]
        found = {p for _, p in pairs}
        pairs += [(name, p) for name in fits for p in fits[name] if p not in found]  # merged by the exporter
        if any(name != p for name, p in pairs):
            self.notes.add("renamed")
        if any(self.values(name).shape != tuple(parameters[p].shape) for name, p in pairs):
            self.notes.add("turned")
        return pairs, [name for name in trained if not fits[name]]

    def check_list(self):
        parameters = dict(self.reference().named_parameters())
        trained = self.planned()
        rows = json.loads(tandem("summary", self.file, "--weights", "--json"))["weights"]
        own = [row["name"] for row in rows if row["is"] == "trained" and "which it follows" not in row["reason"]]  # not a copy of another
        require(sorted(trained) == sorted(own), "summary --weights lists other tensors")
        pairs, others = self.matches(trained, parameters)
        missing = sorted(set(parameters) - {p for _, p in pairs})
        require(not missing, "not trained:", ", ".join(missing))
        kind = f"{self.exporter}.{self.batch}"
        assumed = sorted(next((shapes for pattern, shapes in self.row.assumed.items() if fnmatch.fnmatch(kind, pattern)), []))
        shapes = sorted(self.tensors[name].shape for name in others)
        require(shapes == assumed, "trained, but no parameter:", ", ".join(f"{n} {self.tensors[n].shape}" for n in others) or "nothing",
                "where the rule takes", assumed or "nothing")
        self.say_what_files_do_not(pairs, others, parameters)
        if self.options:
            pairs, others = self.matches(self.planned(), parameters)
            require(not others, "with", *self.options, "still trained:", *others)
            got, wanted = {p for _, p in pairs}, {p for p, v in parameters.items() if v.requires_grad}
            require(got == wanted, "with", *self.options, "these differ:", *sorted(got ^ wanted))

    def say_what_files_do_not(self, pairs, others, parameters):
        """Options for what PyTorch knows and the file does not: buffers, frozen, tied and merged parameters."""
        if others:
            self.options += ["--constant", ",".join(others)]
        frozen = [name for name, p in pairs if not parameters[p].requires_grad]
        if frozen:
            self.options += ["--freeze", ",".join(frozen)]
        for p in sorted({p for _, p in pairs}):
            first, *copies = [name for name, q in pairs if q == p and "@" not in name] or [""]  # what tandem told apart is alike until it trains
            for copy in copies:
                self.notes.add("untied")
                self.options += ["--tie", f"{first}={copy}"]
        self.merged = sorted({name.partition("@")[0] for name, _ in pairs if sum(name == n for n, _ in pairs) > 1})
        if self.merged:
            self.notes.add("merged")
            self.options += ["--untie", ",".join(self.merged)]

    def check_steps(self):
        model = self.reference().train()
        x, y = self.row.data(STEPS * BATCH)
        numpy.savez(self.folder / "data.npz", x=x.numpy(), y=y.numpy())
        tensors = {n: t.detach() for n, t in [*model.named_parameters(), *model.named_buffers()] if t.dtype == torch.float32}
        before = {n: t.numpy().copy() for n, t in tensors.items()}
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=self.row.rate)
        losses = []
        for i in range(STEPS):
            rows = slice(i * BATCH, (i + 1) * BATCH)
            optimizer.zero_grad()
            loss = self.row.loss_of(model(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())

        output = self.folder / "trained.onnx"
        lines = tandem("train", self.file, "--data", f"npz:{self.folder / 'data.npz'}", "--loss", self.row.loss, "--lr", self.row.rate,
                       "--batch-size", BATCH, "--steps", STEPS, "--no-shuffle", "--no-autotune", "--output", output, "--quiet", "--json",
                       *self.options)
        events = [json.loads(line) for line in lines.splitlines()]
        got = [e["loss"] for e in events if e["event"] == "step"]
        error = error_of(got, losses)
        require(error <= TOLERANCE, f"losses {got} in place of {losses}")
        trained = tensors_of(output)
        made = {name for name in trained if name not in self.tensors and self.values(name) is not None}  # what was told apart
        require(trained.keys() - made == self.tensors.keys(), "the export has other tensors than the template")
        worst, seen = (error, "loss"), set()
        for name in trained:
            first, merged = self.values(name), name.partition("@")[0] in self.merged
            keys = [name] if name in before and not merged else self.tensors_of_model(name, before)
            errors = []
            for key in keys:
                order = order_in(first, before[key])
                if order is not None:
                    wanted = tensors[key].numpy().reshape(-1)[order].reshape(first.shape)
                    errors.append((error_of(trained[name], wanted), f"{name} ({key})", key))
            if merged:  # it is one of these; that each of them is there is seen below
                errors = [min(errors)]
            seen.update(key for _, _, key in errors)
            worst = max([worst, *((error, words) for error, words, _ in errors)])
            require(keys or numpy.array_equal(trained[name], first), f"'{name}' changed, but is no parameter or statistic")
        unseen = sorted(key for key in before.keys() - seen if not numpy.array_equal(before[key], tensors[key].numpy()))
        require(not unseen, "PyTorch changes what was not found in the file:", *unseen)
        require(worst[0] <= TOLERANCE, f"{worst[1]} differs by {worst[0]:.1e}")
        self.notes.add(f"{worst[0]:.0e}")

    def check_rows(self):
        model = self.reference().eval()
        x, _ = self.row.data(4)
        numpy.save(self.folder / "x.npy", x.numpy())
        with torch.no_grad():
            wanted = model(x).numpy()
        for batch in (1, 3, 4):
            tandem("predict", self.file, "--data", self.folder / "x.npy", "--batch-size", batch, "--output", self.folder / "y.npy", "--quiet")
            got = numpy.load(self.folder / "y.npy")
            error = error_of(got.reshape(wanted.shape) if got.size == wanted.size else got, wanted)
            require(error <= TOLERANCE, f"predictions at batch {batch} differ by {error:.1e}")
        runs = not any(fnmatch.fnmatch(self.file.stem, pattern) for pattern in NOT_FOR_ONNX_RUNTIME)
        if runs and self.exporter != "torchscript_train":  # which normalises by the batch that ONNX Runtime is given
            error = error_of(self.by_onnx_runtime(x.numpy()), wanted)
            require(error <= TOLERANCE, f"ONNX Runtime and PyTorch differ by {error:.1e}: the exporter's fault")

    def by_onnx_runtime(self, x):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(self.file), options, providers=["CPUExecutionProvider"])
        step = len(x) if self.batch == "dyn" else BATCHES[self.batch]
        return numpy.concatenate([session.run(None, {"x": x[i:i + step]})[0] for i in range(0, len(x), step)])

    def run(self):
        """{check: "" where it agrees, else why not}."""
        results = {}
        for check in CHECKS:
            try:
                getattr(self, f"check_{check}")()
                results[check] = ""
            except Differs as why:
                results[check] = str(why)
        return results
