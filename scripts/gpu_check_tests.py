"""Checks of gpu-check that run the bundle's test programs, alone or under compute-sanitizer."""
import collections
import os
import re
import shutil
import time

from gpu_check_machine import Machine, failed

# The tools of compute-sanitizer are those that run a suite again.
Suite = collections.namedtuple("Suite", "name program filter tools", defaults=[()])
COOPERATING = ("Reductions", "Losses", "Windows", "Movement")
KERNELS = Suite("kernels against the CPU", "cuda_tests", "Cases/GpuKernels.*", ["memcheck", "initcheck"])
KEEPING = Suite("kernels of training, updates, normalizations, attention", "cuda_tests", "Gpu*/*", ["memcheck", "initcheck", "racecheck", "synccheck"])
PLANS = Suite("plans against the CPU, on 1 to 4 logical devices", "cuda_tests", "Networks/PlansOnGpu.*", ["memcheck"])
FORMATS = Suite("number formats against the CPU, on 1 and 4 logical devices", "cuda_tests", "Formats/GpuPrecision.*")
SHAPES = Suite("kernels with each other at the shapes of networks", "cuda_tests", "Networks/GpuShapes.*")
TOGETHER = Suite("kernels whose threads work together", "cuda_tests", ":".join(f"*GpuKernels.*/{family}*" for family in COOPERATING), ["racecheck", "synccheck"])
SUMS = Suite("sums: NCCL with 1 rank, 4 logical devices", "cuda_tests", "Ranks/GpuSums.*", ["memcheck"])
RANKS = Suite("NCCL, a rank fails by itself, a capture is dropped", "cuda_tests", "Ranks/GpuRanks.*")
NODES = Suite("conformance: ONNX node tests", "cuda_operators_tests", "Conformance.*:Inverses.*")
GRADIENTS = Suite("gradients of ONNX node tests", "cuda_operators_tests", "Gradients.*")
SANITIZED = [KERNELS, KEEPING, TOGETHER, PLANS, SUMS]
# Errors of the libraries' own calls are theirs to handle, and so are their kernels' hazards: ours bear these names.
SANITIZER = ["--error-exitcode", "9", "--target-processes", "all", "--report-api-errors", "no", "--kernel-name", "kns=run_body", "--kernel-name", "kns=tandem_elementwise"]


class Tests(Machine):
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
        if status == 0 and passed == 0:
            result, why = failed(text, "nothing ran")
            return result, f"{detail}: {why}"
        return ("ok" if status == 0 else "FAILED"), detail

    def sanitize(self, name, program, test_filter, tool):
        sanitizer = shutil.which("compute-sanitizer", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
        if not sanitizer:
            return "skipped", "compute-sanitizer is not installed"
        return self.tests(name, program, test_filter, None, [sanitizer, "--tool", tool, *SANITIZER])
