"""Checks of gpu-check with several devices: exchanges of each kind, two processes on one card, and, where there are two GPUs, on both."""
import os
import signal
import time

from gpu_check_machine import COMMUNICATION, CURVE, LIMIT, Machine, Skipped, compare, failed, loss_curve

# Two processes that share a card take each other for two machines: NCCL refuses two ranks of one on a card.
ONE_CARD = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo"}
SHARED, BOTH = "cuda:0*2", "cuda:0,cuda:1"
TIMEOUT = 15  # seconds that a rank waits for another, where one is lost
# What happens to the second rank in the middle of a training, of which the first must tell.
LOSSES_OF_A_RANK = [("is killed", signal.SIGKILL), ("hangs", signal.SIGSTOP)]
REPLICAS = ["--check-replicas", "5"]  # ends a training where devices' weights differ in a bit
PAIRS = [("2 GPUs of one process", "lenet", 128, 100, []), ("2 GPUs of one process, BatchNormalization over both", "mini_googlenet", 64, 40, ["--sync-batch-norm"])]
# How the work is shared, and by which exchanges.
EXCHANGES = [("data, sums", REPLICAS), ("tensor, sums and broadcasts", ["--parallel", "tensor=2"]), ("pipeline, sends", ["--parallel", "pipeline=2", "--micro-batches", "4"]),
             ("zero, scatters and gathers", ["--parallel", "zero=3"])]
STEPS = 30
ALONE = ["--processes", "1"]  # else several GPUs have a process each


class Ranks(Machine):
    def start_ranks(self, name, devices, *options):
        return [self.start(f"{name}, rank {rank}", self.training(f"{name}, rank {rank}", "lenet", *options, "--data", self.arguments.data,
                                                                 "--batch-size", "64", "--devices", devices, "--world-size", "2",
                                                                 "--rank", rank, "--address", "127.0.0.1:29555"),
                           {**ONE_CARD, "NCCL_HOSTID": f"rank{rank}"} if devices == SHARED else {}) for rank in range(2)]

    def needs(self, devices):
        if devices == BOTH and self.gpus < 2:
            raise Skipped("one GPU")

    def one_alone(self):
        """The loss curve of one GPU: taken once, and kept for resumed runs."""
        name = "lenet, one GPU alone"
        if name not in self.report.kept:
            output = self.run(name, self.training(name, "lenet", "--data", self.arguments.data, "--batch-size", "64", "--steps", STEPS, "--devices", "cuda:0"))
            if output.status != 0:
                raise RuntimeError(f"one GPU alone: {output.last_line()}")
            self.report.keep(name, loss_curve(output.out))
        return self.report.kept[name]

    def exchange(self, name, devices, options, ranks):
        """A training whose devices share the work, of one process or of two, learns as one GPU does."""
        self.needs(devices)
        expected = self.one_alone()
        given = ["--steps", STEPS, *options]
        outputs = [job.end(LIMIT) for job in self.start_ranks(name, devices, *given)] if ranks == 2 else [
            self.run(name, self.training(name, "lenet", *given, *ALONE, "--data", self.arguments.data, "--batch-size", "64", "--devices", devices))]
        for rank, output in enumerate(outputs):
            if output.status != 0:
                result, detail = failed(output)
                return result, f"rank {rank}: {detail}"
        near, how = compare(loss_curve(outputs[0].out), expected, STEPS, CURVE["fp32"])
        return ("ok" if near else "FAILED"), f"loss as one alone {how}"

    def rank_is_lost(self, name, devices, lost_by):
        self.needs(devices)
        first, second = self.start_ranks(name, devices, "--steps", 10 ** 8, "--rank-timeout", TIMEOUT)
        while len(loss_curve(first.output().out)) < 5 and not (first.ended() or second.ended()) and self.budget.left() > 0:
            time.sleep(0.2)
        if first.ended() or second.ended():
            result, detail = failed((first if first.ended() else second).output("unknown"))
            return result, "it ended before: " + detail
        os.killpg(second.process.pid, lost_by)
        begin = time.monotonic()
        output = first.end(begin - first.begin + 4 * TIMEOUT)
        told = output.status == COMMUNICATION and "rank 1" in output.last_line()
        return ("ok" if told else "FAILED"), f"rank 0 ended after {time.monotonic() - begin:.1f} s: {output.last_line()}"

    def pair(self, name, model, batch, steps, options):
        self.needs(BOTH)
        return self.curve(name, model, batch, steps, BOTH, [*options, *REPLICAS], "fp32", ALONE)
