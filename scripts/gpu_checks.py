"""The checks of gpu-check, what is worth most first: name, check and its arguments. And how long each takes."""
import fnmatch

import gpu_check_tests as suites
from gpu_check_machine import EIGHT_BITS, PRECISIONS
from gpu_check_ranks import BOTH, EXCHANGES, LOSSES_OF_A_RANK, PAIRS, SHARED, Ranks
from gpu_check_speed import BENCHMARKS, PEERS, UNTUNED, Speed
from gpu_check_tests import Tests
from gpu_check_trainings import ALL_PRECISIONS, CURVES, Trainings

DEVICES = "devices"  # what comes before all checks
# Seconds by name, the first that fits, and where they are from.
MEASURED, SHARE, GUESS, NONE, TOOK = "measured", "share", "guessed", "skipped", "took"
SOURCES = {MEASURED: "on an H100 with 16 cores", SHARE: "of what several took there together", GUESS: "nothing is known", NONE: "as there is one GPU; with two it takes longer", TOOK: "in an earlier call"}
ESTIMATES = [
    (DEVICES, 8, SHARE), ("resnet50 at 256, *not tuned", 25, MEASURED), ("bert_base at 64, *not tuned", 17, MEASURED), ("gpt2_small at 16, *not tuned", 40, MEASURED),
    ("*, PyTorch eager", 25, GUESS), ("*, PyTorch *", 70, GUESS), ("resnet50 at 256, bf16", 150, GUESS), ("* at [0-9]*, *", 70, GUESS),
    ("*kernels *, memcheck", 180, GUESS), ("*, memcheck", 120, GUESS), ("*, *check", 180, GUESS),
    (suites.KERNELS.name, 30, SHARE), (suites.KEEPING.name, 30, SHARE), (suites.PLANS.name, 20, SHARE), (suites.FORMATS.name, 20, SHARE), (suites.SUMS.name, 8, SHARE), (suites.EXCHANGES.name, 8, SHARE),
    (suites.RANKS.name, 30, GUESS), (suites.SHAPES.name + "*", 33, SHARE), (suites.LARGE.name, 40, GUESS), (suites.NODES.name, 57, MEASURED), (suites.GRADIENTS.name, 60, GUESS),
    ("plans *, scratch memory poisoned", 25, GUESS), ("lenet*", 8, SHARE), ("mini_googlenet*", 15, GUESS), ("*_mini*", 20, GUESS), ("a whole training*", 25, GUESS), ("steps skipped*", 16, GUESS),
    ("*2 GPUs*", 1, NONE), ("*one is killed", 25, GUESS), ("*one hangs", 30, GUESS), ("exchanges*one process", 10, GUESS), ("exchanges*", 15, GUESS), ("*", 15, GUESS),
]
BEYOND = 1.5  # times what an unfinished check took it takes at least


class Checks(Tests, Trainings, Ranks, Speed):
    def all(self):
        benchmark = lambda model, batch, precision, tuned=True: (f"{model} at {batch}, {precision}" + ("" if tuned else ", not tuned"), self.benchmark, (model, batch, precision, int(tuned)))
        # Where --python names an interpreter.
        peers = lambda model, batch, precision, modes: [(f"{model} at {batch}, {precision}, PyTorch {mode}", self.peer, (model, batch, precision, mode)) for mode in modes if self.arguments.python]
        tuned = lambda b: (benchmark(*b, "bf16"), *peers(*b, "bf16", PEERS[:1]))
        test = lambda suite: [(suite.name + (f", {i + 1} of {suite.parts}" if suite.parts > 1 else ""), self.tests, (suite, i)) for i in range(suite.parts)]
        curve = lambda model, batch, steps, devices, options, precision: (" ".join([f"{model}, {precision}, {devices}", *options]), self.curve, (model, batch, steps, devices, options, precision))
        on_two = lambda devices: "2 ranks on one card" if devices == SHARED else "a process for each of 2 GPUs"
        precisions = lambda model, devices, options: ["fp32"] if devices != "cuda:0" or (model, options) not in ALL_PRECISIONS else [*PRECISIONS, EIGHT_BITS] if options else PRECISIONS
        curves = [curve(*c, precision) for c in CURVES for precision in precisions(c[0], c[3], c[4])]
        lenet = [c for c in curves if c[0].startswith("lenet, ") and c[0].endswith(", cuda:0")]
        best, others = BENCHMARKS[0], BENCHMARKS[1:]
        in_places = [("2 logical devices of one process", SHARED, 1), ("2 GPUs, one process", BOTH, 1), ("NCCL, " + on_two(SHARED), SHARED, 2), ("NCCL, " + on_two(BOTH), BOTH, 2)]
        rows = [
            *test(suites.KERNELS), *test(suites.KEEPING), *lenet,
            *(benchmark(*b, "bf16", tuned=False) for b in UNTUNED),
            *tuned(best),
            *test(suites.PLANS), *test(suites.FORMATS),
            *(c for c in curves if c not in lenet),
            ("a whole training, resumed, evaluated", self.whole, ()), ("steps skipped by too large a loss scale", self.skipped_steps, ()),
            *(row for b in others for row in tuned(b)),
            *(benchmark(*best, p) for p in PRECISIONS[1:]), benchmark(*others[0], EIGHT_BITS),
            *test(suites.SHAPES), *test(suites.LARGE),
            *test(suites.SUMS), *test(suites.EXCHANGES), *test(suites.RANKS),
            *((f"exchanges, {what}: {where}", self.exchange, (devices, options, ranks)) for where, devices, ranks in in_places for what, options in EXCHANGES),
            *((f"NCCL, {on_two(d)}: one {what}", self.rank_is_lost, (d, by)) for d in (SHARED, BOTH) for what, by in LOSSES_OF_A_RANK),
            *((name, self.pair, arguments) for name, *arguments in PAIRS),
            *test(suites.NODES), *test(suites.GRADIENTS),
            ("the same bits in two processes, --deterministic", self.same_bits, (["--deterministic"],)), ("the same bits in two processes, as it comes", self.same_bits, ([],)),
            ("a plan made where no GPU is seen", self.plan_without_driver, ()),
            ("plans against the CPU, scratch memory poisoned", self.tests, (suites.PLANS, 0, suites.POISON)),
            *((f"{suite.name}, {tool}", self.sanitize, (suite, tool)) for suite in suites.SANITIZED for tool in suite.tools),
            *(row for b in BENCHMARKS for row in peers(*b, "bf16", PEERS[1:])), *(benchmark(*b, "fp32") for b in others),
        ]
        unknown = [p for p in (*PRECISIONS, EIGHT_BITS) if p not in self.known]
        return [row for row in rows if not any(p in row[2] for p in unknown)]

    def wanted(self):
        """Those that are asked for and not yet known."""
        return [row for row in self.all() if self.arguments.only in row[0] and not self.report.done(row[0])]

    def told(self, name):
        """Seconds, and where they are from: those that it took before, else the table's."""
        seconds, source = next((float(seconds), source) for pattern, seconds, source in ESTIMATES if fnmatch.fnmatchcase(name, pattern))
        result, took = self.report.seconds.get(name, ("", 0.0))
        least = took * (BEYOND if result == "unfinished" else 1)
        return (least, TOOK) if result == "ok" or least > seconds else (seconds, source)

    def estimate(self, name):
        return self.told(name)[0]
