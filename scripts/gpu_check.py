"""On a GPU machine, runs all that needs a GPU from a bundle of gpu-bundle and prints one table.

    scripts/gpu-check [--logs FOLDER] [--data SPEC] [--python PYTHON] [--only TEXT]

Each check's output stays in the logs' folder, the table in table.md there. --data is what LeNet learns (idx:DIR for MNIST;
default synthetic:digits), --python an interpreter with PyTorch to compare with. Exit status: 0 where all is well, 1 where
a check failed, 3 where there is no GPU.
"""
import argparse
import json
import math
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

NO_GPU, COMMUNICATION = 3, 6  # exit statuses: this script's, the program's
LIMIT = 1200  # seconds of one check
MEBI = 1 << 20
# Name, test program, filter, and the tools of compute-sanitizer that run it again.
SUITES = [
    ("kernels against the CPU", "cuda_tests", "Cases/GpuKernels.*", ["memcheck"]),
    ("kernels whose threads work together", "cuda_tests", "*GpuKernels.*/Reductions*:*GpuKernels.*/Losses*:*GpuKernels.*/Windows*", ["racecheck", "synccheck"]),
    ("plans against the CPU, on 1 to 4 logical devices", "cuda_tests", "Networks/PlansOnGpu.*", ["memcheck"]),
    ("number formats against the CPU, on 1 and 4 logical devices", "cuda_tests", "Formats/GpuPrecision.*", []),
    ("sums: NCCL with 1 rank, 4 logical devices", "cuda_tests", "Ranks/GpuSums.*", ["memcheck"]),
    ("conformance: ONNX node tests", "cuda_operators_tests", "Conformance.*:Inverses.*", []),
    ("gradients of ONNX node tests", "cuda_operators_tests", "Gradients.*", []),
]
PRECISIONS = ["fp32", "tf32", "bf16", "fp16"]
# Of a loss curve against the CPU's: relative difference of the first steps, and of the mean of the last ones.
CURVE = {"fp32": (1e-3, 0.05), "tf32": (1e-2, 0.1), "bf16": (3e-2, 0.1), "fp16": (3e-2, 0.1)}
CURVES = [("lenet", 128, 100), ("mini_googlenet", 64, 40)]
SGD = ["--lr", "0.02", "--momentum", "0.9"]
# Two processes that share a card take each other for two machines: NCCL refuses two ranks of one on a card.
ONE_CARD = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo"}
TIMEOUT = 15  # seconds that a rank waits for another, where one is lost
# What happens to the second rank in the middle of a training, of which the first must tell.
LOSSES_OF_A_RANK = [("is killed", signal.SIGKILL), ("hangs", signal.SIGSTOP)]
BENCHMARKS = [("resnet50", 256), ("mini_googlenet", 1024), ("xception", 128), ("mlp", 1024)]
PEERS = ["eager", "compile", "graphs"]


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


class Job:
    """A program whose output goes to a log."""

    def __init__(self, log, command, environment):
        self.log, self.begin = log, time.monotonic()
        with open(log, "w") as file:
            try:
                self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                                env={**os.environ, **environment})
            except OSError as error:
                self.process = None
                file.write(f"{command[0]}: {error}\n")

    def text(self):
        return self.log.read_text(errors="replace")

    def ended(self):
        return self.process is None or self.process.poll() is not None

    def end(self, limit=LIMIT):
        """Exit status and output."""
        if self.process is None:
            return "not started", self.text()
        try:
            return self.process.wait(max(0.0, limit - (time.monotonic() - self.begin))), self.text()
        except subprocess.TimeoutExpired:
            self.kill()
            return f"no end within {limit} s", self.text()
        except KeyboardInterrupt:
            self.kill()
            raise

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Check:
    def __init__(self, arguments):
        self.bundle = pathlib.Path(__file__).resolve().parent.parent
        self.logs = pathlib.Path(arguments.logs)
        self.logs.mkdir(parents=True, exist_ok=True)
        self.arguments = arguments
        self.rows = []

    def wanted(self, name):
        return self.arguments.only in name

    def row(self, name, result, detail):
        self.rows.append((name, result, detail))
        print(f"{name}: {result}: {detail}", file=sys.stderr, flush=True)

    def start(self, name, command, environment=None):
        return Job(self.logs / (re.sub(r"[^a-zA-Z0-9]+", "-", name) + ".log"), command, environment or {})

    def run(self, name, command, environment=None):
        return self.start(name, command, environment).end()

    def program(self, *arguments):
        return [self.bundle / "run.sh", *arguments]

    def model(self, name):
        return self.bundle / "models" / f"{name}.onnx"

    # ---- tests ----

    def tests(self, name, program, test_filter, before=()):
        if not self.wanted(name):
            return
        begin = time.monotonic()
        status, text = self.run(name, [*before, *self.program(program, f"--gtest_filter={test_filter}")])

        def count(what):
            found = re.search(rf"^\[  {what} +\] (\d+) test", text, re.MULTILINE)
            return int(found[1]) if found else 0

        passed, failed, skipped = count("PASSED"), count("FAILED"), count("SKIPPED")
        detail = f"{passed} passed, {failed} failed, {skipped} skipped, {time.monotonic() - begin:.0f} s"
        if status not in (0, 1):
            detail += f", status {status}"
        names = list(dict.fromkeys(re.findall(r"^\[  FAILED  \] ([^\s,]*\.[^\s,]*)", text, re.MULTILINE)))
        if names:
            detail += ": " + ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        self.row(name, "ok" if status == 0 and passed > 0 else "FAILED", detail)

    def suites(self):
        for name, program, test_filter, _ in SUITES:
            self.tests(name, program, test_filter)
        sanitizer = shutil.which("compute-sanitizer", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
        if not sanitizer:
            self.row("compute-sanitizer", "skipped", "it is not installed")
            return
        for name, program, test_filter, tools in SUITES:
            for tool in tools:
                self.tests(f"{name}, {tool}", program, test_filter, [sanitizer, "--tool", tool, "--error-exitcode", "9", "--target-processes", "all"])

    # ---- trainings ----

    def training(self, name, model, *options):
        return self.program("tandem", "train", self.model(model), "--json", "--init", "he-normal", "--seed", "1", *SGD,
                            "--output", self.logs / (re.sub(r"[^a-zA-Z0-9]+", "-", name) + ".onnx"), *options)

    def train(self, name, model, *options):
        """The log of a training; None, and a row that says why, where it failed."""
        status, text = self.run(name, self.training(name, model, *options))
        if status == 0:
            return text
        self.row(name, "FAILED", last_line(text, status))
        return None

    def start_ranks(self, name, *options):
        return [self.start(f"{name}, rank {rank}", self.training(f"{name}, rank {rank}", "lenet", *options, "--data", self.arguments.data,
                                                                 "--batch-size", "64", "--devices", "cuda:0*2", "--world-size", "2",
                                                                 "--rank", rank, "--address", "127.0.0.1:29555"),
                           {**ONE_CARD, "NCCL_HOSTID": f"rank{rank}"}) for rank in range(2)]

    def ranks_sum(self):
        name, steps = "NCCL, 2 ranks on one card", 30
        if not self.wanted(name):
            return
        alone = self.train(name + ", one alone", "lenet", "--data", self.arguments.data, "--batch-size", "64", "--steps", steps, "--devices", "cuda:0")
        (status, text), (other, other_text) = [rank.end() for rank in self.start_ranks(name, "--steps", steps)]
        if status != 0 or other != 0:
            self.row(name, "FAILED", last_line(text, status) if status != 0 else f"rank 1: {last_line(other_text, other)}")
        elif alone:
            near, how = compare(loss_curve(text), loss_curve(alone), steps, CURVE["fp32"])
            self.row(name, "ok" if near else "FAILED", f"loss as one alone {how}")

    def rank_is_lost(self, what, lost_by):
        name = f"NCCL, one of 2 ranks {what}"
        if not self.wanted(name):
            return
        first, second = self.start_ranks(name, "--steps", 10 ** 8, "--rank-timeout", TIMEOUT)
        try:
            while len(loss_curve(first.text())) < 5 and not (first.ended() or second.ended()) and time.monotonic() - first.begin < LIMIT:
                time.sleep(0.2)
            if first.ended() or second.ended():
                self.row(name, "FAILED", "it ended before: " + last_line((first if first.ended() else second).text(), "unknown"))
                return
            second.process.send_signal(lost_by)
            begin = time.monotonic()
            status, text = first.end(begin - first.begin + 4 * TIMEOUT)
            told = status == COMMUNICATION and "rank 1" in text.strip().splitlines()[-1]
            self.row(name, "ok" if told else "FAILED", f"rank 0 ended after {time.monotonic() - begin:.1f} s: {last_line(text, status)}")
        finally:
            first.kill()
            second.kill()

    def curve(self, model, batch, steps, precisions):
        """Loss curves against the CPU's in float32."""
        options = ["--data", self.arguments.data if model == "lenet" else "random", "--batch-size", batch, "--steps", steps]
        runs = [(f"{model}, {p}, {d}", p, d) for p in precisions for d in ("cuda:0", "cuda:0*4") if d == "cuda:0" or (p == "fp32" and model == "lenet")]
        runs = [r for r in runs if self.wanted(r[0])]
        reference = self.train(f"{model}, fp32, cpu:0", model, *options, "--devices", "cpu:0") if runs else None
        for name, precision, devices in runs if reference else []:
            text = self.train(name, model, *options, "--devices", devices, "--precision", precision)
            if not text:
                continue
            near, how = compare(loss_curve(text), loss_curve(reference), steps, CURVE[precision])
            done = json_lines(text)[-1]
            self.row(name, "ok" if near else "FAILED", f"loss as the CPU's {how}; {done['peak_bytes'] / MEBI:.1f} MiB, predicted {done['predicted_peak_bytes'] / MEBI:.1f}")

    # ---- speed ----

    def benchmark(self, model, batch, precision):
        name = f"{model} at {batch}, {precision}"
        if not self.wanted(name):
            return
        _, text = self.run(name + ", plan", self.program("tandem", "plan", self.model(model), "--json", "--devices", "cuda:0", "--batch-size", batch,
                                                         "--momentum", "0.9", "--precision", precision))
        plan = json.JSONDecoder().raw_decode(text[text.index("{"):])[0] if "{" in text else {}
        status, text = self.run(name, self.program("tandem_steps", "--model", self.model(model), "--device", "cuda:0", "--batch", batch,
                                                   "--warmup", "15", "--steps", "40", "--precision", precision))
        results = json_lines(text)
        if status != 0 or not results:
            self.row(name, "FAILED", last_line(text, status))
            return
        own = results[-1]
        rate = 1e3 * batch / own["median_ms"]
        detail = (f"{rate:.0f} samples/s; step {own['median_ms']:.2f} ms, predicted {1e3 * plan.get('seconds', math.nan):.2f}, from timed kernels {own['predicted_ms']:.2f}; "
                  f"{own['device_bytes'] / MEBI:.0f} MiB taken, {own['arena_bytes'] / MEBI:.0f} of them predicted")
        if own["not_captured"]:
            detail += f"; not one graph: {own['not_captured']}"
        failed = False
        for mode in PEERS if self.arguments.python else []:
            status, text = self.run(f"{name}, PyTorch {mode}", [self.arguments.python, self.bundle / "bench/pytorch_steps.py", "--model", model, "--batch", batch,
                                                                "--device", "cuda", "--memory", "channels_last", "--precision", precision, "--mode", mode,
                                                                "--warmup", "15", "--steps", "40"])
            peers = json_lines(text)
            failed = failed or status != 0 or not peers
            detail += f"; PyTorch {mode} " + (f"{peers[-1]['samples_per_second']:.0f} ({rate / peers[-1]['samples_per_second']:.2f}×)" if status == 0 and peers else "failed")
        self.row(name, "FAILED" if failed else "ok", detail)

    # ---- all of it ----

    def found(self):
        """Rows of the GPUs; ends where there is none."""
        status, text = self.run("devices", self.program("tandem", "devices", "--json"))
        if status != 0:
            sys.exit(f"gpu-check: the bundle's program does not start:\n{text}")
        gpus = [d for d in json.loads(text) if d["device"].startswith("cuda")]
        if not any(d["usable"] for d in gpus):
            print("gpu-check: there is no GPU to check: " + "; ".join(d["reason"] for d in gpus), file=sys.stderr)
            sys.exit(NO_GPU)
        for d in gpus:
            self.row(d["device"], "found", f"{d['name']}, {d['memory'] // MEBI} MiB, {d['bandwidth'] / 1e9:.0f} GB/s, {d['flops'] / 1e12:.0f} TFLOP/s; {d['backend']}")
        status, text = self.run("driver", ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm,power.limit", "--format=csv,noheader"])
        self.row("driver, clock, power", "found" if status == 0 else "unknown", last_line(text, status) if status != 0 else "; ".join(text.split("\n")).strip("; "))

    def precisions(self):
        """Those that the program knows."""
        _, text = self.run("train --help", self.program("tandem", "train", "--help"))
        known = re.search(r"--precision.*", text)
        return [p for p in PRECISIONS if known and p in known[0]]

    def guarded(self, check, *arguments):
        """One check's fault is a row and not the end of all."""
        try:
            check(*arguments)
        except Exception as error:  # noqa: BLE001
            self.row(" ".join([check.__name__, *map(str, arguments)]), "FAILED", f"gpu-check itself: {type(error).__name__}: {error}")

    def all(self):
        precisions = self.precisions()
        self.guarded(self.suites)
        self.guarded(self.ranks_sum)
        for what, lost_by in LOSSES_OF_A_RANK:
            self.guarded(self.rank_is_lost, what, lost_by)
        for curve in CURVES:
            self.guarded(self.curve, *curve, precisions)
        for model, batch in BENCHMARKS:
            for precision in [p for p in ("bf16", "fp32") if p in precisions]:
                self.guarded(self.benchmark, model, batch, precision)

    def table(self):
        rows = [("check", "result", "detail"), *self.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(2)]
        lines = [f"| {name:{widths[0]}} | {result:{widths[1]}} | {detail} |" for name, result, detail in rows]
        lines.insert(1, f"|{'-' * (widths[0] + 2)}|{'-' * (widths[1] + 2)}|--------|")
        return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="gpu-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", default="gpu-check-logs")
    parser.add_argument("--data", default="synthetic:digits")
    parser.add_argument("--python", default="", help="an interpreter with PyTorch")
    parser.add_argument("--only", default="", help="only checks whose name has this text")
    check = Check(parser.parse_args())
    check.found()
    try:
        check.all()
    finally:  # also where somebody stops it
        (check.logs / "table.md").write_text(check.table())
        print(check.table())
    sys.exit(any(result == "FAILED" for _, result, _ in check.rows))


if __name__ == "__main__":
    main()
