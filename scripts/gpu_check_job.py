"""The programs that gpu-check starts, within a budget of seconds."""
import collections
import math
import os
import signal
import subprocess
import time

from gpu_check_report import OutOfTime


LONGEST = 300  # characters of a line that a row shows


class Output(collections.namedtuple("Output", "status out err")):
    """How a program ended, and what it printed. Results are read from `out` alone: anything may print to `err`."""

    def both(self):
        return self.err + "\n" + self.out

    def last_line(self):
        lines = (self.err.strip() or self.out.strip()).splitlines()
        return f"{lines[-1][:LONGEST]} (status {self.status})" if lines else f"status {self.status}"


class Job:
    """A program whose output goes to two logs, NAME.log and NAME.err. It and all it started end with the budget."""
    running = []

    def __init__(self, log, command, environment, budget):
        self.log, self.begin, self.budget, self.process = log, time.monotonic(), budget, None
        self.errors = log.with_name(log.stem + ".err")
        with open(self.log, "w") as out, open(self.errors, "w") as err:
            try:
                self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                                env={**os.environ, **environment}, start_new_session=True)
                Job.running.append(self)
            except OSError as error:
                err.write(f"{command[0]}: {error}\n")

    def output(self, status=None):
        return Output(status, *(path.read_text(errors="replace") for path in (self.log, self.errors)))

    def ended(self):
        return self.process is None or self.process.poll() is not None

    def end(self, limit=math.inf):
        """What became of it. Raises OutOfTime where the budget ends first."""
        if self.process is None:
            return self.output("not started")
        wait = min(limit - (time.monotonic() - self.begin), self.budget.left())
        try:
            return self.output(self.process.wait(max(0.0, wait) if math.isfinite(wait) else None))
        except subprocess.TimeoutExpired:
            if self.budget.left() <= 0:
                raise OutOfTime from None
            self.kill()
            return self.output(f"no end within {limit:.0f} s")

    def kill(self):
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # what it started may outlive it
        except ProcessLookupError:
            pass
        self.process.wait()

    @classmethod
    def end_all(cls):
        """Ends what still runs; the processes that this, and nothing else, ended."""
        interrupted = [job.process.pid for job in cls.running if not job.ended()]
        for job in cls.running:
            job.kill()
        cls.running.clear()
        return interrupted
