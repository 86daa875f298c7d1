"""What all checks of gpu-check share: the bundle's programs, what they print, and how results are compared."""
import json
import math
import pathlib
import re
import statistics
import sys

from gpu_check_job import Job
from gpu_check_report import KernelTimes

COMMUNICATION = 6  # exit status of the program
MEBI = 1 << 20
LIMIT = 1200  # seconds of one program
# What a machine, not the program, refuses.
REFUSALS = ["Device not supported", "Duplicate GPU detected", "Sanitizer is not supported", "8-bit products need a GPU"]
PRECISIONS = ["bf16", "fp32", "fp16", "tf32"]
EIGHT_BITS = "fp8"  # of products by weights: for transformers
# Of a loss curve against the CPU's: relative difference of the first steps, and of the mean of the last ones.
CURVE = {"fp32": (1e-3, 0.05), "tf32": (1e-2, 0.1), "bf16": (3e-2, 0.1), "fp16": (3e-2, 0.1), "fp8": (5e-2, 0.15)}
SGD = ["--lr", "0.02", "--momentum", "0.9"]
# Networks that models/ does not hold: gpu-bundle exports them where it finds PyTorch, else gpu-check does, by --python.
EXPORTED = ["bert_mini", "gpt_mini", "bert_base", "gpt2_small", "lstm"]
OPTIONS = {"gpt_mini": ["--class-axis", "2"], "gpt2_small": ["--class-axis", "2"]}
# What a GPU is said to have: the field of `tandem devices --json`, its unit's size, its unit.
FIELDS = [("memory", MEBI, "MiB"), ("bandwidth", 1e9, "GB/s"), ("flops", 1e12, "TFLOP/s")]
LEFT_OUT = re.compile(r"kernel ((?:(?!kernel )[^\"\n])+?) is left out: a process ended while it was timed")
TRIES = 5  # of a program that kernels end while they are timed: each time one kernel fewer


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


def json_array(text):
    """The first array of objects that begins a line, and the text without it; None where there is none."""
    for begin in re.finditer(r"^\[", text, re.MULTILINE):
        try:
            found, end = json.JSONDecoder().raw_decode(text, begin.start())
        except ValueError:
            continue
        if all(isinstance(value, dict) for value in found):
            return found, text[:begin.start()] + text[end:]
    return None, text


def failed(output):
    """A failure, or a refusal by the machine."""
    refusal = next((r for r in REFUSALS if r in output.both()), "")
    return ("refused", refusal) if refusal else ("FAILED", output.last_line())


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


def said_of(gpu):
    """What a device's object says, whatever fields it has."""
    told = [str(gpu.get("name", "unnamed"))]
    told += [f"{gpu[field] / unit:.0f} {name}" if isinstance(gpu.get(field), (int, float)) else f"{field} unknown" for field, unit, name in FIELDS]
    return ", ".join(told) + f"; {gpu.get('backend', 'backend unknown')}"


class Machine:
    def __init__(self, arguments, report, budget):
        self.bundle = pathlib.Path(__file__).resolve().parent.parent
        self.arguments, self.report, self.budget = arguments, report, budget
        self.logs = report.folder.resolve()
        self.known, self.gpus = [*PRECISIONS, EIGHT_BITS], 0  # what the program and the machine have
        self.times = KernelTimes(self.logs)
        self.left_out = []  # in words, of the check under way: kernels that ended a process

    def start(self, name, command, environment=None):
        return Job(self.logs / (file_name(name) + ".log"), command, {"TANDEM_CACHE": str(self.logs / "cache"), **(environment or {})}, self.budget)

    def run(self, name, command, environment=None, limit=LIMIT):
        """A program's output. One that a kernel ended is begun again, which leaves that kernel out."""
        for attempt in range(1, TRIES + 1):
            known = self.times.fatal()
            output = self.start(name if attempt == 1 else f"{name}, try {attempt}", command, environment).end(limit)
            self.note(f"left out as it once ended its process: {kernel}" for kernel in LEFT_OUT.findall(output.both()))
            fresh = self.times.fatal() - known
            if output.status == 0 or not fresh:
                break
            self.note(f"ended by a kernel while it was timed ({output.last_line()}): {self.times.name(key)}" for key in sorted(fresh))
        return output

    def note(self, words):
        self.left_out += [text for text in words if text not in self.left_out]

    def program(self, *arguments):
        return [self.bundle / "run.sh", *arguments]

    def model(self, name):
        here, made = self.bundle / "models" / f"{name}.onnx", self.logs / "models" / f"{name}.onnx"
        if here.exists() or name not in EXPORTED:
            return here
        if not made.exists():
            if not self.arguments.python:
                raise Skipped("the bundle was made without PyTorch, which exports this network, and --python names none")
            output = self.run(f"export {name}", [self.arguments.python, self.bundle / "bench/export_models.py", made.parent, name])
            if output.status != 0:
                raise Skipped(f"{self.arguments.python} does not export it: {output.last_line()}")
        return made

    def find(self):
        """Rows of the GPUs; ends where there is none."""
        output = self.run("devices", self.program("tandem", "devices", "--json"))
        devices, beside = json_array(output.out)
        if devices is None:
            sys.exit(f"gpu-check: the bundle's program does not tell its devices (status {output.status}):\n{output.both().strip()}")
        gpus = [d for d in devices if str(d.get("device", "")).startswith("cuda")]
        usable = [d for d in gpus if d.get("usable")]
        if not usable:
            raise NoGpu("; ".join(str(d.get("reason", "no reason given")) for d in gpus) or "the program knows of none")
        self.gpus = len(usable)
        for d in gpus:
            self.report.row(d["device"], "found" if d in usable else "unusable", said_of(d) if d in usable else d.get("reason", "no reason given"))
        beside = f"{output.err}\n{beside}".strip()
        if beside or output.status != 0:
            self.report.row("printed beside the devices", "told", f"{beside[:500]} (status {output.status})")
        output = self.run("driver", ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm,power.limit", "--format=csv,noheader"])
        self.report.row("driver, clock, power", "found" if output.status == 0 else "unknown", "; ".join(output.out.split("\n")).strip("; ") if output.status == 0 else output.last_line())
        formats = usable[0].get("formats")
        if isinstance(formats, list) and formats:
            self.known = [p for p in self.known if p in formats]
