"""Asks PyTorch and ONNX Runtime what they make of the zoo's architectures, and tandem of their exports.

survey.py [--family NAME]... [--sample | --parity] [--variants LIST] [--exports FOLDER] [--results FILE [--table FILE | --beside FILE]] [PATTERN...]

For each NAME.VARIANT (zoo.py says which there are) that fits a pattern, as in a shell: it is exported; the program that TANDEM
names plans it and trains it; its first loss, the norm of its first gradient and the losses of three steps are compared
with PyTorch's from the same weights and batches (1e-4 of them; PyTorch's float64 tells how well float32 can do), and the trained
model's output with ONNX Runtime's (1e-5 of the largest value) and with that of PyTorch's trained model (1e-2). That model is the one in the file, where
the exporter has fused and computed; loss, gradient and steps are compared with the module as its user has it, too: what differs from that must be warned of.
--sample: one variant of every second row, in turn. --parity: twenty steps of zoo.PARITY's default exports. --exports keeps the files there and takes those that are there. --results appends what
was found out to a file, a line of JSON for each, and skips what is in it; --table writes the table of docs/models.md from all of it, and keeps there
the families of which the file has nothing. --beside writes the page's table of the comparison with the module alone, and leaves the rest as it is.
What is known to fail stands in known.py with its reason; when it passes, that is a failure too.
Exit code 3: a package is missing, 1: something fails.
"""
import argparse
import dataclasses
import fnmatch
import json
import os
import pathlib
import signal
import sys
import tempfile
import time
import traceback

try:
    import numpy  # noqa: F401
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401
    import onnxscript  # noqa: F401  the dynamo exporter wants it
    import torch
except (ImportError, OSError) as missing:
    print(missing)
    sys.exit(3)

import reference
import table
import zoo
from known import KNOWN
from row import Values
from trial import Trial

LIMIT = 900  # seconds that a trial may take


def apart(work):
    """What `work` returns, from a process of its own: one that crashes or hangs takes no other with it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(LIMIT)
        for stream in (1, 2):  # exporters print from C++, too
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        try:
            result = work()
        except BaseException:
            result = {"fails": "the oracle: " + " ".join(traceback.format_exc(limit=-2).split())[-300:]}
        with os.fdopen(write, "w") as pipe:
            pipe.write(json.dumps(result))
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    return json.loads(text) if text else {"fails": f"the oracle: ended by signal {status & 127}"}


def trial(row, variant, exports, steps):
    with tempfile.TemporaryDirectory() as folder, zoo.silence():
        return Trial(row, variant, folder, exports or folder, steps).run()


def warm(row):
    """What PyTorch and its exporter load when they are first used they load once for all."""
    reference.reference(row, {}, 1)
    with tempfile.TemporaryDirectory() as folder, zoo.silence():
        zoo.export(dataclasses.replace(row, make=lambda: torch.nn.Linear(3, 2), inputs={"x": Values((3,))}, write=None), "dynamo18", "dyn", pathlib.Path(folder) / "warm.onnx")


def why_not(result):
    """What is wrong with it; nothing where all is well."""
    words = result.get("not_exported") and "not exported: " + result["not_exported"]
    return words or result.get("fails") or "; ".join(result.get("differs", ()))


def known_to_fail(name):
    return next((reason for pattern, reason in KNOWN if fnmatch.fnmatch(name, pattern)), None)


def kept(path):
    """{(NAME.VARIANT, steps): result} of a file of results; the last one of each counts."""
    lines = path.read_text().splitlines() if path and path.exists() else ()
    return {(f"{r['name']}.{r['variant']}", r["steps"]): r for r in map(json.loads, lines)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--family", action="append", choices=zoo.FAMILIES)
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--variants", default="")
    parser.add_argument("--parity", action="store_true")
    parser.add_argument("--exports", type=pathlib.Path)
    parser.add_argument("--only-exported", action="store_true", help="pass over what is not in --exports")
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--beside", type=pathlib.Path)
    parser.add_argument("patterns", nargs="*", default=["*"])
    arguments = parser.parse_args()
    if not os.access(os.environ.get("TANDEM", ""), os.X_OK):
        parser.error("TANDEM does not name the program: set it to build/release/tandem")
    if arguments.exports:
        arguments.exports.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    steps = 20 if arguments.parity else reference.STEPS
    rows, absent = zoo.load(arguments.family or zoo.FAMILIES)
    for family, missing in absent.items():
        print(f"{family}: passed over: {missing}")
    if arguments.family and not rows:
        return 3
    if arguments.parity:
        rows, arguments.variants = {n: rows[n] for n in zoo.PARITY if n in rows}, zoo.DEFAULT
    names = [f"{row}.{v}" for row in rows for v in arguments.variants.split(",")] if arguments.variants else zoo.variants(rows, arguments.sample)
    chosen = [n for n in names if any(fnmatch.fnmatch(n, p) for p in arguments.patterns)]
    done = kept(arguments.results)
    if chosen:
        warm(next(iter(rows.values())))
    failures, well = [], 0
    for name in chosen:
        row, variant = name.split(".", 1)
        if (name, steps) in done or (arguments.only_exported and not (arguments.exports / f"{name}.onnx").exists()):
            continue
        start = time.time()
        result = {"name": row, "family": rows[row].family, "variant": variant, "steps": steps}
        result.update(apart(lambda: trial(rows[row], variant, arguments.exports, steps)))
        why, known = why_not(result), known_to_fail(name)
        well += not why
        if bool(why) != bool(known):
            failures.append(f"{name}: {why or 'passes, but known.py says: ' + known}")
        print(f"{name:<46}{'known: ' + known if why and known else why or 'ok'}  {time.time() - start:.1f} s", flush=True)
        if arguments.results:
            with open(arguments.results, "a") as file:
                file.write(json.dumps(result) + "\n")
    if arguments.table:
        page = arguments.table.read_text() if arguments.table.exists() else ""
        arguments.table.write_text(table.text(kept(arguments.results).values(), why_not, known_to_fail, page))
    if arguments.beside:
        arguments.beside.write_text(table.with_beside(arguments.beside.read_text(), kept(arguments.results).values()))
    print(f"{well} well, {len(failures)} not\n" + "\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
