"""What `fit` shows while it trains: nothing, a line an epoch, or a bar that moves with the steps."""
import sys
import time

from ._errors import UsageError

_WIDTH = 24  # of the bar
_SECONDS = 0.1  # between two pictures of it


def _numbers(logs):
    hidden = ("seconds", "samples_per_second")
    return "  ".join(f"{name} {value:.4g}" for name, value in logs.items() if name not in hidden)


class Silent:
    """Shows nothing."""
    says = False

    def begin_epoch(self, epoch):
        """epoch: from 1."""

    def step(self, batch, report):
        """batch: of the epoch, from 1."""

    def epoch(self, report, logs):
        """After an epoch and its validation."""

    def end(self):
        """After the last epoch, or where the run was broken off."""


class Lines(Silent):
    """A line an epoch."""
    says = True

    def epoch(self, report, logs):
        print(f"epoch {report['epoch']}/{report['epochs'] or '?'}  {_numbers(logs)}  {logs.get('samples_per_second', 0):.0f} samples/s",
              file=sys.stderr)


class Bar(Lines):
    """A line that is written anew: the step of how many, a bar, the time that an epoch still takes, the means of the epoch so far."""

    def __init__(self, epochs):
        self.epochs, self.length = epochs, 0

    def begin_epoch(self, epoch):
        self.began, self.shown = time.monotonic(), 0.0
        self.sums = {"loss": [0.0, 0], "accuracy": [0.0, 0]}

    def step(self, batch, report):
        for name, sum_of in self.sums.items():
            if name in report:
                sum_of[0] += report[name] * report["size"]
                sum_of[1] += report["size"]
        now = time.monotonic()
        if now - self.shown < _SECONDS:
            return
        self.shown, seconds = now, now - self.began
        steps = report["steps"] // self.epochs if report["steps"] % self.epochs == 0 else 0  # of an epoch; 0: not known
        means = "  ".join(f"{name} {total / samples:.4g}" for name, (total, samples) in self.sums.items() if samples)
        head = f"epoch {report['epoch']}/{self.epochs}  step {batch}"
        if steps >= batch:
            done = _WIDTH * batch // steps
            left = seconds / batch * (steps - batch)
            head += f"/{steps} [{'=' * done}{'.' * (_WIDTH - done)}] {left // 60:.0f}:{left % 60:02.0f} left"
        self._write(f"{head}  {means}")

    def _write(self, text):
        sys.stderr.write("\r" + text.ljust(self.length))
        sys.stderr.flush()
        self.length = len(text)

    def end(self):
        if self.length:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()
            self.length = 0

    def epoch(self, report, logs):
        self.end()
        super().epoch(report, logs)


def progress_of(verbose, epochs):
    """By Keras's argument: 0, 1, 2 or "auto"."""
    if verbose == "auto":
        verbose = int(sys.stderr.isatty() or "ipykernel" in sys.modules)
    makes = {0: Silent, 1: lambda: Bar(epochs), 2: Lines}
    if verbose not in makes:
        raise UsageError(f"verbose={verbose!r}, expected 0, 1, 2 or \"auto\"")
    return makes[verbose]()
