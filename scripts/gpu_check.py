"""On a GPU machine, runs all that needs a GPU from a bundle of gpu-bundle, what is worth most first, and prints one table.

    scripts/gpu-check [--budget SECONDS] [--resume] [--logs FOLDER] [--data SPEC] [--python PYTHON] [--only TEXT]

After every check the table is in table.md of the logs' folder and the results in results.json; at the end FOLDER.tar.gz has both and
the logs. A check that the budget (default 540 s, 0 for none) cuts off is "unfinished"; --resume goes on with it and with what was
not begun, and needs results.json alone. --data is what LeNet learns (idx:DIR for MNIST; default synthetic:digits), --python an
interpreter with PyTorch to compare with. Exit status: 0 where all is well, 1 where a check failed, 3 where there is no GPU. What
the machine refuses (a sanitizer, two ranks on a card) is no failure.
"""
import argparse
import pathlib
import signal
import sys
import time

from gpu_check_machine import NoGpu, Skipped
from gpu_check_report import Budget, Job, OutOfTime, Report
from gpu_checks import Checks

NO_GPU = 3
LEAST = 15  # seconds left that a check is begun with


def run(checks, report, budget, only):
    """Runs what is wanted and not yet known; how many checks the budget left out."""
    left_out = 0
    for name, check, arguments in checks.all():
        if only not in name or report.done(name):
            continue
        if budget.left() < LEAST:
            left_out += 1
            continue
        begin = time.monotonic()
        try:
            result, detail = check(name, *arguments)
        except OutOfTime:
            result, detail = "unfinished", "the budget ended"
            left_out += 1
        except Skipped as reason:
            result, detail = "skipped", str(reason)
        except Exception as error:  # noqa: BLE001  one check's fault is a row and not the end of all
            result, detail = "FAILED", f"gpu-check itself: {type(error).__name__}: {error}"
        finally:
            Job.kill_all()
        report.row(name, result, detail, time.monotonic() - begin)
        print(f"{name}: {result}: {detail}", file=sys.stderr, flush=True)
    return left_out


def main():
    parser = argparse.ArgumentParser(prog="gpu-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=540, help="seconds, 0 for none")
    parser.add_argument("--resume", action="store_true", help="go on where results.json ends")
    parser.add_argument("--logs", default="gpu-check-logs")
    parser.add_argument("--data", default="synthetic:digits")
    parser.add_argument("--python", default="", help="an interpreter with PyTorch")
    parser.add_argument("--only", default="", help="only checks whose name has this text")
    arguments = parser.parse_args()

    def stop(number, _):
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    budget = Budget(arguments.budget)
    report = Report(pathlib.Path(arguments.logs), arguments.resume)
    checks = Checks(arguments, report, budget)
    try:
        checks.find()
        left_out = run(checks, report, budget, arguments.only)
        if left_out:
            print(f"gpu-check: the budget ended before {left_out} checks: --resume goes on with them", file=sys.stderr)
    except NoGpu as none:
        print(f"gpu-check: there is no GPU to check: {none}", file=sys.stderr)
        sys.exit(NO_GPU)
    finally:  # also where somebody stops it
        Job.kill_all()
        if report.rows:
            report.save()
            print(report.table())
            print(f"gpu-check: {report.pack()}", file=sys.stderr)
    sys.exit(report.failed())


if __name__ == "__main__":
    main()
