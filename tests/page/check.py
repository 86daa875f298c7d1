"""Plans' pages in headless Chromium: what is there by role, what the keyboard does, that nothing is asked of the network, sizes, times.

TANDEM names the program. --pictures DIR keeps screenshots of each page at both widths and themes. Exit code 3: the browser or a package
is missing, 1: a check fails.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

try:
    from plans import PLANS, ROOT, make, make_models
except ImportError as missing:
    print(missing)
    sys.exit(3)
import browser

MOST_BYTES = 5_000_000
MOST_MS = 2000  # of a processor, till all parts of a page are there: the clock's depend on what else runs

EVERYWHERE = [("heading", "plan of"), ("heading", "Placement"), ("heading", "Timeline"), ("heading", "Memory over time"), ("heading", "Work"),
              ("term", "Peak memory"), ("image", "Where the step's time goes"), ("region", "Placement graph"), ("image", "Timeline:"),
              ("image", "Memory of"), ("table", "By module"), ("table", "By operator"), ("columnheader", "time"), ("button", "Zoom in")]

failures = []


def want(holds, what):
    if not holds:
        failures.append(what)
        print("FAILED:", what)


def check_diff(tab, folder):
    """Two plans side by side, below what differs."""
    plan, page = folder / "other.plan", folder / "diff.html"
    line = [os.environ["TANDEM"], "plan", str(ROOT / "models/lenet.onnx"), "--batch-size", "32", "--quiet"]
    done = subprocess.run([*line, "--devices", "cpu:0-1", "--format", "plan", "--output", str(plan)], capture_output=True, text=True)
    want(done.returncode == 0, f"diff: {done.stderr.strip()[-600:]}")
    done = subprocess.run([*line, "--devices", "cpu:0", "--diff", str(plan), "--format", "html", "--output", str(page)], capture_output=True, text=True)
    want(done.returncode == 1, f"diff: exit code {done.returncode}, expected 1: {done.stderr.strip()[-600:]}")
    for width, height in ((1600, 1000), (390, 844)):
        tab.show(width, height)
        problems, requests, ready, _ = tab.open(page)
        print(f"diff, {width} px: ready after {ready} ms, {page.stat().st_size} bytes")
        want(not problems and not requests, f"diff, {width} px: {problems[:3]} {requests[:3]}")
        wide = tab.evaluate("document.documentElement.scrollWidth")
        want(wide <= width, f"diff: the page is {wide} px wide, expected {width}")
    check_roles(tab, "diff", [("heading", "What differs"), ("heading", "other.plan"), ("table", "Devices"), ("table", "Steps of"), ("table", "Plan")])
    want(tab.evaluate("document.querySelectorAll('.pair canvas').length") == 4, "diff: not two timelines and two pictures of memory")


def check_roles(tab, name, wanted):
    roles = tab.roles()
    for role, text in wanted:
        want(any(r == role and text in n for r, n in roles), f"{name}: no {role} with '{text}' in its name")
    named = ("button", "image", "table", "region", "combobox", "searchbox", "meter")
    unnamed = [r for r, n in roles if r in named and not n]
    want(not unnamed, f"{name}: without a name: {unnamed}")


def check_keyboard(tab, name):
    """A module opens by Enter and stays in focus; the timeline is zoomed and gone through by keys; a table sorts by its head."""
    boxes = "document.querySelectorAll('.placement .box').length"
    before = tab.evaluate(boxes)
    closed = tab.evaluate("(e => { e?.focus(); return e?.getAttribute('aria-expanded') ?? null; })"
                          "(document.querySelector('.placement [aria-expanded=false]'))")
    if closed is not None:
        tab.key("Enter")
        want(tab.evaluate(boxes) > before, f"{name}: Enter on a module opens nothing")
        focused = tab.evaluate("document.activeElement.getAttribute('aria-expanded')")
        want(focused == "true", f"{name}: the opened module has lost the focus")
        tab.key("Enter")
        want(tab.evaluate(boxes) == before, f"{name}: Enter on an open module does not close it")
    tab.evaluate("document.querySelector('canvas').focus()")
    for key in ("+", "ArrowRight", "ArrowDown"):
        tab.key(key)
    said = tab.evaluate("document.querySelector('.said').textContent")
    want("step " in said and " on " in said, f"{name}: the timeline tells nothing of the step that the keys chose, but '{said}'")
    order = ("(() => { const t = document.querySelector('table[aria-label=\"By operator\"]'), h = t.querySelectorAll('thead th')[4];"
             " h.querySelector('button').click(); return h.getAttribute('aria-sort'); })()")
    down, up = tab.evaluate(order), tab.evaluate(order)
    want((down, up) == ("descending", "ascending"), f"{name}: a table's head sorts {down}, then {up}")


def check_hostile(tab, name):
    text = tab.evaluate("document.body.textContent")
    want("<script>" in text, f"{name}: the names are not there as text")
    made = tab.evaluate("[document.scripts.length, document.querySelectorAll('img, iframe, [onload], [onerror]').length]")
    want(made == [2, 0], f"{name}: markup of names became elements: {made[0]} scripts, {made[1]} others")


def check(tab, page, name, pictures):
    want(page.stat().st_size < MOST_BYTES, f"{name}: the page has {page.stat().st_size} bytes, expected less than {MOST_BYTES}")
    for width, height, dark in ((1280, 900, False), (390, 844, True), (1280, 900, True), (390, 844, False)):
        if not pictures and (width, dark) in ((1280, True), (390, False)):
            continue
        tab.show(width, height, dark)
        problems, requests, ready, took = tab.open(page)
        at = f"{name}, {width} px"
        print(f"{at}: ready after {ready} ms, of which {took} on a processor, {page.stat().st_size} bytes")
        want(not problems, f"{at}: {problems[:3]}")
        want(not requests, f"{at}: it asks the network for {requests[:3]}")
        want(took < MOST_MS, f"{at}: takes {took} ms of a processor, expected less than {MOST_MS}")
        wide = tab.evaluate("document.documentElement.scrollWidth")
        want(wide <= width, f"{at}: the page is {wide} px wide")
        if pictures:
            tab.picture(pictures / f"{page.stem}-{width}-{'dark' if dark else 'light'}.png", whole=True)
        if width == 1280 and not dark:
            check_roles(tab, name, EVERYWHERE + PLANS[name][2])
            check_keyboard(tab, name)
            if name == "hostile":
                check_hostile(tab, name)
            problems = tab.problems()
            want(not problems, f"{name}, after keys: {problems[:3]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pages", nargs="*", help="those to check; none: all")
    parser.add_argument("--pictures", type=pathlib.Path)
    arguments = parser.parse_args()
    if not browser.is_here():
        return 3
    with tempfile.TemporaryDirectory() as name, browser.Browser() as tab:
        folder = pathlib.Path(name)
        make_models(folder)
        for name in arguments.pages or PLANS:
            begin = time.monotonic()
            page = make(folder, name, "html", ".html")
            print(f"{name}: planned in {time.monotonic() - begin:.1f} s")
            check(tab, page, name, arguments.pictures)
        if not arguments.pages:
            check_diff(tab, folder)
    return 1 if failures else 0


sys.exit(main())
