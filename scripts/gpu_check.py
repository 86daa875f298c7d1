"""On a GPU machine, runs all that needs a GPU from a bundle of gpu-bundle, what is worth most first, and prints one table.

    scripts/gpu-check [--budget SECONDS] [--resume] [--logs FOLDER] [--data SPEC] [--python PYTHON] [--only TEXT] [--plan]

Bundle: `scripts/gpu-bundle` where tandem is built makes build/gpu-bundle.tar.xz. `gpu-bundle/scripts/gpu-check --plan` says there, without a
GPU, what calls of 300 and 540 s (or of --budget) would run, in order, with the seconds that each check is known or guessed to take.

Run: on the GPU machine `tar xf gpu-bundle.tar.xz && gpu-bundle/scripts/gpu-check --budget 540`. --data is what LeNet learns (idx:DIR for
MNIST; default synthetic:digits), --python an interpreter with PyTorch to compare with. A check that takes longer than is left waits for
another call. After every check the table is in table.md of the logs' folder and the results in results.json; at the end FOLDER.tar.gz
has them, the logs (NAME.log is what a program printed, NAME.err its messages), kernels' times and what was compiled.

Resume: on any machine with the bundle `tar xf gpu-check-logs.tar.gz && gpu-bundle/scripts/gpu-check --resume`. It goes on with what was
not begun and with what the budget (0: none) cut off, which is "unfinished". Kernels that were timed are not timed again. A kernel that
ended its process while it was timed is left out from then on, and the row says so.

Exit status: 0 where all is well, 1 where a check failed, 3 where there is no GPU. What the machine refuses (a sanitizer, two ranks on a
card) is no failure.
"""
import argparse
import pathlib
import signal
import sys
import time

from gpu_check_job import Job
from gpu_check_machine import NoGpu, Skipped
from gpu_check_plan import choose, notes, text_of
from gpu_check_report import Budget, OutOfTime, Report
from gpu_checks import Checks

NO_GPU = 3
BUDGET, PLANNED = 540, (300, 540)  # seconds


def run(checks, report, budget):
    """Runs what is wanted and not yet known; how many checks the budget left out."""
    for name, check, arguments in choose(checks.wanted(), checks.estimate, budget.left):
        begin = time.monotonic()
        checks.left_out.clear()
        try:
            result, detail = check(name, *arguments)
        except OutOfTime:
            result, detail = "unfinished", "the budget ended"
        except Skipped as reason:
            result, detail = "skipped", str(reason)
        except Exception as error:  # noqa: BLE001  one check's fault is a row and not the end of all
            result, detail = "FAILED", f"gpu-check itself: {type(error).__name__}: {error}"
        finally:
            checks.times.forgive(Job.end_all())
        report.row(name, result, "; ".join([detail, *checks.left_out]), time.monotonic() - begin)
        print(f"{name}: {result}: {report.rows[name]['detail']}", file=sys.stderr, flush=True)
    if ended := sorted({checks.times.name(key) for key in checks.times.fatal()}):
        report.row("kernels that ended a process while they were timed", "told", ", ".join(ended))
    return len(checks.wanted())


def main():
    parser = argparse.ArgumentParser(prog="gpu-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, help=f"seconds, 0 for none (default {BUDGET})")
    parser.add_argument("--resume", action="store_true", help="go on where results.json ends")
    parser.add_argument("--logs", default="gpu-check-logs")
    parser.add_argument("--data", default="synthetic:digits")
    parser.add_argument("--python", default="", help="an interpreter with PyTorch")
    parser.add_argument("--only", default="", help="only checks whose name has this text")
    parser.add_argument("--plan", action="store_true", help="print what would run, and run nothing")
    arguments = parser.parse_args()

    def stop(number, _):
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    budget = Budget(BUDGET if arguments.budget is None else arguments.budget)
    report = Report(pathlib.Path(arguments.logs), arguments.resume, dry=arguments.plan)
    checks = Checks(arguments, report, budget)
    if arguments.plan:
        print("\n\n".join([*(text_of(checks, seconds) for seconds in (PLANNED if arguments.budget is None else [arguments.budget])), notes(checks)]))
        return
    try:
        checks.find()
        left_out = run(checks, report, budget)
        if left_out:
            print(f"gpu-check: the budget ended before {left_out} checks: --resume goes on with them", file=sys.stderr)
    except NoGpu as none:
        print(f"gpu-check: there is no GPU to check: {none}", file=sys.stderr)
        sys.exit(NO_GPU)
    finally:  # also where somebody stops it
        checks.times.forgive(Job.end_all())
        if report.rows:
            report.save()
            print(report.table())
            print(f"gpu-check: {report.pack()}", file=sys.stderr)
    sys.exit(report.failed())


if __name__ == "__main__":
    main()
