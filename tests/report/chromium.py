"""Chromium without a window, asked over a pipe in its DevTools protocol: what a page shows at a width, and what went wrong.

No library stands between: a message is JSON and ends with a zero byte (``--remote-debugging-pipe``: file descriptors 3 and 4).
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from tempfile import mkdtemp
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
SIGHTS = """(() => {
  const all = [...document.querySelectorAll("body *")];
  const boxes = ".wide, nav, pre, svg, details:not([open]), .md-typeset__scrollwrap, .md-header, .md-sidebar, .highlight";
  const inside = one => one.parentElement.closest(boxes);
  const seen = one => getComputedStyle(one).position !== "fixed" && getComputedStyle(one).visibility !== "hidden";
  const wide = all.filter(one => seen(one) && !inside(one) && one.getBoundingClientRect().width > 0
                          && one.getBoundingClientRect().right > innerWidth + 1);
  const images = [...document.images];
  images.forEach(one => { one.loading = "eager"; });
  return Promise.all(images.map(one => one.complete ? null : new Promise(done => {
    one.addEventListener("load", done); one.addEventListener("error", done); })))
    .then(() => ({
      scroll: document.documentElement.scrollWidth,
      wide: wide.slice(0, 5).map(one => `${one.tagName}.${one.className} ${one.textContent.slice(0, 40)}`),
      missing: images.filter(one => one.naturalWidth === 0).map(one => one.src),
      unsaid: images.filter(one => !one.alt).map(one => one.src),
      images: images.length,
      height: document.documentElement.scrollHeight,
    }));
})()"""


@dataclass(frozen=True)
class Sight:
    """A page at one width; ``wide`` are elements that reach over its edge and lie in no box that scrolls by itself."""

    errors: list[str]
    requests: list[str]
    missing: list[str]
    unsaid: list[str]
    wide: list[str]
    scroll: int
    images: int
    height: int


def _high(descriptor: int) -> int:
    """The same end under a number above 9, out of the way of 3 and 4."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


class Chromium:
    """One browser for several pages; a context manager."""

    def __enter__(self) -> Chromium:
        down, self._write = (_high(end) for end in os.pipe())
        self._read, up = (_high(end) for end in os.pipe())
        self._profile = mkdtemp(prefix="chromium")
        # the child finds the pipe's ends at 3 and 4, wherever they are here
        shell = ["bash", "-c", f'exec "$0" "$@" 3<&{down} 4>&{up}', str(PROGRAM), *OPTIONS]
        self._process = subprocess.Popen(
            [*shell, f"--user-data-dir={self._profile}", "about:blank"],
            pass_fds=(down, up),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(down)
        os.close(up)
        self._rest, self._number, self._events = b"", 0, list[dict[str, Any]]()
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._send(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._profile, ignore_errors=True)

    def look(self, url: str, width: int, dark: bool = False) -> Sight:
        """Open a page in a window of this many pixels and wait for all its images."""
        self._events.clear()
        self._send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._send("Emulation.setEmulatedMedia", features=[scheme])
        self._send("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._receive()
        found = self.evaluate(SIGHTS)
        errors, requests = [], []
        for event in self._events:
            told = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                errors.append(str(told["exceptionDetails"].get("exception", {}).get("description")))
            elif event["method"] == "Log.entryAdded" and told["entry"]["level"] == "error":
                errors.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")
            elif event["method"] == "Network.requestWillBeSent":
                requests.append(told["request"]["url"])
        return Sight(errors=errors, requests=requests, **found)

    def evaluate(self, script: str) -> Any:
        """The value of an expression on the page, awaited."""
        made = self._send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in made, made
        return made["result"].get("value")

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if not method.startswith("Target."):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._read, 1 << 16)
            assert part, "Chromium ended"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self._events.append(message)
        return message
