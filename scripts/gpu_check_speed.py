"""Benchmarks of gpu-check: training steps of ours, and PyTorch's beside them. Nothing else runs meanwhile."""
from gpu_check_machine import MEBI, OPTIONS, Machine, failed, json_lines

BENCHMARKS = [("resnet50", 256), ("bert_base", 64), ("gpt2_small", 16), ("mini_googlenet", 1024), ("xception", 128), ("mlp", 1024), ("lstm", 64)]
UNTUNED = BENCHMARKS[:3]  # also with kernels chosen by estimates: soon begun
# Of the copies of batches, the share of the time that lies within a step; told by waiting threads, so of short copies it says little.
HIDDEN, LEAST_COPY = 0.8, 0.5  # ms
PEERS = ["graphs", "compile", "eager"]
# What libraries' kernels and a captured step may take of a device beside the plan's arenas, of the 2 GiB that plans leave to all.
BESIDE = 1024 * MEBI


class Speed(Machine):
    def benchmark(self, name, model, batch, precision, autotune):
        output = self.run(name, self.program("tandem_steps", "--model", self.model(model), "--device", "cuda:0", "--batch", batch, "--warmup", "15", "--steps", "40",
                                             "--late", "10", "--profile", "5", "--precision", precision, "--autotune", autotune, "--cache", self.times.file, *OPTIONS.get(model, [])))
        results = json_lines(output.out)
        if output.status != 0 or not results:
            return failed(output)
        own = results[-1]
        rate = 1e3 * batch / own["median_ms"]
        self.report.keep(f"{name}, samples/s", rate)
        hidden = own["late_ms"] - own["median_ms"]
        whole = f"not one graph: {own['not_captured']}" if own["not_captured"] else ""
        detail = (f"{rate:.0f} samples/s; step {own['median_ms']:.2f} ms, from {'timed kernels' if autotune else 'estimates'} {own['predicted_ms']:.2f}, {whole or 'one graph'}; compiled in {own['compile_seconds']:.1f} s; "
                  f"{own['late_ms']:.2f} ms where each waits for its batch, whose copy takes {own['copies_ms']:.2f}: {hidden:.2f} hidden, and {100 * own['overlap']:.0f}% of the copies' time lies within a step; "
                  f"{own['device_bytes'] / MEBI:.0f} MiB taken, {own['arena_bytes'] / MEBI:.0f} of them predicted")
        faults = [whole] if whole else []
        if own["copies_ms"] >= LEAST_COPY and own["overlap"] < HIDDEN:
            faults.append("batches are copied while nothing is computed")
        if own["device_bytes"] > own["arena_bytes"] + BESIDE:
            faults.append(f"more than {BESIDE // MEBI} MiB beside what was predicted")
        return ("FAILED", "; ".join([*faults, detail])) if faults else ("ok", detail)

    def peer(self, name, model, batch, precision, mode):
        output = self.run(name, [self.arguments.python, self.bundle / "bench/pytorch_steps.py", "--model", model, "--batch", batch, "--device", "cuda", "--memory", "channels_last",
                                 "--precision", precision, "--mode", mode, "--warmup", "15", "--steps", "40"])
        results = json_lines(output.out)
        if output.status != 0 or not results:
            return failed(output)
        rate, own = results[-1]["samples_per_second"], self.report.kept.get(f"{model} at {batch}, {precision}, samples/s")
        return "ok", f"{rate:.0f} samples/s" + (f"; ours is {own / rate:.2f} times that" if own else "")
