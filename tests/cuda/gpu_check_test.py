#!/usr/bin/env python3
"""What scripts/gpu-check makes of what it reads: run with a bundle whose programs are stand-ins, that print what a row says."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
GPU = {"device": "cuda:0", "usable": True, "name": "NVIDIA H100", "memory": 80 << 30, "bandwidth": 3e12, "flops": 6e13, "formats": ["fp32", "tf32", "bf16", "fp16", "fp8"], "backend": "CUDA 13.0"}
CPU = {"device": "cpu", "usable": True, "name": "a CPU", "memory": 1 << 30}
NONE = {"device": "cuda", "usable": False, "reason": "the NVIDIA driver is missing"}
DEVICES = json.dumps([CPU, GPU]) + "\n"
NOT_USABLE = "cpu      a CPU\n         has        AVX2\ncuda     not usable: the NVIDIA\n         driver is missing\ndata     reads images: JPEG\n                    unpacks gzip\n"
STEPS = {"median_ms": 100.0, "predicted_ms": 90.0, "late_ms": 101.0, "copies_ms": 1.0, "overlap": 0.9, "device_bytes": 1 << 30, "arena_bytes": 1 << 30, "compile_seconds": 12.5, "not_captured": "", "loss": 2.0}
OK = "[ RUN      ] A.a\n[       OK ] A.a (3 ms)\n[ RUN      ] A.b\n[       OK ] A.b (4 ms)\n[  PASSED  ] 2 tests.\n"
LOST = "[ RUN      ] A.a\n[  FAILED  ] A.a, where GetParam() = 8 (3 ms)\n[  PASSED  ] 0 tests.\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A.a, where GetParam() = 8\n"
CRASH = "[ RUN      ] A.a\n[       OK ] A.a (3 ms)\n[ RUN      ] A.b\n"
KEY = "CUDA 13.0|cudnn.convolution/eng5.k2=3|0|{} x -> y"
WARNING = "warning: kernel cudnn.convolution/eng5.k2=3 is left out: a process ended while it was timed. --retune times it again\n"
SHAPES = "at the shapes of networks"
BERT = "bert_base at 64, bf16, not tuned"

# run.sh of the stand-in bundle. rows.json: the first row whose expression is found in the command (and its shard) says what is done.
STAND_IN = r'''#!/usr/bin/env python3
import json, os, pathlib, re, signal, sys, time
here, arguments = pathlib.Path(__file__).parent, sys.argv[1:]
told = lambda option: arguments[arguments.index(option) + 1] if option in arguments else ""
command = " ".join(arguments) + f" shard {os.environ.get('GTEST_SHARD_INDEX')} of {os.environ.get('GTEST_TOTAL_SHARDS')}"
begin = time.time()
say = next((row for expression, row in json.loads((here / "rows.json").read_text()) if re.search(expression, command)), {})
if say.get("once") and any(command == json.loads(line)["command"] for line in (here / "calls").read_text().splitlines()):
    say = {}
pathlib.Path(os.environ["TANDEM_CACHE"]).mkdir(exist_ok=True)
(pathlib.Path(os.environ["TANDEM_CACHE"]) / "compiled").write_text("an engine")
times = told("--cache") or told("--tuning-cache")
known = bool(times) and os.path.exists(times)
if times:
    open(times, "a").write("1e-5\ta kernel\n")
if "timing" in say:
    path = pathlib.Path(times).parent / f".times.timing-{os.getpid()}"
    path.write_text(say["timing"])
    os.utime(path, (time.time() - say.get("for", 0),) * 2)
if told("--output"):
    pathlib.Path(told("--output")).write_text("weights")
out = say.get("out")
if out is None and arguments[0] == "tandem_steps":
    out = json.dumps({**STEPS, "compile_seconds": 1.0 if known else STEPS["compile_seconds"]}) + "\n"
if out is None and "train" in arguments:
    out = "".join(json.dumps({"event": "step", "step": i, "loss": 2 - i / 1000}) + "\n" for i in range(int(told("--steps")))) + json.dumps({"event": "done", "peak_bytes": 1, "predicted_peak_bytes": 2}) + "\n"
print(out if out is not None else DEVICES if "devices" in arguments else OK, end="", flush=True)
print(say.get("err", ""), end="", file=sys.stderr, flush=True)
time.sleep(say.get("sleep", 0))
with open(here / "calls", "a") as calls:
    calls.write(json.dumps({"command": command, "begin": begin, "end": time.time()}) + "\n")
if "signal" in say:
    os.kill(os.getpid(), say["signal"])
sys.exit(say.get("status", 0))
'''

# Name, --only, rows of the stand-in, exit status, and of rows of the table what they say: result and an expression.
ROWS = [
    ("all is well", BERT, [], 0, {"cuda:0": ("found", "NVIDIA H100, 81920 MiB, 3000 GB/s, 60 TFLOP/s; CUDA 13.0"), BERT: ("ok", "640 samples/s; .*, one graph; compiled in 12.5 s")}),
    ("no GPU", BERT, [["tandem devices", {"out": json.dumps([CPU, NONE])}]], 3, {}),
    ("no devices are told", BERT, [["tandem devices", {"out": "", "err": "Segmentation fault\n", "status": 1}]], 1, {}),
    ("lines around the devices", BERT, [["tandem devices", {"out": "[note] cuDNN is slow\n" + DEVICES + "bye\n", "err": "Traceback (most recent call last):\n"}]], 0,
     {BERT: ("ok", ""), "printed beside the devices": ("told", "Traceback .* cuDNN is slow bye")}),
    ("devices over several lines, with fields that nobody knows, and without those that are", BERT, [["tandem devices", {"out": json.dumps([CPU, {"device": "cuda:0", "usable": True, "memory": "much", "new": {"a": [1]}}], indent=1)}]], 0,
     {"cuda:0": ("found", "unnamed, memory unknown, .*backend unknown"), BERT: ("ok", "")}),
    ("formats that a GPU has not", "bert_mini", [["tandem devices", {"out": json.dumps([{**GPU, "formats": ["fp32"]}])}]], 0, {"bert_mini, fp32, cuda:0 --optimizer adamw --lr 1e-4": ("ok", "")}),
    ("results are in stdout alone", BERT, [["tandem_steps", {"out": "a line\n" + json.dumps(STEPS) + "\n", "err": '{"median_ms": 1}\nTraceback\n'}]], 0, {BERT: ("ok", "640 samples/s")}),
    ("a result without its fields", BERT, [["tandem_steps", {"out": '{"median_ms": 1}\n'}]], 1, {BERT: ("FAILED", "gpu-check itself: KeyError")}),
    ("a step in parts", BERT, [["tandem_steps", {"out": json.dumps({**STEPS, "not_captured": "Loop waits"})}]], 1, {BERT: ("FAILED", "not one graph: Loop waits.*compiled in 12.5 s")}),
    ("a program's message", BERT, [["tandem_steps", {"out": "begun\n", "err": "out of memory\n", "status": 5}]], 1, {BERT: ("FAILED", r"^out of memory \(status 5\)$")}),
    ("a refusal", BERT, [["tandem_steps", {"err": "8-bit products need a GPU of\n", "status": 2}]], 0, {BERT: ("refused", "")}),
    ("a kernel ends its process", BERT, [["tandem_steps", {"timing": KEY, "signal": 11, "once": True}]], 0,
     {BERT: ("ok", r"640 samples/s.*ended by a kernel while it was timed \(.*-11\)+: cudnn.convolution/eng5.k2=3"), "kernels that ended a process while they were timed": ("told", "eng5")}),
    ("kernels end it over and over", BERT, [["tandem_steps", {"timing": KEY, "signal": 11}]], 1, {BERT: ("FAILED", "eng5")}),
    ("a plan leaves a kernel out", "lenet, fp32, cuda:0*4", [["train", {"err": "planning\nthe kernel times\n" + WARNING}]], 0, {"lenet, fp32, cuda:0*4": ("ok", "left out as it once ended its process: cudnn.convolution/eng5.k2=3$")}),
    ("tests crash", "number formats", [["shard 1 of 2", {"out": CRASH, "err": "Aborted\n", "signal": 6}]], 1, {"number formats against the CPU, on 1 and 4 logical devices": ("FAILED", r"3 passed, 0 failed.*shard 2: in A.b: Aborted \(status -6\)")}),
    ("tests fail", "number formats", [["shard 1 of 2", {"out": LOST, "status": 1}]], 1, {"number formats against the CPU, on 1 and 4 logical devices": ("FAILED", "2 passed, 1 failed.*: A.a$")}),
    ("no test runs", "number formats", [["cuda_tests", {"out": "[  PASSED  ] 0 tests.\n"}]], 1, {"number formats against the CPU, on 1 and 4 logical devices": ("FAILED", "nothing ran")}),
    ("exchanges on one GPU", "exchanges, ", [], 0, {"exchanges, zero, scatters and gathers: NCCL, 2 ranks on one card": ("ok", ""), "exchanges, pipeline, sends: 2 logical devices of one process": ("ok", ""),
                                                    "exchanges, pipeline, sends: 2 GPUs, one process": ("skipped", "one GPU")}),
    ("exchanges on two GPUs", "exchanges, tensor", [["tandem devices", {"out": json.dumps([GPU, {**GPU, "device": "cuda:1"}])}]], 0, {"exchanges, tensor, sums and broadcasts: NCCL, a process for each of 2 GPUs": ("ok", "")}),
]


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        self.bundle, self.logs = self.work / "bundle", self.work / "logs"
        (self.bundle / "models").mkdir(parents=True)
        for name in ("bert_base", "bert_mini"):
            (self.bundle / "models" / f"{name}.onnx").touch()
        shutil.copytree(SCRIPTS, self.bundle / "scripts", ignore=lambda _, names: [n for n in names if not re.match("gpu[-_]check", n)])
        values = {name: globals()[name] for name in ("DEVICES", "STEPS", "OK")}
        (self.bundle / "run.sh").write_text(STAND_IN.replace("here, arguments =", "".join(f"{n} = {v!r}\n" for n, v in values.items()) + "here, arguments =", 1))
        (self.bundle / "run.sh").chmod(0o755)
        self.stand_in([])

    def stand_in(self, rows):
        (self.bundle / "rows.json").write_text(json.dumps(rows))
        (self.bundle / "calls").write_text("")

    def calls(self):
        return [json.loads(line) for line in (self.bundle / "calls").read_text().splitlines()]

    def check(self, *options, logs=None):
        """Exit status, what is printed, and the table's rows."""
        logs = logs or self.logs
        done = subprocess.run([str(self.bundle / "scripts/gpu-check"), "--logs", str(logs), *options], capture_output=True, text=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, timeout=120)
        results = logs / "results.json"
        return done.returncode, done.stdout + done.stderr, json.loads(results.read_text())["rows"] if results.exists() else {}

    def test_rows(self):
        for name, only, rows, status, wanted in ROWS:
            with self.subTest(name):
                shutil.rmtree(self.logs, ignore_errors=True)
                self.stand_in([[expression.replace("of 2", f"of {self.processes()}"), row] for expression, row in rows])
                got, text, table = self.check("--only", only)
                self.assertEqual(got, status, text)
                for row, (result, detail) in wanted.items():
                    self.assertEqual(table.get(row, {}).get("result"), result, text)
                    self.assertRegex(table[row]["detail"], detail or "^")

    @staticmethod
    def processes(most=8):
        return min(most, len(os.sched_getaffinity(0)))

    def test_a_suite_runs_in_shards_and_what_is_timed_alone(self):
        self.stand_in([["cuda_tests|tandem_steps", {"sleep": 0.5}]])
        status, text, _ = self.check("--only", "t")
        calls = [c for c in self.calls() if "_tests" in c["command"] or "tandem_steps" in c["command"]]
        together = lambda a, b: a["begin"] < b["end"] and b["begin"] < a["end"]
        timed = [c for c in calls if "tandem_steps" in c["command"]]
        formats = [c for c in calls if "GpuPrecision" in c["command"]]
        self.assertEqual(len(formats), self.processes(), text)
        self.assertTrue(all(together(a, b) for a in formats for b in formats))
        self.assertTrue(timed)
        self.assertFalse([(a, b) for a in timed for b in calls if a is not b and together(a, b)])
        shards = [re.search(r"shard (\d+) of (\d+)", c["command"]).groups() for c in calls if "GpuShapes.*-" in c["command"]]
        total = 8 * self.processes(4)
        self.assertEqual(sorted(int(s) for s, _ in shards), list(range(total)))
        self.assertEqual({int(t) for _, t in shards}, {total})

    def known(self, seconds, **results):
        """Results of a call before, by which the checks of these names take so long."""
        self.logs.mkdir()
        rows = {name: {"result": "ok", "detail": "", "seconds": seconds} for name in self.shapes()}
        (self.logs / "results.json").write_text(json.dumps({"rows": {**rows, **results}, "kept": {}}))

    @staticmethod
    def shapes():
        return [f"kernels with each other {SHAPES}, {i + 1} of 8" for i in range(8)]

    def test_what_hangs_ends_with_the_budget_and_is_gone_on_with(self):
        self.known(0.2)
        self.stand_in([[f"GpuShapes.*shard 2 of {8 * self.processes(4)}$", {"out": CRASH, "sleep": 60}]])
        begin = time.monotonic()
        status, text, table = self.check("--only", SHAPES, "--budget", "8")
        self.assertLess(time.monotonic() - begin, 16)
        self.assertEqual(status, 0, text)
        self.assertEqual([table.get(name, {}).get("result") for name in self.shapes()], ["ok", "ok", "unfinished"] + 5 * [None], text)
        self.assertIn("the budget ended before 6 checks: --resume goes on with them", text)
        self.stand_in([])
        status, text, table = self.check("--only", SHAPES, "--resume")
        self.assertEqual([table.get(name, {}).get("result") for name in self.shapes()], 8 * ["ok"], text)
        total = str(8 * self.processes(4))
        self.assertFalse([c for c in self.calls() if re.search(f"shard [01] of {total}$", c["command"])])

    def test_a_kernel_that_the_budget_ended_is_no_fatal_one(self):
        for seconds, stays in ((0, False), (100, True)):  # that the kernel was timed for: it hangs
            with self.subTest(seconds):
                shutil.rmtree(self.logs, ignore_errors=True)
                self.stand_in([["tandem_steps", {"timing": KEY, "for": seconds, "sleep": 60}]])
                _, text, table = self.check("--only", BERT, "--budget", "6")  # a busy machine takes two seconds to begin
                self.assertEqual(table[BERT]["result"], "unfinished", text)
                self.assertEqual(bool(list(self.logs.glob(".times.timing-*"))), stays)

    def test_times_and_what_was_compiled_are_packed_and_gone_on_with(self):
        status, text, table = self.check("--only", BERT)
        self.assertIn("compiled in 12.5 s", table[BERT]["detail"], text)
        elsewhere = self.work / "elsewhere"
        with tarfile.open(self.work / "logs.tar.gz") as tar:
            names = tar.getnames()
            tar.extractall(elsewhere)
        for name in ("results.json", "table.md", "times", "cache/compiled", "devices.log"):
            self.assertIn(f"logs/{name}", names)
        self.assertFalse([name for name in names if name.endswith(".onnx")])
        self.stand_in([])
        tuned = BERT.replace(", not tuned", "")
        status, text, table = self.check("--only", "bert_base at 64, bf16", "--resume", logs=elsewhere / "logs")
        self.assertIn("compiled in 1.0 s", table[tuned]["detail"], text)
        self.assertEqual([c["command"].split("--autotune ")[1][0] for c in self.calls() if "tandem_steps" in c["command"]], ["1"])

    def test_damaged_results_are_none(self):
        self.logs.mkdir()
        (self.logs / "results.json").write_text('{"rows": [')
        self.assertEqual(self.check("--only", BERT, "--resume")[2][BERT]["result"], "ok")

    def planned(self, *options):
        """Names and seconds of what would run, and of what would be left, for each budget."""
        status, text, _ = self.check("--plan", *options)
        self.assertEqual((status, self.calls()), (0, []), text)
        calls = {}
        for part in re.split(r"^a call ", text, flags=re.MULTILINE)[1:]:
            begun, left = part.split("left for the next call")
            calls[int(re.search(r"of (\d+) s|without", part)[1] or 0)] = tuple(re.findall(at + r" +(\d+)  \w+ +(.*)$", rows, re.MULTILINE) for at, rows in ((r"^ +\d+", begun), ("^", left)))
        return calls

    def test_a_plan_is_made_without_a_device(self):
        calls = self.planned()
        self.assertFalse(self.logs.exists())
        self.assertEqual(list(calls), [300, 540])
        for budget, (begun, left) in calls.items():
            self.assertTrue(begun and left)
            self.assertLessEqual(sum(int(seconds) for seconds, _ in begun), budget + 1)
        names = [name for _, name in self.planned("--budget", "0", "--python", "python3")[0][0]]
        order = ["devices", "kernels against the CPU", "lenet, fp32, cuda:0", "resnet50 at 256, bf16, not tuned", "resnet50 at 256, bf16", "resnet50 at 256, bf16, PyTorch graphs",
                 "plans against the CPU, on 1 to 4 logical devices", "mini_googlenet, fp32, cuda:0", "bert_base at 64, bf16", self.shapes()[0], "conformance: ONNX node tests", "kernels against the CPU, memcheck"]
        self.assertEqual([name for name in names if name in order], order)
        self.assertEqual(len(set(names)), len(names))

    def test_a_plan_goes_by_the_seconds_that_were_kept(self):
        self.known(50.0)
        (begun, left), = self.planned("--budget", "120", "--only", SHAPES).values()
        self.assertEqual([(name, int(seconds)) for seconds, name in begun[1:]], [(name, 50) for name in self.shapes()[:2]])
        self.assertEqual(len(left), 6)
        (begun, left), = self.planned("--budget", "120", "--only", SHAPES, "--resume").values()
        self.assertEqual((len(begun), left), (1, []))

    def test_two_gpus_of_one_process_are_asked_for(self):
        self.stand_in([["tandem devices", {"out": json.dumps([GPU, {**GPU, "device": "cuda:1"}])}]])
        for only in ("2 GPUs, one process", "2 GPUs of one process"):
            self.assertEqual(self.check("--only", only)[0], 0)
        on_both = [c["command"] for c in self.calls() if "--devices cuda:0,cuda:1" in c["command"]]
        self.assertEqual(len(on_both), 6)
        self.assertFalse([c for c in on_both if "--processes 1 " not in c])

    def test_without_python_the_reason_is_told_alone(self):
        tools = self.work / "tools"
        tools.mkdir()
        for name in ("bash", "dirname", "grep", "awk", "tr", "cat"):
            (tools / name).symlink_to(shutil.which(name))
        for devices, status, said in ((NOT_USABLE, 3, "gpu-check: there is no GPU to check: cuda not usable: the NVIDIA driver is missing \n"),
                                      (NOT_USABLE + "cuda:0   NVIDIA H100\n", 2, "gpu-check: python3 is missing, which runs the checks")):
            (self.bundle / "run.sh").write_text(f"#!{shutil.which('bash')}\ncat << 'E'\n{devices}E\n")
            done = subprocess.run([str(self.bundle / "scripts/gpu-check")], capture_output=True, text=True, env={"PATH": str(tools)}, timeout=60)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertTrue(done.stderr.startswith(said), done.stderr)


if __name__ == "__main__":
    unittest.main()
