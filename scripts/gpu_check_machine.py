"""What all checks of gpu-check share: the bundle's programs, what they print, and how results are compared."""
import json
import math
import pathlib
import re
import statistics
import sys

from gpu_check_report import Job

COMMUNICATION = 6  # exit status of the program
MEBI = 1 << 20
LIMIT = 1200  # seconds of one program
# What a machine, not the program, refuses.
REFUSALS = ["Device not supported", "Duplicate GPU detected", "Sanitizer is not supported"]
PRECISIONS = ["bf16", "fp32", "fp16", "tf32"]
# Of a loss curve against the CPU's: relative difference of the first steps, and of the mean of the last ones.
CURVE = {"fp32": (1e-3, 0.05), "tf32": (1e-2, 0.1), "bf16": (3e-2, 0.1), "fp16": (3e-2, 0.1)}
SGD = ["--lr", "0.02", "--momentum", "0.9"]
# Networks that models/ does not hold: gpu-bundle exports them where it finds PyTorch, else gpu-check does, by --python.
EXPORTED = ["bert_mini", "gpt_mini", "bert_base", "gpt2_small"]
OPTIONS = {"gpt_mini": ["--class-axis", "2"], "gpt2_small": ["--class-axis", "2"]}


class NoGpu(Exception):
    pass


class Skipped(Exception):
    """A check that this machine, or this bundle, has nothing for."""


def file_name(name):
    return re.sub(r"[^a-zA-Z0-9]+", "-", name)


def json_lines(text):
    values = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                values.append(json.loads(line))
            except ValueError:  # a program was stopped in the middle of a line
                pass
    return values


def last_line(text, status):
    lines = text.strip().splitlines()
    return f"{lines[-1]} (status {status})" if lines else f"status {status}"


def failed(text, status):
    """A failure, or a refusal by the machine."""
    refusal = next((r for r in REFUSALS if r in text), "")
    return ("refused", refusal) if refusal else ("FAILED", last_line(text, status))


def loss_curve(text):
    return [e["loss"] if e["loss"] is not None else math.nan for e in json_lines(text) if e.get("event") == "step"]


def worst(got, wanted):
    """The largest relative difference; not a number, which nothing is smaller than, where there is nothing to compare."""
    differences = [abs(a - b) / abs(b) for a, b in zip(got, wanted)]
    return max(differences, key=lambda d: math.inf if math.isnan(d) else d) if differences else math.nan


def compare(got, expected, steps, tolerances):
    """Whether a loss curve is as expected, and in words how near."""
    first, last = worst(got[:5], expected[:5]), worst([statistics.fmean(got[-10:])], [statistics.fmean(expected[-10:])]) if got and expected else math.nan
    near = len(got) == len(expected) == steps and first <= tolerances[0] and last <= tolerances[1]
    ends = f" ({expected[0]:.3f} to {expected[-1]:.3f})" if expected else ""
    return near, f"to {first:.1e} over 5 steps and {last:.1e} at the end of {len(got)}{ends}"


class Machine:
    def __init__(self, arguments, report, budget):
        self.bundle = pathlib.Path(__file__).resolve().parent.parent
        self.arguments, self.report, self.budget = arguments, report, budget
        self.logs = pathlib.Path(arguments.logs)
        self.known, self.gpus = PRECISIONS, 0  # what the program and the machine have

    def start(self, name, command, environment=None):
        return Job(self.logs / (file_name(name) + ".log"), command, environment or {}, self.budget)

    def run(self, name, command, environment=None, limit=LIMIT):
        return self.start(name, command, environment).end(limit)

    def program(self, *arguments):
        return [self.bundle / "run.sh", *arguments]

    def model(self, name):
        here, made = self.bundle / "models" / f"{name}.onnx", self.logs / "models" / f"{name}.onnx"
        if here.exists() or name not in EXPORTED:
            return here
        if not made.exists():
            if not self.arguments.python:
                raise Skipped("the bundle was made without PyTorch, which exports this network, and --python names none")
            status, text = self.run(f"export {name}", [self.arguments.python, self.bundle / "bench/export_models.py", made.parent, name])
            if status != 0:
                raise Skipped(f"{self.arguments.python} does not export it: {last_line(text, status)}")
        return made

    def find(self):
        """Rows of the GPUs; ends where there is none."""
        status, text = self.run("devices", self.program("tandem", "devices", "--json"))
        if status != 0:
            sys.exit(f"gpu-check: the bundle's program does not start:\n{text}")
        gpus = [d for d in json.loads(text) if d["device"].startswith("cuda")]
        self.gpus = sum(d["usable"] for d in gpus)
        if not self.gpus:
            raise NoGpu("; ".join(d["reason"] for d in gpus))
        for d in gpus:
            self.report.row(d["device"], "found" if d["usable"] else "unusable", f"{d['name']}, {d['memory'] // MEBI} MiB, {d['bandwidth'] / 1e9:.0f} GB/s, {d['flops'] / 1e12:.0f} TFLOP/s; {d['backend']}"
                            if d["usable"] else d["reason"])
        status, text = self.run("driver", ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm,power.limit", "--format=csv,noheader"])
        self.report.row("driver, clock, power", "found" if status == 0 else "unknown", "; ".join(text.split("\n")).strip("; ") if status == 0 else last_line(text, status))
        _, text = self.run("train --help", self.program("tandem", "train", "--help"))
        options = re.search(r"--precision.*(\n {20,}.*)*", text)
        self.known = [p for p in PRECISIONS if options and p in options[0]]
