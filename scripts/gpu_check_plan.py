"""Which checks of gpu-check are begun within a budget, and, dry, what that comes to."""
import math

from gpu_checks import DEVICES


def choose(rows, estimate, left):
    """One after the other those that fit in what is left, in their order. Where none does, the first is begun: else it would never be."""
    begun, waiting = False, []
    for row in rows:
        seconds = estimate(row[0])
        if seconds > left():
            waiting.append(row)
            continue
        begun = begun or seconds > 0
        yield row
    if waiting and not begun and left() > 0:
        yield waiting[0]


class Call:
    """What a call would do: a clock that goes on by estimates."""

    def __init__(self, checks, budget):
        self.at, self.lines, taken = 0.0, [], set()
        self.add(checks, DEVICES)
        for name, *_ in choose(checks.wanted(), checks.estimate, lambda: (budget or math.inf) - self.at):
            taken.add(name)
            self.add(checks, name)
        self.left = [name for name, *_ in checks.wanted() if name not in taken]

    def add(self, checks, name):
        seconds = checks.estimate(name)
        kept = " (as it took)" if name in checks.report.seconds else ""
        self.lines.append(f"{self.at:6.0f} {seconds:6.0f}  {name}{kept}")
        self.at += seconds


def text_of(checks, budget):
    call = Call(checks, budget)
    left = sum(map(checks.estimate, call.left))
    lines = [f"a call of {budget:.0f} s: {len(call.lines)} checks, {call.at:.0f} s" if budget else f"a call without a budget: {len(call.lines)} checks, {call.at:.0f} s",
             f"{'at':>6} {'takes':>6}  check", *call.lines, f"left for the next call: {len(call.left)} checks, {left:.0f} s"]
    return "\n".join(lines + [f"{checks.estimate(name):13.0f}  {name}" for name in call.left])
