"""A headless Chromium, driven by its own protocol over a pipe: no driver, no port, no library.

Commands and answers are lines of JSON that end with a zero byte. What happens meanwhile (requests,
errors of the console) is kept, so that a test can ask for it afterwards.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

COMMAND = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
TIMEOUT_S = 15
FLAGS = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
]
# The browser speaks on the descriptors 3 and 4.
START = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"


class Browser:
    """A browser with a profile of its own."""

    def __init__(self, profile: Path) -> None:
        """Start it; its files go to the folder `profile`."""
        assert COMMAND
        pipes = [os.pipe(), os.pipe()]
        theirs = [
            fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (pipes[0][0], pipes[1][1])
        ]
        os.close(pipes[0][0])
        os.close(pipes[1][1])
        self._out, self._in = pipes[0][1], pipes[1][0]
        command = [sys.executable, "-c", START, *map(str, theirs), COMMAND, *FLAGS]
        command += [f"--user-data-dir={profile}", "about:blank"]
        with (profile.parent / "browser.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, pass_fds=theirs, stdout=log, stderr=log
            )
        for end in theirs:
            os.close(end)
        self._waiting = b""
        self._number = 0
        self.happened: list[dict[str, Any]] = []

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(10)
        os.close(self._out)
        os.close(self._in)

    def call(
        self, method: str, session: str | None = None, **params: Any
    ) -> dict[str, Any]:
        """Send a command, and return its answer."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._next(end)
            assert answer is not None, f"{method} was not answered"
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.happened.append(answer)

    def listen(self, seconds: float) -> None:
        """Keep what happens in some seconds."""
        end = time.monotonic() + seconds
        while (event := self._next(end)) is not None:
            self.happened.append(event)

    def _next(self, end: float) -> dict[str, Any] | None:
        while b"\0" not in self._waiting:
            left = max(0.0, end - time.monotonic())
            if not select.select([self._in], [], [], left)[0]:
                return None
            some = os.read(self._in, 1 << 16)
            assert some, "the browser ended"
            self._waiting += some
        message, self._waiting = self._waiting.split(b"\0", 1)
        return json.loads(message)


class Page:
    """A tab of its own, without what other tabs remember."""

    def __init__(
        self, browser: Browser, url: str, width: int = 1280, height: int = 900
    ) -> None:
        """Open an address."""
        self.browser = browser
        context = browser.call("Target.createBrowserContext")["browserContextId"]
        target = browser.call(
            "Target.createTarget", url="about:blank", browserContextId=context
        )["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        self._target = target
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        # Keys reach a tab that has the focus.
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def close(self) -> None:
        """Close the tab."""
        self.browser.call("Target.closeTarget", targetId=self._target)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command to the tab."""
        return self.browser.call(method, self.session, **params)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression."""
        done = self.call(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
        )
        assert "exceptionDetails" not in done, (
            f"{expression}: {done['exceptionDetails']}"
        )
        return done["result"].get("value")

    def wait(self, condition: str, seconds: float = TIMEOUT_S) -> Any:
        """Return the first value of an expression that is true."""
        end = time.monotonic() + seconds
        while not (value := self.evaluate(condition)):
            assert time.monotonic() < end, f"it never came: {condition}\n{self.text()}"
            self.browser.listen(0.05)
        return value

    def text(self) -> str:
        """Return what the page says."""
        return self.evaluate("document.body ? document.body.innerText : ''")

    def fill(self, name: str, text: str) -> None:
        """Write into a field as a person does."""
        self.evaluate(f"document.getElementById({name!r}).select()")
        self.call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press and release a key."""
        codes = {"Tab": 9, "Enter": 13}
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=codes[key],
                **(text if kind == "keyDown" else {}),
            )

    def resize(self, width: int, height: int) -> None:
        """Change the size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def prefer(self, scheme: str) -> None:
        """Set the user's preference, `light` or `dark`."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, path: Path) -> None:
        """Write a picture of what the window shows."""
        shot = self.call("Page.captureScreenshot", format="png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def requests(self) -> list[str]:
        """Return the addresses that the tab asked for."""
        asked = self._events("Network.requestWillBeSent")
        return [event["request"]["url"] for event in asked]

    def complaints(self) -> list[str]:
        """Return errors and warnings of the console, and exceptions that nobody caught."""
        said = [
            event["entry"]["text"]
            for event in self._events("Log.entryAdded")
            if event["entry"]["level"] in ("error", "warning")
        ]
        said += [
            json.dumps(event["args"])
            for event in self._events("Runtime.consoleAPICalled")
            if event["type"] in ("error", "warning", "assert")
        ]
        thrown = self._events("Runtime.exceptionThrown")
        return said + [json.dumps(event["exceptionDetails"]) for event in thrown]

    def _events(self, method: str) -> list[dict[str, Any]]:
        mine = [
            one for one in self.browser.happened if one.get("sessionId") == self.session
        ]
        return [one["params"] for one in mine if one.get("method") == method]


def tile(name: str, part: str = "value") -> str:
    """Return the expression of what a tile says."""
    return (
        f"document.querySelector('#tiles [data-name=\"{name}\"] .{part}')?.textContent"
    )


def amount(name: str) -> str:
    """Return the expression of the number of a tile: thousands have commas."""
    return f"parseFloat({tile(name)}.replaceAll(',', ''))"


def number(page: Page, name: str, part: str = "value") -> float:
    """Return the first number of a tile."""
    found = re.search(r"[\d,.]+", page.evaluate(tile(name, part)))
    assert found, name
    return float(found[0].replace(",", ""))


def cells(page: Page, table: str) -> list[list[str]]:
    """Return the texts of the rows of a table."""
    rows = f"document.getElementById({table!r}).tBodies[0].rows"
    return page.evaluate(
        f"Array.from({rows}, (row) => Array.from(row.cells, (c) => c.textContent))"
    )


def search(page: Page, near: str, filter: str = "") -> str:
    """Ask by the page's form, and return what it says about the answer."""
    page.fill("near", near)
    page.fill("filter", filter)
    page.evaluate("document.querySelector('#question button').click()")
    state = "document.getElementById('answer-state').textContent"
    return page.wait(f"{state} !== 'Searching' && {state}")
