"""Checks of gpu-check with several ranks: two processes on one card, and, where there are two GPUs, on both."""
import os
import signal
import time

from gpu_check_machine import COMMUNICATION, CURVE, LIMIT, Machine, compare, failed, last_line, loss_curve

# Two processes that share a card take each other for two machines: NCCL refuses two ranks of one on a card.
ONE_CARD = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo"}
SHARED, BOTH = "cuda:0*2", "cuda:0,cuda:1"
TIMEOUT = 15  # seconds that a rank waits for another, where one is lost
# What happens to the second rank in the middle of a training, of which the first must tell.
LOSSES_OF_A_RANK = [("is killed", signal.SIGKILL), ("hangs", signal.SIGSTOP)]
REPLICAS = ["--check-replicas", "5"]  # ends a training where devices' weights differ in a bit
PAIRS = [("2 GPUs of one process", "lenet", 128, 100, []), ("2 GPUs of one process, BatchNormalization over both", "mini_googlenet", 64, 40, ["--sync-batch-norm"])]


class Ranks(Machine):
    def start_ranks(self, name, devices, *options):
        return [self.start(f"{name}, rank {rank}", self.training(f"{name}, rank {rank}", "lenet", *options, "--data", self.arguments.data,
                                                                 "--batch-size", "64", "--devices", devices, "--world-size", "2",
                                                                 "--rank", rank, "--address", "127.0.0.1:29555"),
                           {**ONE_CARD, "NCCL_HOSTID": f"rank{rank}"} if devices == SHARED else {}) for rank in range(2)]

    def ranks_sum(self, name, devices):
        if devices == BOTH and self.gpus < 2:
            return "skipped", "one GPU"
        steps = 30
        status, text = self.run(name + ", one alone", self.training(name + ", one alone", "lenet", "--data", self.arguments.data, "--batch-size", "64", "--steps", steps, "--devices", "cuda:0"))
        if status != 0:
            return failed(text, status)
        for rank, (status, other) in enumerate([job.end(LIMIT) for job in self.start_ranks(name, devices, "--steps", steps, *REPLICAS)]):
            if status != 0:
                result, detail = failed(other, status)
                return result, f"rank {rank}: {detail}"
            first = other if rank == 0 else first
        near, how = compare(loss_curve(first), loss_curve(text), steps, CURVE["fp32"])
        return ("ok" if near else "FAILED"), f"loss as one alone {how}"

    def rank_is_lost(self, name, devices, lost_by):
        if devices == BOTH and self.gpus < 2:
            return "skipped", "one GPU"
        first, second = self.start_ranks(name, devices, "--steps", 10 ** 8, "--rank-timeout", TIMEOUT)
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

    def pair(self, name, model, batch, steps, options):
        return self.curve(name, model, batch, steps, BOTH, [*options, *REPLICAS], "fp32") if self.gpus > 1 else ("skipped", "one GPU")
