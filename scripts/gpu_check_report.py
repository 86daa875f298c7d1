"""What gpu-check found so far, in one file, and the programs that it starts, within a budget of seconds."""
import json
import math
import os
import signal
import subprocess
import tarfile
import time

FINAL = ("ok", "FAILED", "refused", "skipped")  # results that a resumed run does not seek again


class OutOfTime(Exception):
    """The budget ended in the midst of a check."""


class Budget:
    def __init__(self, seconds):
        self.end = time.monotonic() + seconds if seconds > 0 else math.inf

    def left(self):
        return self.end - time.monotonic()


class Report:
    """Rows by name; what later checks compare with, kept. All of it is in results.json, after every row."""

    def __init__(self, folder, resume):
        self.folder, self.rows, self.kept = folder, {}, {}
        folder.mkdir(parents=True, exist_ok=True)
        if resume and (folder / "results.json").exists():
            known = json.loads((folder / "results.json").read_text())
            self.rows, self.kept = known["rows"], known["kept"]

    def done(self, name):
        return self.rows.get(name, {}).get("result") in FINAL

    def row(self, name, result, detail, seconds=0.0):
        self.rows[name] = {"result": result, "detail": detail, "seconds": round(seconds, 1)}
        self.save()

    def keep(self, name, value):
        self.kept[name] = value
        self.save()

    def save(self):
        for file, text in (("results.json", json.dumps({"rows": self.rows, "kept": self.kept}, indent=1) + "\n"), ("table.md", self.table())):
            fresh = self.folder / (file + ".new")
            fresh.write_text(text)
            fresh.replace(self.folder / file)

    def table(self):
        rows = [("check", "result", "detail"), *((name, r["result"], r["detail"]) for name, r in self.rows.items())]
        widths = [max(len(row[i]) for row in rows) for i in range(2)]
        lines = [f"| {name:{widths[0]}} | {result:{widths[1]}} | {detail} |" for name, result, detail in rows]
        lines.insert(1, f"|{'-' * (widths[0] + 2)}|{'-' * (widths[1] + 2)}|--------|")
        return "\n".join(lines) + "\n"

    def failed(self):
        return any(r["result"] == "FAILED" for r in self.rows.values())

    def pack(self):
        """One file to bring home: results, table and logs; not the models that were trained."""
        file = self.folder.with_name(self.folder.name + ".tar.gz")
        with tarfile.open(file, "w:gz") as tar:
            for path in sorted(self.folder.iterdir()):
                if path.suffix in (".json", ".md", ".log"):
                    tar.add(path, arcname=f"{self.folder.name}/{path.name}")
        return file


class Job:
    """A program whose output goes to a log. It and all it started end with the budget."""
    running = []

    def __init__(self, log, command, environment, budget):
        self.log, self.begin, self.budget, self.process = log, time.monotonic(), budget, None
        with open(log, "w") as file:
            try:
                self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                                env={**os.environ, **environment}, start_new_session=True)
                Job.running.append(self)
            except OSError as error:
                file.write(f"{command[0]}: {error}\n")

    def text(self):
        return self.log.read_text(errors="replace")

    def ended(self):
        return self.process is None or self.process.poll() is not None

    def end(self, limit=math.inf):
        """Exit status and output. Raises OutOfTime where the budget ends first."""
        if self.process is None:
            return "not started", self.text()
        wait = min(limit - (time.monotonic() - self.begin), self.budget.left())
        try:
            return self.process.wait(max(0.0, wait) if math.isfinite(wait) else None), self.text()
        except subprocess.TimeoutExpired:
            self.kill()
            if self.budget.left() <= 0:
                raise OutOfTime from None
            return f"no end within {limit:.0f} s", self.text()

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    @classmethod
    def kill_all(cls):
        for job in cls.running:
            job.kill()
