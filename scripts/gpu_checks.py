"""The checks of gpu-check, what is worth most first: name, check and its arguments."""
import gpu_check_tests as suites
from gpu_check_machine import PRECISIONS
from gpu_check_ranks import BOTH, LOSSES_OF_A_RANK, PAIRS, SHARED, Ranks
from gpu_check_speed import BENCHMARKS, PEERS, Speed
from gpu_check_tests import Tests
from gpu_check_trainings import ALL_PRECISIONS, CURVES, Trainings


class Checks(Tests, Trainings, Ranks, Speed):
    def all(self):
        benchmark = lambda model, batch, precision: (f"{model} at {batch}, {precision}", self.benchmark, (model, batch, precision))
        peer = lambda model, batch, precision, mode: (f"{model} at {batch}, {precision}, PyTorch {mode}", self.peer, (model, batch, precision, mode))
        test = lambda suite: (suite.name, self.tests, (suite.program, suite.filter))
        curve = lambda model, batch, steps, devices, options, precision: (" ".join([f"{model}, {precision}, {devices}", *options]), self.curve, (model, batch, steps, devices, options, precision))
        best, others = BENCHMARKS[0], BENCHMARKS[1:]
        on_two = lambda devices: "2 ranks on one card" if devices == SHARED else "a process for each of 2 GPUs"
        rows = [
            benchmark(*best, "bf16"), peer(*best, "bf16", "graphs"),
            *map(test, (suites.KERNELS, suites.KEEPING, suites.PLANS, suites.FORMATS)),
            *(curve(*c, precision) for c in CURVES for precision in (PRECISIONS if c[3] == "cuda:0" and (c[0], c[4]) in ALL_PRECISIONS else ["fp32"])),
            ("a whole training, resumed, evaluated", self.whole, ()), ("steps skipped by too large a loss scale", self.skipped_steps, ()),
            test(suites.SHAPES),
            *(benchmark(*b, "bf16") for b in others), *(benchmark(*best, p) for p in PRECISIONS[1:]), *(peer(*b, "bf16", "graphs") for b in others),
            ("the same bits in two processes, --deterministic", self.same_bits, (["--deterministic"],)), ("the same bits in two processes, as it comes", self.same_bits, ([],)),
            ("a plan made where no GPU is seen", self.plan_without_driver, ()),
            ("plans against the CPU, scratch memory poisoned", self.tests, (*suites.PLANS[1:3], {"TANDEM_POISON_SCRATCH": "1"})),
            test(suites.SUMS), test(suites.RANKS),
            *((f"NCCL, {on_two(d)}", self.ranks_sum, (d,)) for d in (SHARED, BOTH)),
            *((f"NCCL, {on_two(d)}: one {what}", self.rank_is_lost, (d, by)) for d in (SHARED, BOTH) for what, by in LOSSES_OF_A_RANK),
            *((name, self.pair, arguments) for name, *arguments in PAIRS),
            *map(test, (suites.NODES, suites.GRADIENTS)),
            *((f"{suite.name}, {tool}", self.sanitize, (suite.program, suite.filter, tool)) for suite in suites.SANITIZED for tool in suite.tools),
            *(peer(*b, "bf16", mode) for b in BENCHMARKS for mode in PEERS[1:]), *(benchmark(*b, "fp32") for b in others),
        ]
        unknown = [p for p in PRECISIONS if p not in self.known]
        return [row for row in rows if not any(p in row[2] for p in unknown)]
