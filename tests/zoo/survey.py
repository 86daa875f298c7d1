"""Asks PyTorch and ONNX Runtime about what tandem makes of the zoo's exports.

survey.py [--family NAME]... [--whole | --default] [--exports FOLDER] [--results FILE] [--table FILE] [PATTERN...]
"""
import argparse
import fnmatch
import json
import os
import pathlib
import signal
import sys
import tempfile
import time
import traceback

import torch

import reference
import zoo
from trial import Trial

LIMIT = 600  # seconds that a trial may take


def apart(work):
    """What `work` returns, from a process of its own: one that is killed or hangs takes no other with it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(LIMIT)
        try:
            result = work()
        except BaseException:
            result = {"error": traceback.format_exc(limit=-3)}
        with os.fdopen(write, "w") as pipe:
            pipe.write(json.dumps(result))
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    return json.loads(text) if text else {"error": f"ended by signal {status & 127}"}


def trial(row, variant, exports):
    with tempfile.TemporaryDirectory() as folder, zoo.silence():
        return Trial(row, variant, folder, exports or folder).run()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--family", action="append", choices=zoo.FAMILIES)
    p.add_argument("--variants", default="")
    p.add_argument("--exports", type=pathlib.Path)
    p.add_argument("--results", type=pathlib.Path)
    p.add_argument("--only-exported", action="store_true")
    p.add_argument("patterns", nargs="*", default=["*"])
    a = p.parse_args()
    torch.set_num_threads(1)
    rows, absent = zoo.load(a.family or zoo.FAMILIES)
    done = set()
    if a.results and a.results.exists():
        done = {f"{r['name']}.{r['variant']}" for r in map(json.loads, a.results.read_text().splitlines())}
    first = next(iter(rows.values()))
    reference.reference(first, {})  # what PyTorch loads when it is first used it loads once for all
    for name in zoo.variants(rows) if not a.variants else [f"{r}.{v}" for r in rows for v in a.variants.split(",")]:
        if not any(fnmatch.fnmatch(name, q) for q in a.patterns):
            continue
        row, variant = name.split(".", 1)
        if name in done:
            continue
        if a.only_exported and not (a.exports / f"{name}.onnx").exists():
            continue
        start = time.time()
        r = apart(lambda: trial(rows[row], variant, a.exports))
        r.setdefault("name", row)
        r.setdefault("variant", variant)
        print(f"{name:<50}", r.get("not_exported") or r.get("fails") or r.get("error") or r.get("differs") or "ok", f"{time.time() - start:.1f}s", flush=True)
        if a.results:
            with open(a.results, "a") as f:
                f.write(json.dumps(r) + "\n")


if __name__ == "__main__":
    sys.exit(main())
