"""Benchmarks of gpu-check: training steps of ours, and PyTorch's beside them."""
from gpu_check_machine import MEBI, OPTIONS, Machine, failed, json_lines

BENCHMARKS = [("resnet50", 256), ("bert_base", 64), ("gpt2_small", 16), ("mini_googlenet", 1024), ("xception", 128), ("mlp", 1024)]
PEERS = ["graphs", "compile", "eager"]
# What libraries' kernels and a captured step may take of a device beside the plan's arenas, of the 2 GiB that plans leave to all.
BESIDE = 1024 * MEBI


class Speed(Machine):
    def benchmark(self, name, model, batch, precision):
        status, text = self.run(name, self.program("tandem_steps", "--model", self.model(model), "--device", "cuda:0", "--batch", batch, "--warmup", "15", "--steps", "40",
                                                   "--late", "10", "--profile", "5", "--precision", precision, *OPTIONS.get(model, [])))
        results = json_lines(text)
        if status != 0 or not results:
            return failed(text, status)
        own = results[-1]
        rate = 1e3 * batch / own["median_ms"]
        self.report.keep(f"{name}, samples/s", rate)
        hidden = own["late_ms"] - own["median_ms"]
        detail = (f"{rate:.0f} samples/s; step {own['median_ms']:.2f} ms, from timed kernels {own['predicted_ms']:.2f}; {own['late_ms']:.2f} ms where each waits for its batch, whose copy "
                  f"takes {own['copies_ms']:.2f}: {hidden:.2f} hidden; {own['device_bytes'] / MEBI:.0f} MiB taken, {own['arena_bytes'] / MEBI:.0f} of them predicted")
        faults = []
        if own["not_captured"]:
            faults.append(f"not one graph: {own['not_captured']}")
        if own["device_bytes"] > own["arena_bytes"] + BESIDE:
            faults.append(f"more than {BESIDE // MEBI} MiB beside what was predicted")
        return ("FAILED", "; ".join([detail, *faults])) if faults else ("ok", detail)

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
