"""What compare and guard share: the models and one measurement, a process of its own."""
import json
import os
import pathlib
import resource
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXPORTED = ROOT / "build/bench-models"  # by export_models.py
IDLE_SHARE = 0.06  # of one core
TICKS = os.sysconf("SC_CLK_TCK")
REFUSED = 3  # tandem's exit code where a model cannot be used


class Model:
    def __init__(self, batch, steps, exported=False, class_axis=None):
        self.batch, self.steps, self.exported, self.class_axis = batch, steps, exported, class_axis

    def path(self, name):
        return (EXPORTED if self.exported else ROOT / "models") / f"{name}.onnx"


# Batch, and steps to time.
MODELS = {
    "mlp": Model(128, 100),
    "lenet": Model(128, 60),
    "mini_googlenet": Model(64, 25),
    "resnet18": Model(8, 15),
    "resnet50": Model(8, 9),
    "mobilenetv2": Model(8, 15),
    "xception": Model(8, 7),
    "bert_mini": Model(8, 25, exported=True),
    "vit_tiny": Model(8, 15, exported=True),
    "gpt_mini": Model(8, 15, exported=True, class_axis=2),
    "lstm": Model(32, 15, exported=True),
    "gru": Model(32, 15, exported=True),
}


def steps_of(model, scale):
    return str(max(3, int(MODELS[model].steps * scale)))


def tandem_command(program, model, arguments, cache, precision="fp32"):
    """The command that times a model by tandem_steps."""
    m = MODELS[model]
    command = [*arguments.prefix.split(), str(program), "--model", str(m.path(model)), "--batch", str(m.batch), "--threads",
               str(arguments.threads), "--steps", steps_of(model, arguments.scale), "--cache", cache, "--precision", precision]
    return command + (["--class-axis", str(m.class_axis)] if m.class_axis is not None else [])


def machine_seconds():
    """CPU seconds that everything on this machine has used."""
    with open("/proc/stat") as file:
        fields = [int(v) for v in file.readline().split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / TICKS


def own_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def wait_until_idle(limit):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        before = machine_seconds()
        time.sleep(0.5)
        if machine_seconds() - before < IDLE_SHARE * 0.5:
            return


def environment(threads):
    kept = {k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"}
    return {**kept, "OMP_NUM_THREADS": str(threads)}


def measure(command, threads, wait=0):
    """The JSON line that the command prints, with the share of the machine that others took meanwhile; or {"failed": why}."""
    if wait:
        wait_until_idle(wait)
    begin, machine, own = time.monotonic(), machine_seconds(), own_seconds()
    done = subprocess.run(command, env=environment(threads), capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["no word"]
        return {"failed": f"exit code {done.returncode}: {said[-1][:300]}", "code": done.returncode}
    result = json.loads(lines[-1])
    others = (machine_seconds() - machine) - (own_seconds() - own)
    result["others_share"] = round(max(0.0, others) / ((time.monotonic() - begin) * os.cpu_count()), 3)
    result["samples_per_second"] = 1e3 * result["batch"] / result["median_ms"]
    return result


def add_common_options(parser):
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--prefix", default="", help="before every command, such as 'chrt -f 10' on a machine that others use")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of timed steps")
    parser.add_argument("--wait-idle", type=float, default=0, metavar="SECONDS",
                        help="before each measurement wait, at most so long, until the machine is idle")
