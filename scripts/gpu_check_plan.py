"""Which checks of gpu-check are begun within a budget, and, dry, what that comes to."""
import math

from gpu_checks import DEVICES, SOURCES


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


def line_of(checks, name):
    seconds, source = checks.told(name)
    return f"{seconds:6.0f}  {source:<8}  {name}"


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
        self.lines.append(f"{self.at:6.0f} {line_of(checks, name)}")
        self.at += checks.estimate(name)


def text_of(checks, budget):
    call = Call(checks, budget)
    left = sum(map(checks.estimate, call.left))
    lines = [f"a call of {budget:.0f} s: {len(call.lines)} checks, {call.at:.0f} s" if budget else f"a call without a budget: {len(call.lines)} checks, {call.at:.0f} s",
             f"{'at':>6} {'takes':>6}  {'which is':<8}  check", *call.lines, f"left for the next call: {len(call.left)} checks, {left:.0f} s"]
    return "\n".join(lines + [" " * 7 + line_of(checks, name) for name in call.left])


def notes(checks):
    """What the reader of such texts has to know."""
    return "\n".join([*(f"{source}: {meaning}" for source, meaning in SOURCES.items()),
                      *([] if checks.arguments.python else ["without --python: no row of PyTorch, which also takes its time"])])
