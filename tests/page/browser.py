"""Headless Chromium, spoken to over a pair of pipes by its own protocol (Chrome DevTools Protocol), by the standard library alone."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def program():
    """The browser's path, or None."""
    names = [os.environ.get("TANDEM_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"]
    return next((found for name in names if name and (found := shutil.which(name))), None)


def is_here():
    if not program():
        print("no Chromium: install the package chromium, or name one by TANDEM_CHROMIUM")
    return program() is not None


class Browser:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-page-")
        to_read, self.to = os.pipe()
        self.source, from_write = os.pipe()

        def pipes():  # the browser reads 3 and writes 4
            inner, outer = os.dup(to_read), os.dup(from_write)
            os.dup2(inner, 3)
            os.dup2(outer, 4)

        self.process = subprocess.Popen(
            [program(), "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--hide-scrollbars", "--no-first-run", f"--user-data-dir={self.folder.name}", "about:blank"],
            close_fds=False, preexec_fn=pipes, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.count, self.events, self.text, self.session = 0, [], b"", None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(domain + ".enable")
        self.call("Performance.enable", timeDomain="threadTicks")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.source)
        self.folder.cleanup()

    def receive(self, seconds):
        end = time.monotonic() + seconds
        while b"\0" not in self.text:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.source], [], [], left)[0]:
                raise TimeoutError(f"the browser says nothing for {seconds} s")
            part = os.read(self.source, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self.text += part
        message, self.text = self.text.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, seconds=60, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive(seconds)
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def show(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, path, seconds=60):
        """Opens a page. Returns what was said of errors, what it asked of the network, and two times till all of it was there, in ms:
        by the clock, and what the page's thread took of a processor."""
        self.events.clear()
        self.call("Page.navigate", url="file://" + str(path))
        end = time.monotonic() + seconds
        while (ready := self.evaluate("document.documentElement?.getAttribute('data-ready') ?? null")) is None:
            if time.monotonic() > end:
                raise TimeoutError(f"{path} is not ready after {seconds} s: {self.problems()}")
            time.sleep(0.02)
        return self.problems(), self.requests(path), int(ready), self.processor_ms()

    def processor_ms(self):  # since the page was asked for
        metrics = {m["name"]: m["value"] for m in self.call("Performance.getMetrics")["metrics"]}
        return round(1000 * metrics["TaskDuration"])

    def problems(self):
        said = []
        for event in self.events:
            p = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                said.append(p["exceptionDetails"].get("exception", {}).get("description") or p["exceptionDetails"]["text"])
            elif event.get("method") == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
                said.append(" ".join(str(a.get("value", a.get("description"))) for a in p["args"]))
            elif event.get("method") == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
                said.append(p["entry"]["text"])
            elif event.get("method") == "Page.javascriptDialogOpening":
                said.append("a dialog: " + p["message"])
        return said

    def requests(self, path):
        urls = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [u for u in urls if not u.endswith(str(path)) and not u.startswith("about:")]

    def roles(self):
        """(role, name) of all that a screen reader finds."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if not n.get("ignored") and "role" in n]

    def key(self, key):
        codes = {"Enter": 13, "Tab": 9, "ArrowDown": 40, "ArrowRight": 39, "Escape": 27}
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key if len(key) > 1 else "",
                      windowsVirtualKeyCode=codes.get(key, ord(key[0])), **(text if kind == "keyDown" else {}))

    def picture(self, path, whole=False):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"clip": {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12000), "scale": 1}} if whole else {}
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **clip)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
