"""A real browser without a window, told what to do over a pipe by Chromium's own protocol: keys, pointer, pictures."""

import base64
import fcntl
import io
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE = 60.0  # seconds: a busy machine is no failure
CODES = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9, "Enter": 13, "Home": 36,
         "End": 35, "Escape": 27}  # fmt: skip


class Browser:
    """One page of a browser; `problems` are what it wrote to its console, and addresses that it asked for."""

    def __init__(self, read: int, write: int) -> None:
        self.read, self.write = read, write
        self.rest, self.last, self.session = b"", 0, ""
        self.problems: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **given: Any) -> Any:
        """Send a command and return its result."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": given}
        message |= {"sessionId": self.session} if self.session else {}
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message()
            self.note(answer)
            if answer.get("id") == self.last:
                assert "error" not in answer, answer
                return answer["result"]

    def message(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            assert select.select([self.read], [], [], PATIENCE)[0], "the browser does not answer"
            self.rest += os.read(self.read, 2**20)
        first, _, self.rest = self.rest.partition(b"\0")
        found: dict[str, Any] = json.loads(first)
        return found

    def note(self, message: dict[str, Any]) -> None:
        method, given = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(given["exceptionDetails"].get("exception", given)))
        elif method == "Runtime.consoleAPICalled":
            self.problems.append(str(given["args"]))
        elif method == "Log.entryAdded":
            self.problems.append(given["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not given["request"]["url"].startswith(("file:", "data:")):
            self.problems.append(f"asked for {given['request']['url']}")

    def open(self, page: Path, width: int = 1200, height: int = 900, *, dark: bool = False) -> None:
        """Open a file in a window of this size."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=page.as_uri())
        self.until("document.readyState === 'complete' && location.protocol === 'file:'")

    def ask(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until the expression is true in the page."""
        end = time.monotonic() + PATIENCE
        while not self.ask(expression):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.01)

    def press(self, key: str, times: int = 1) -> None:
        text = {"text": "\r"} if key == "Enter" else {}
        given = {"key": key, "code": key, "windowsVirtualKeyCode": CODES[key]}
        for _ in range(times):
            self.call("Input.dispatchKeyEvent", type="keyDown", **given, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", **given)

    def point(self, x: float, y: float, *, click: bool = False) -> None:
        """Move the pointer there, in pixels of the window, and click."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, file: Path | None = None, *, whole: bool = False) -> NDArray[np.uint8]:
        """Return what the window shows (H, W, 3), or the whole page, and keep it as a file."""
        data = base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"])
        if file:
            file.write_bytes(data)
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser, and end it with the block."""
    assert CHROMIUM
    # The browser reads commands from 3 and answers on 4. Numbers of our own ends are far from these.
    inner_read, write = os.pipe()
    read, inner_write = os.pipe()
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (inner_read, inner_write)]
    os.close(inner_read)
    os.close(inner_write)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
        words += [
            "--disable-background-networking",
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--remote-debugging-pipe",
        ]
        words += [f"--user-data-dir={profile}"]
        shell = ["bash", "-c", f'exec "$@" 3<&{ends[0]} 4>&{ends[1]}', "bash", *words]
        with subprocess.Popen(shell, pass_fds=ends, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            for end in ends:
                os.close(end)
            try:
                opened = Browser(read, write)
                yield opened
                opened.session = ""
                opened.call("Browser.close")
            finally:
                process.terminate()
                process.wait()
                os.close(read)
                os.close(write)
