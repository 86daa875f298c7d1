"""The checks of gpu-check, what is worth most first. Each gives its result and what it found in words."""
import hashlib
import json
import math
import os
import pathlib
import re
import shutil
import signal
import statistics
import sys
import time

from gpu_check_report import Job

COMMUNICATION = 6  # exit status of the program
MEBI = 1 << 20
LIMIT = 1200  # seconds of one program
# Name, test program, filter, and the tools of compute-sanitizer that run it again.
SUITES = [
    ("kernels against the CPU", "cuda_tests", "Cases/GpuKernels.*", ["memcheck", "initcheck"]),
    ("kernels whose threads work together", "cuda_tests", "*GpuKernels.*/Reductions*:*GpuKernels.*/Losses*:*GpuKernels.*/Windows*:*GpuKernels.*/Movement*",
     ["racecheck", "synccheck"]),
    ("plans against the CPU, on 1 to 4 logical devices", "cuda_tests", "Networks/PlansOnGpu.*", ["memcheck"]),
    ("number formats against the CPU, on 1 and 4 logical devices", "cuda_tests", "Formats/GpuPrecision.*", []),
    ("sums: NCCL with 1 rank, 4 logical devices", "cuda_tests", "Ranks/GpuSums.*", ["memcheck"]),
    ("conformance: ONNX node tests", "cuda_operators_tests", "Conformance.*:Inverses.*", []),
    ("gradients of ONNX node tests", "cuda_operators_tests", "Gradients.*", []),
]
# Errors of the libraries' own calls are theirs to handle, and so are their kernels' hazards: ours bear these names.
SANITIZER = ["--error-exitcode", "9", "--target-processes", "all", "--report-api-errors", "no", "--kernel-name", "kns=run_body", "--kernel-name", "kns=tandem_elementwise"]
# What a machine, not the program, refuses.
REFUSALS = ["Device not supported", "Duplicate GPU detected", "Sanitizer is not supported"]
PRECISIONS = ["bf16", "fp32", "fp16", "tf32"]
# Of a loss curve against the CPU's: relative difference of the first steps, and of the mean of the last ones.
CURVE = {"fp32": (1e-3, 0.05), "tf32": (1e-2, 0.1), "bf16": (3e-2, 0.1), "fp16": (3e-2, 0.1)}
CURVES = [("lenet", 128, 100, "cuda:0", []), ("lenet", 128, 100, "cuda:0*4", []), ("lenet", 128, 100, "cuda:0", ["--lr-schedule", "cosine,warmup=0.5"]), ("mini_googlenet", 64, 40, "cuda:0", [])]
SGD = ["--lr", "0.02", "--momentum", "0.9"]
# Where float16's gradients overflow a step is skipped, as it should be, and the curve is another one.
HALF = ["--loss-scale", "1024"]
# Two processes that share a card take each other for two machines: NCCL refuses two ranks of one on a card.
ONE_CARD = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo"}
TIMEOUT = 15  # seconds that a rank waits for another, where one is lost
# What happens to the second rank in the middle of a training, of which the first must tell.
LOSSES_OF_A_RANK = [("is killed", signal.SIGKILL), ("hangs", signal.SIGSTOP)]
BENCHMARKS = [("resnet50", 256), ("mini_googlenet", 1024), ("xception", 128), ("mlp", 1024)]
PEERS = ["graphs", "compile", "eager"]


class NoGpu(Exception):
    pass


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


class Checks:
    def __init__(self, arguments, report, budget):
        self.bundle = pathlib.Path(__file__).resolve().parent.parent
        self.arguments, self.report, self.budget = arguments, report, budget
        self.logs = pathlib.Path(arguments.logs)
        self.known = PRECISIONS  # those that the program knows

    def start(self, name, command, environment=None):
        return Job(self.logs / (file_name(name) + ".log"), command, environment or {}, self.budget)

    def run(self, name, command, environment=None, limit=LIMIT):
        return self.start(name, command, environment).end(limit)

    def program(self, *arguments):
        return [self.bundle / "run.sh", *arguments]

    def model(self, name):
        return self.bundle / "models" / f"{name}.onnx"

    def find(self):
        """Rows of the GPUs; ends where there is none."""
        status, text = self.run("devices", self.program("tandem", "devices", "--json"))
        if status != 0:
            sys.exit(f"gpu-check: the bundle's program does not start:\n{text}")
        gpus = [d for d in json.loads(text) if d["device"].startswith("cuda")]
        if not any(d["usable"] for d in gpus):
            raise NoGpu("; ".join(d["reason"] for d in gpus))
        for d in gpus:
            self.report.row(d["device"], "found" if d["usable"] else "unusable", f"{d['name']}, {d['memory'] // MEBI} MiB, {d['bandwidth'] / 1e9:.0f} GB/s, {d['flops'] / 1e12:.0f} TFLOP/s; {d['backend']}"
                            if d["usable"] else d["reason"])
        status, text = self.run("driver", ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm,power.limit", "--format=csv,noheader"])
        self.report.row("driver, clock, power", "found" if status == 0 else "unknown", "; ".join(text.split("\n")).strip("; ") if status == 0 else last_line(text, status))
        _, text = self.run("train --help", self.program("tandem", "train", "--help"))
        options = re.search(r"--precision.*(\n {20,}.*)*", text)
        self.known = [p for p in PRECISIONS if options and p in options[0]]

    def all(self):
        """Name, check and its arguments, in order of worth."""
        benchmark = lambda model, batch, precision: (f"{model} at {batch}, {precision}", self.benchmark, (model, batch, precision))
        peer = lambda model, batch, precision, mode: (f"{model} at {batch}, {precision}, PyTorch {mode}", self.peer, (model, batch, precision, mode))
        test = lambda suite: (suite[0], self.tests, suite[1:3])
        checks = [benchmark(*BENCHMARKS[0], "bf16"), peer(*BENCHMARKS[0], "bf16", "graphs"), *map(test, SUITES[:4])]
        for number, (model, batch, steps, devices, options) in enumerate(CURVES):
            for precision in PRECISIONS if devices == "cuda:0" and not options else ["fp32"]:
                checks.append((" ".join([f"{model}, {precision}, {devices}", *options]), self.curve, (model, batch, steps, devices, options, precision)))
        checks += [benchmark(*b, "bf16") for b in BENCHMARKS[1:]] + [benchmark(*BENCHMARKS[0], p) for p in PRECISIONS[1:]]
        checks += [peer(*b, "bf16", "graphs") for b in BENCHMARKS[1:]]
        checks += [("the same bits in two processes, --deterministic", self.same_bits, ()), ("plans against the CPU, scratch memory poisoned", self.tests, (*SUITES[2][1:3], {"TANDEM_POISON_SCRATCH": "1"})),
                   test(SUITES[4]), ("NCCL, 2 ranks on one card", self.ranks_sum, ())]
        checks += [(f"NCCL, one of 2 ranks {what}", self.rank_is_lost, (lost_by,)) for what, lost_by in LOSSES_OF_A_RANK]
        checks += [*map(test, SUITES[5:])]
        checks += [(f"{suite[0]}, {tool}", self.sanitize, (*suite[1:3], tool)) for suite in SUITES for tool in suite[3]]
        checks += [peer(*b, "bf16", mode) for b in BENCHMARKS for mode in PEERS[1:]] + [benchmark(*b, "fp32") for b in BENCHMARKS[1:]]
        unknown = [p for p in PRECISIONS if p not in self.known]
        return [c for c in checks if not any(p in c[2] for p in unknown)]

    # ---- tests ----

    def tests(self, name, program, test_filter, environment=None, before=()):
        begin = time.monotonic()
        status, text = self.run(name, [*before, *self.program(program, f"--gtest_filter={test_filter}")], environment)
        count = lambda what: int(found[1]) if (found := re.search(rf"^\[  {what} +\] (\d+) test", text, re.MULTILINE)) else 0
        passed, lost, skipped = count("PASSED"), count("FAILED"), count("SKIPPED")
        detail = f"{passed} passed, {lost} failed, {skipped} skipped, {time.monotonic() - begin:.0f} s"
        names = list(dict.fromkeys(re.findall(r"^\[  FAILED  \] ([^\s,]*\.[^\s,]*)", text, re.MULTILINE)))
        if names:
            detail += ": " + ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        if status != 0 and lost == 0:
            result, why = failed(text, status)
            return result, f"{detail}, status {status}" + (", after all had passed" if passed > 0 else f": {why}")
        return ("ok" if status == 0 and passed > 0 else "FAILED"), detail

    def sanitize(self, name, program, test_filter, tool):
        sanitizer = shutil.which("compute-sanitizer", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
        if not sanitizer:
            return "skipped", "compute-sanitizer is not installed"
        return self.tests(name, program, test_filter, None, [sanitizer, "--tool", tool, *SANITIZER])

    # ---- trainings ----

    def training(self, name, model, *options):
        return self.program("tandem", "train", self.model(model), "--json", "--run-dir", "none", "--init", "he-normal", "--seed", "1", *SGD,
                            "--output", self.trained(name), *options)

    def trained(self, name):
        return self.logs / (file_name(name) + ".onnx")

    def reference(self, model, *options):
        """The CPU's loss curve in float32: taken once, and kept for resumed runs."""
        name = " ".join([model, "fp32, cpu:0", *map(str, options)])
        if name not in self.report.kept:
            status, text = self.run(name, self.training(name, model, *options, "--devices", "cpu:0"))
            if status != 0:
                raise RuntimeError(f"on the CPU: {last_line(text, status)}")
            self.report.keep(name, loss_curve(text))
        return self.report.kept[name]

    def curve(self, name, model, batch, steps, devices, schedule, precision):
        options = ["--data", self.arguments.data if model == "lenet" else "random", "--batch-size", batch, "--steps", steps, *schedule]
        expected = self.reference(model, *options)
        status, text = self.run(name, self.training(name, model, *options, "--devices", devices, "--precision", precision, *(HALF if precision == "fp16" else [])))
        if status != 0:
            return failed(text, status)
        near, how = compare(loss_curve(text), expected, steps, CURVE[precision])
        done = json_lines(text)[-1]
        return ("ok" if near else "FAILED"), f"loss as the CPU's {how}; {done['peak_bytes'] / MEBI:.1f} MiB, predicted {done['predicted_peak_bytes'] / MEBI:.1f}"

    def same_bits(self, name):
        """Of losses and trained files."""
        runs = []
        for number in (1, 2):
            status, text = self.run(f"{name} {number}", self.training(f"{name} {number}", "lenet", "--data", self.arguments.data, "--batch-size", "64", "--steps", "50", "--devices", "cuda:0", "--deterministic"))
            if status != 0:
                return failed(text, status)
            runs.append((loss_curve(text), hashlib.sha256(self.trained(f"{name} {number}").read_bytes()).hexdigest()))
        differs = [what for what, a, b in zip(("losses", "trained files"), *runs) if a != b]
        return ("FAILED", "other " + " and ".join(differs)) if differs else ("ok", f"{len(runs[0][0])} losses and the trained files")

    def start_ranks(self, name, *options):
        return [self.start(f"{name}, rank {rank}", self.training(f"{name}, rank {rank}", "lenet", *options, "--data", self.arguments.data,
                                                                 "--batch-size", "64", "--devices", "cuda:0*2", "--world-size", "2",
                                                                 "--rank", rank, "--address", "127.0.0.1:29555"),
                           {**ONE_CARD, "NCCL_HOSTID": f"rank{rank}"}) for rank in range(2)]

    def ranks_sum(self, name):
        steps = 30
        status, text = self.run(name + ", one alone", self.training(name + ", one alone", "lenet", "--data", self.arguments.data, "--batch-size", "64", "--steps", steps, "--devices", "cuda:0"))
        if status != 0:
            return failed(text, status)
        for rank, (status, other) in enumerate([job.end(LIMIT) for job in self.start_ranks(name, "--steps", steps)]):
            if status != 0:
                result, detail = failed(other, status)
                return result, f"rank {rank}: {detail}"
            first = other if rank == 0 else first
        near, how = compare(loss_curve(first), loss_curve(text), steps, CURVE["fp32"])
        return ("ok" if near else "FAILED"), f"loss as one alone {how}"

    def rank_is_lost(self, name, lost_by):
        first, second = self.start_ranks(name, "--steps", 10 ** 8, "--rank-timeout", TIMEOUT)
        while len(loss_curve(first.text())) < 5 and not (first.ended() or second.ended()) and self.budget.left() > 0:
            time.sleep(0.2)
        if first.ended() or second.ended():
            result, detail = failed((first if first.ended() else second).text(), "unknown")
            return result, "it ended before: " + detail
        os.killpg(second.process.pid, lost_by)
        begin = time.monotonic()
        status, text = first.end(begin - first.begin + 4 * TIMEOUT)
        told = status == COMMUNICATION and "rank 1" in text.strip().splitlines()[-1]
        return ("ok" if told else "FAILED"), f"rank 0 ended after {time.monotonic() - begin:.1f} s: {last_line(text, status)}"

    # ---- speed ----

    def benchmark(self, name, model, batch, precision):
        status, text = self.run(name, self.program("tandem_steps", "--model", self.model(model), "--device", "cuda:0", "--batch", batch, "--warmup", "15", "--steps", "40",
                                                   "--late", "10", "--profile", "5", "--precision", precision))
        results = json_lines(text)
        if status != 0 or not results:
            return failed(text, status)
        own = results[-1]
        rate = 1e3 * batch / own["median_ms"]
        self.report.keep(f"{name}, samples/s", rate)
        hidden = own["late_ms"] - own["median_ms"]
        detail = (f"{rate:.0f} samples/s; step {own['median_ms']:.2f} ms, from timed kernels {own['predicted_ms']:.2f}; {own['late_ms']:.2f} ms where each waits for its batch, whose copy "
                  f"takes {own['copies_ms']:.2f}: {hidden:.2f} hidden; {own['device_bytes'] / MEBI:.0f} MiB taken, {own['arena_bytes'] / MEBI:.0f} of them predicted")
        if own["not_captured"]:
            return "FAILED", f"{detail}; not one graph: {own['not_captured']}"
        return "ok", detail

    def peer(self, name, model, batch, precision, mode):
        if not self.arguments.python:
            return "not asked for", "--python names an interpreter with PyTorch"
        status, text = self.run(name, [self.arguments.python, self.bundle / "bench/pytorch_steps.py", "--model", model, "--batch", batch, "--device", "cuda", "--memory", "channels_last",
                                       "--precision", precision, "--mode", mode, "--warmup", "15", "--steps", "40"])
        results = json_lines(text)
        if status != 0 or not results:
            return failed(text, status)
        rate, own = results[-1]["samples_per_second"], self.report.kept.get(f"{model} at {batch}, {precision}, samples/s")
        return "ok", f"{rate:.0f} samples/s" + (f"; ours is {own / rate:.2f} times that" if own else "")
