"""A headless Chromium that tests drive, over the pipe that it offers for that."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
)

_START = """
import fcntl, os, sys
given = [fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3]]
for descriptor, place in zip(given, (3, 4)):  # which Chromium reads from and writes to
    os.dup2(descriptor, place, inheritable=True)
os.execv(sys.argv[3], sys.argv[3:])
"""


def axe_source(folder: Path) -> str | None:
    """The script of axe-core, which finds what keeps people out of a page; None where npm cannot fetch it."""
    installed = Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"
    if not installed.is_file():
        npm = shutil.which("npm")
        if npm is None:
            return None
        install = [
            npm,
            "install",
            "--silent",
            "--no-fund",
            "--no-audit",
            "--prefix",
            str(folder),
            "axe-core@4",
        ]
        try:
            subprocess.run(install, check=True, capture_output=True, timeout=60)
        except (subprocess.SubprocessError, OSError):
            return None
        installed = folder / "node_modules" / "axe-core" / "axe.min.js"
    return installed.read_text(encoding="utf-8")


class Browser:
    """One page of one browser, which is ended by ``close``."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        theirs, self._to = os.pipe()
        self._from, ours = os.pipe()
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _START,
                str(theirs),
                str(ours),
                CHROMIUM,
                *FLAGS,
                "--hide-scrollbars",
                "--remote-debugging-pipe",
                f"--user-data-dir={profile}",
            ],
            pass_fds=(theirs, ours),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(ours)
        self._rest, self._number, self._session = b"", 0, ""
        self.said: list[dict[str, Any]] = []
        """What the browser told without being asked: the console, requests, errors."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for room in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.send(f"{room}.enable")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def send(self, method: str, **parameters: Any) -> Any:
        """Tell the browser something, and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            found = self._read()
            if found.get("id") == self._number:
                assert "error" not in found, (method, found)
                return found["result"]
            self.said.append(found)

    def _read(self, seconds: float = 60) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0, end - time.monotonic()))
            assert ready, "the browser says nothing"
            piece = os.read(self._from, 1 << 16)
            assert piece, "the browser has ended"
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\0")
        return json.loads(line)

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        found = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, condition: str, seconds: float = 90) -> None:
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"never: {condition}"
            time.sleep(0.05)

    def choose(self, selector: str, *files: Path) -> None:
        root = self.send("DOM.getDocument")["root"]["nodeId"]
        node = self.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.send("DOM.setFileInputFiles", nodeId=node, files=[str(file) for file in files])

    def show(self, address: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Load a page, on a screen of this width, in this scheme."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
            mobile=width < 500,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Write what is seen, or the whole page, as PNG."""
        found = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, and scripts that failed."""
        found: list[str] = []
        for each in self.said:
            params = each.get("params", {})
            if each.get("method") == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            if each.get("method") == "Log.entryAdded" and params["entry"]["level"] in {"error", "warning"}:
                found.append(params["entry"]["text"])
            if each.get("method") == "Runtime.consoleAPICalled" and params["type"] in {"error", "warning"}:
                found.append(str(params["args"]))
        return found

    def addresses(self) -> list[str]:
        asked = (each for each in self.said if each.get("method") == "Network.requestWillBeSent")
        return [each["params"]["request"]["url"] for each in asked]
