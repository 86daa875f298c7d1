"""Checks of gpu-check that train: loss curves beside the CPU's, equal bits, what a whole training does besides steps."""
import hashlib

from gpu_check_machine import CURVE, MEBI, OPTIONS, SGD, Machine, compare, failed, file_name, json_lines, loss_curve, worst

ADAMW = ["--optimizer", "adamw", "--lr", "1e-4"]
# Network, batch, steps, devices, options. The mini networks drop out; bert_mini and gpt_mini attend and look words up.
CURVES = [("lenet", 128, 100, "cuda:0", []), ("lenet", 128, 100, "cuda:0*4", []), ("lenet", 128, 100, "cuda:0", ["--lr-schedule", "cosine,warmup=0.5"]), ("mini_googlenet", 64, 40, "cuda:0", []),
          ("mini_googlenet", 64, 40, "cuda:0*2", ["--sync-batch-norm", "--check-replicas", "10"]), ("bert_mini", 16, 20, "cuda:0", ADAMW), ("gpt_mini", 8, 20, "cuda:0", ADAMW)]
ALL_PRECISIONS = [("lenet", []), ("mini_googlenet", []), ("bert_mini", ADAMW), ("gpt_mini", ADAMW)]  # on one device
# Where float16's gradients overflow a step is skipped, as it should be, and the curve is another one.
HALF = ["--loss-scale", "1024"]
TOO_LARGE = 2.0 ** 40  # a loss scale from which steps are skipped
# 7 whole batches and one of 4 samples an epoch, and an evaluation whose last batch is short, too.
WHOLE = ["--batch-size", "128", "--epochs", "3", "--checkpoint-every", "5"]


class Trainings(Machine):
    def training(self, name, model, *options):
        rate = [] if "--lr" in options else SGD
        folder = [] if "--run-dir" in options else ["--run-dir", "none"]
        return self.program("tandem", "train", self.model(model), "--json", "--tuning-cache", self.times.file, *folder, "--init", "he-normal", "--seed", "1", *rate, *OPTIONS.get(model, []),
                            "--output", self.trained(name), *options)

    def trained(self, name):
        return self.logs / (file_name(name) + ".onnx")

    def reference(self, model, *options):
        """The CPU's loss curve in float32: taken once, and kept for resumed runs."""
        name = " ".join([model, "fp32, cpu:0", *map(str, options)])
        if name not in self.report.kept:
            output = self.run(name, self.training(name, model, *options, "--devices", "cpu:0"))
            if output.status != 0:
                raise RuntimeError(f"on the CPU: {output.last_line()}")
            self.report.keep(name, loss_curve(output.out))
        return self.report.kept[name]

    def data(self, model):
        return {"lenet": self.arguments.data, "mini_googlenet": "random"}.get(model, "random,samples=160")

    def curve(self, name, model, batch, steps, devices, further, precision, processes=()):
        options = ["--data", self.data(model), "--batch-size", batch, "--steps", steps, *further]
        expected = self.reference(model, *options)
        output = self.run(name, self.training(name, model, *options, "--devices", devices, *processes, "--precision", precision, *(HALF if precision == "fp16" else [])))
        if output.status != 0:
            return failed(output)
        near, how = compare(loss_curve(output.out), expected, steps, CURVE[precision])
        done = json_lines(output.out)[-1]
        taken, planned = done["peak_bytes"] / MEBI, done["predicted_peak_bytes"] / MEBI
        return ("ok" if near and taken <= planned else "FAILED"), f"loss as the CPU's {how}; {taken:.1f} MiB, {planned:.1f} at most were predicted"

    def whole(self, name):
        """Short last batches, evaluations and checkpoints between the steps of a captured plan; a resumed run; what was written."""
        data = ["--data", "synthetic:digits,train=900,test=300"]
        runs = {}
        for which, parts in (("in one", [[]]), ("in two", [["--steps", "13"], ["--steps", "0", "--resume"]])):
            folder = self.logs / ("run " + which)
            events = []
            for number, part in enumerate(parts):
                given = [*data, "--run-dir", folder, "--deterministic", *WHOLE, *part, *([] if number else ["--overwrite"])]
                output = self.run(f"{name}, {which}, {number + 1}", self.training(f"{name}, {which}", "lenet", *given, "--devices", "cuda:0"))
                if output.status != 0:
                    result, detail = failed(output)
                    return result, f"{which}, part {number + 1}: {detail}"
                events += json_lines(output.out)
            steps = {e["step"]: e["loss"] for e in events if e.get("event") == "step"}
            runs[which] = (steps, events[-1]["val_loss"], hashlib.sha256(self.trained(f"{name}, {which}").read_bytes()).hexdigest())
        steps, validation, _ = runs["in one"]
        differs = [what for what, a, b in zip(("losses", "validation", "trained files"), *runs.values()) if a != b]
        expected = self.reference("lenet", *data, *WHOLE)
        near, how = compare(list(steps.values()), expected, len(expected), CURVE["fp32"])
        output = self.run(f"{name}, evaluated", self.program("tandem", "evaluate", self.trained(f"{name}, in one"), *data, "--devices", "cpu:0", "--json"))
        told = json_lines(output.out)[-1] if output.status == 0 and json_lines(output.out) else {}
        apart = worst([told.get("loss", float("nan"))], [validation])
        good = near and not differs and apart <= CURVE["fp32"][0]
        return ("ok" if good else "FAILED"), (f"loss as the CPU's {how}; resumed: " + (f"other {' and '.join(differs)}" if differs else "the same bits") +
                                              f"; the written model's loss on the CPU is the validation's to {apart:.1e}")

    def skipped_steps(self, name):
        """From a loss scale that is much too large: it halves, and until it fits nothing is learnt, replayed steps included."""
        steps = 60
        common = ["--data", self.arguments.data, "--batch-size", "64", "--steps", steps, "--devices", "cuda:0", "--precision", "fp16", "--deterministic"]
        events = {}
        for which, options in (("too large", ["--loss-scale", TOO_LARGE]), ("nothing learnt", ["--loss-scale", "1024", "--lr", "1e-30"])):
            output = self.run(f"{name}, {which}", self.training(f"{name}, {which}", "lenet", *common, *options))
            if output.status != 0:
                return failed(output)
            events[which] = [e for e in json_lines(output.out) if e.get("event") == "step"]
        scales = [e["loss_scale"] for e in events["too large"]]
        skipped = sum(after < before for before, after in zip(scales, scales[1:]))
        halves = scales[:skipped + 1] == [TOO_LARGE / 2 ** i for i in range(skipped + 1)] or scales[:skipped + 1] == [TOO_LARGE / 2 ** (i + 1) for i in range(skipped + 1)]
        losses = {which: [e["loss"] for e in list_] for which, list_ in events.items()}
        same = losses["too large"][:skipped] == losses["nothing learnt"][:skipped]
        learns = losses["too large"][-1] != losses["nothing learnt"][-1]
        good = halves and same and learns and 2 < skipped < steps - 5
        return ("ok" if good else "FAILED"), (f"{skipped} of {steps} steps skipped, the scale {'halves' if halves else 'does not halve'} to {scales[-1] if scales else None}, "
                                              f"weights {'stay' if same else 'change'} meanwhile and {'change' if learns else 'stay'} then")

    def same_bits(self, name, options):
        """Of losses and trained files, which --deterministic promises; without it the row tells."""
        runs = []
        for number in (1, 2):
            output = self.run(f"{name} {number}", self.training(f"{name} {number}", "lenet", "--data", self.arguments.data, "--batch-size", "64", "--steps", "50", "--devices", "cuda:0", *options))
            if output.status != 0:
                return failed(output)
            runs.append((loss_curve(output.out), hashlib.sha256(self.trained(f"{name} {number}").read_bytes()).hexdigest()))
        differs = [what for what, a, b in zip(("losses", "trained files"), *runs) if a != b]
        return ("FAILED" if differs and options else "ok"), ("other " + " and ".join(differs) if differs else f"{len(runs[0][0])} losses and the trained files")

    def plan_without_driver(self, name):
        """A plan that was made where no GPU is seen, for an H200, trains on the GPU."""
        plan, batch = self.logs / "without-driver.plan", "64"
        output = self.run(f"{name}, planned", self.program("tandem", "plan", self.model("lenet"), "--devices", "cuda:0", "--batch-size", batch, "--momentum", "0.9", "--format", "plan", "--output", plan), {"CUDA_VISIBLE_DEVICES": ""})
        if output.status != 0:
            return failed(output)
        losses = []
        for options in (["--plan", plan], []):
            output = self.run(f"{name}, {'it' if options else 'its own'}", self.program("tandem_steps", "--model", self.model("lenet"), "--device", "cuda:0", "--batch", batch, "--steps", "30", "--cache", self.times.file, *options))
            if output.status != 0 or not json_lines(output.out):
                return failed(output)
            losses.append(json_lines(output.out)[-1]["loss"])
        apart = worst(losses[:1], losses[1:])
        return ("ok" if apart <= CURVE["fp32"][0] else "FAILED"), f"loss as of the plan made on the GPU to {apart:.1e}"
