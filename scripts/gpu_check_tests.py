"""Checks of gpu-check that run the bundle's test programs, alone or under compute-sanitizer."""
import collections
import os
import re
import shutil
import time

from gpu_check_job import Output
from gpu_check_machine import LIMIT, Machine, failed

MOST = 8  # processes of a suite at the same time
# parts: checks that the suite is cut into. processes: of a check, at the same time. tools: of compute-sanitizer, which run it again.
Suite = collections.namedtuple("Suite", "name program filter parts processes tools", defaults=[1, MOST, ()])
COOPERATING = ("Reductions", "Losses", "Windows", "Movement")
KERNELS = Suite("kernels against the CPU", "cuda_tests", "Cases/GpuKernels.*", tools=["memcheck", "initcheck"])
KEEPING = Suite("kernels of training, updates, normalizations, attention", "cuda_tests", "Gpu*/*", tools=["memcheck", "initcheck", "racecheck", "synccheck"])
PLANS = Suite("plans against the CPU, on 1 to 4 logical devices", "cuda_tests", "Networks/PlansOnGpu.*", tools=["memcheck"])
FORMATS = Suite("number formats against the CPU, on 1 and 4 logical devices", "cuda_tests", "Formats/GpuPrecision.*")
# The card's memory is enough for a few of these at the same time, and for one of those on 2³¹ elements.
SHAPES = Suite("kernels with each other at the shapes of networks", "cuda_tests", "Networks/GpuShapes.*-*large_*", parts=8, processes=4)
LARGE = Suite("kernels with each other on 2³¹ elements", "cuda_tests", "Networks/GpuShapes.*large_*", processes=1)
TOGETHER = Suite("kernels whose threads work together", "cuda_tests", ":".join(f"*GpuKernels.*/{family}*" for family in COOPERATING), tools=["racecheck", "synccheck"])
SUMS = Suite("sums: NCCL with 1 rank, 4 logical devices", "cuda_tests", "Ranks/GpuSums.*", processes=1, tools=["memcheck"])
EXCHANGES = Suite("exchanges of every kind among 5 logical devices", "cuda_tests", "Rows/GpuExchanges.*/gpu_*", processes=1, tools=["memcheck"])
RANKS = Suite("NCCL, a rank fails by itself, a capture is dropped", "cuda_tests", "Ranks/GpuRanks.*", processes=1)
# Each is few tests, of many files.
NODES = Suite("conformance: ONNX node tests", "cuda_operators_tests", "Conformance.*:Inverses.*", processes=4)
GRADIENTS = Suite("gradients of ONNX node tests", "cuda_operators_tests", "Gradients.*", processes=3)
SANITIZED = [KERNELS, KEEPING, TOGETHER, PLANS, SUMS, EXCHANGES]
# Errors of the libraries' own calls are theirs to handle, and so are their kernels' hazards: ours bear these names.
SANITIZER = ["--error-exitcode", "9", "--target-processes", "all", "--report-api-errors", "no", "--kernel-name", "kns=run_body", "--kernel-name", "kns=tandem_elementwise"]
POISON = {"TANDEM_POISON_SCRATCH": "1"}


def counted(what, text):
    return len(re.findall(rf"\[ *{what} *\] .*\(\d+ ms\)$", text, re.MULTILINE))


def ended_early(shard, output):
    """A shard whose program did not end as its tests did, in words; empty: none such."""
    if output.status == 0 or re.search(r"^\[  FAILED  \] \d+ test", output.out, re.MULTILINE):
        return ""
    begun = re.findall(r"^\[ RUN      \] (\S+)", output.out, re.MULTILINE)
    where = "after all had passed" if re.search(r"^\[  PASSED  \] [1-9]", output.out, re.MULTILINE) else f"in {begun[-1]}" if begun else "before a test"
    return f"{shard}: {where}: {output.last_line()}"


class Tests(Machine):
    def tests(self, name, suite, part=0, environment=None, before=()):
        """Part `part` of the suite: its shards are numbered so that it has the same tests however many processes there are."""
        begin = time.monotonic()
        processes = max(1, min(suite.processes, MOST, len(os.sched_getaffinity(0))))
        shards = [f"{name}, shard {i + 1}" for i in range(processes)] if processes > 1 else [name]
        jobs = [self.start(shard, [*before, *self.program(suite.program, f"--gtest_filter={suite.filter}")],
                           {**(environment or {}), "GTEST_TOTAL_SHARDS": str(suite.parts * processes), "GTEST_SHARD_INDEX": str(part + suite.parts * i)}) for i, shard in enumerate(shards)]
        outputs = [job.end(LIMIT) for job in jobs]
        out, err = ("\n".join(texts) for texts in zip(*((o.out, o.err) for o in outputs)))
        passed, lost, skipped = (counted(what, out) for what in ("OK", "FAILED", "SKIPPED"))
        detail = f"{passed} passed, {lost} failed, {skipped} skipped, {'1 process' if processes == 1 else f'{processes} processes'}, {time.monotonic() - begin:.0f} s"
        names = list(dict.fromkeys(re.findall(r"^\[  FAILED  \] ([^\s,]*\.[^\s,]*)", out, re.MULTILINE)))
        if names:
            detail += ": " + ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        early = [words for words in map(ended_early, (s.rpartition(", ")[2] for s in shards), outputs) if words]
        if lost == 0 and (early or passed == 0):
            result, why = failed(Output(next((o.status for o in outputs if o.status), "nothing ran"), out, err))
            return result, "; ".join([detail, *(early or [why])])
        return ("FAILED" if any(o.status for o in outputs) else "ok"), "; ".join([detail, *early])

    def sanitize(self, name, suite, tool):
        sanitizer = shutil.which("compute-sanitizer", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
        if not sanitizer:
            return "skipped", "compute-sanitizer is not installed"
        return self.tests(name, suite, 0, None, [sanitizer, "--tool", tool, *SANITIZER])
