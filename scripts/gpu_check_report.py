"""What gpu-check found so far, in one file, and what it keeps for the next call: results, kernels' times, compiled kernels."""
import json
import math
import tarfile
import time

FINAL = ("ok", "FAILED", "refused", "skipped")  # results that a resumed run does not seek again
LOGS = (".json", ".md", ".log", ".err")  # of what lies in the folder
HANGS = 30  # seconds that no kernel takes to be timed


class OutOfTime(Exception):
    """The budget ended in the midst of a check."""


class Budget:
    def __init__(self, seconds):
        self.end = time.monotonic() + seconds if seconds > 0 else math.inf

    def left(self):
        return self.end - time.monotonic()


class KernelTimes:
    """The file of kernels' times (planner/lower/tuner.cpp), and the files beside it: each names what a process times (planner/lower/timed_now.h)."""

    def __init__(self, folder):
        self.file = folder / "times"

    def under_way(self):
        found = {}
        for path in self.file.parent.glob(f".{self.file.name}.timing-*"):
            try:
                found[path] = path.read_text(errors="replace")
            except FileNotFoundError:  # that process ended just now
                pass
        return found

    def fatal(self):
        """Keys of the kernels that ended their process."""
        lines = self.file.read_text(errors="replace").splitlines() if self.file.exists() else []
        return {line[len("fatal\t"):] for line in lines if line.startswith("fatal\t")} | {key for key in self.under_way().values() if key}

    @staticmethod
    def name(key):
        return key.split("|")[1] if "|" in key else key

    def forgive(self, processes):
        """Of processes that the budget ended: the kernel was no cause, unless it hung."""
        for path in self.under_way():
            if path.name.rsplit("-", 1)[1] in map(str, processes) and time.time() - path.stat().st_mtime < HANGS:
                path.unlink()


class Report:
    """Rows by name; what later checks compare with, kept. All of it is in results.json, after every row."""

    def __init__(self, folder, resume, dry=False):
        self.folder, self.rows, self.kept, self.seconds = folder, {}, {}, {}
        known = self.known()
        for name, row in known["rows"].items():  # how long a check took there, whether it is sought again or not
            if row.get("result") in ("ok", "FAILED", "unfinished"):
                self.seconds[name] = (row["result"], row.get("seconds", 0.0))
        if resume:
            self.rows, self.kept = known["rows"], known["kept"]
        if not dry:
            folder.mkdir(parents=True, exist_ok=True)

    def known(self):
        try:
            known = json.loads((self.folder / "results.json").read_text())
            return {"rows": dict(known["rows"]), "kept": dict(known["kept"])}
        except (OSError, ValueError, KeyError, TypeError):
            return {"rows": {}, "kept": {}}

    def done(self, name):
        return self.rows.get(name, {}).get("result") in FINAL

    def row(self, name, result, detail, seconds=0.0):
        self.rows[name] = {"result": result, "detail": " ".join(str(detail).replace("|", "/").split()), "seconds": round(seconds, 1)}
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
        """One file to bring home and to go on with: results, table, logs, times and caches; not the models that were trained."""
        file = self.folder.with_name(self.folder.name + ".tar.gz")
        with tarfile.open(file, "w:gz", compresslevel=3) as tar:
            for path in sorted(self.folder.iterdir()):
                if path.name in ("times", "cache") or path.name.startswith(".times.timing-") or (path.suffix in LOGS and path.stat().st_size):
                    tar.add(path, arcname=f"{self.folder.name}/{path.name}")
        return file
