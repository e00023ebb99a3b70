"""A server on 127.0.0.1 that fails on purpose: each request takes the next behaviour from a list."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class FaultyServer:
    """Serves `body` at every path. `plan` holds a behaviour for each request, "good" once it is used up.

    good: all, or the asked range · ignore_range: all, always · cut: half of it under the full length ·
    short: half of it under its own length · wrong: as long, other bytes · long: more, without a length ·
    html: a page · hang: headers, then nothing · drip: a byte now and then · wrong_range: another range than
    the asked one · 503 and other numbers: that status · to:URL: a redirect.
    """

    def __init__(self, body: bytes) -> None:
        self.body, self.plan = body, list[str]()
        self.asked: list[tuple[str, str]] = []  # (path, range) of each request
        self.sent: list[int] = []  # bytes of the body in each answer
        self.stop = threading.Event()
        handler = type("Handler", (_Handler,), {"owner": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/file.bin"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.stop.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class _Handler(BaseHTTPRequestHandler):
    owner: FaultyServer

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        owner = self.owner
        asked = self.headers.get("Range", "")
        owner.asked.append((self.path, asked))
        what = owner.plan.pop(0) if owner.plan else "good"
        body, status, length, extra = owner.body, 200, None, {}
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        if what.isdigit():
            status, body = int(what), b"no"
            extra = {"Retry-After": "0"}
        elif what.startswith("to:"):
            status, body, extra = 302, b"moved", {"Location": what[3:]}
        elif what == "html":
            body = b"\n<!DOCTYPE html><html><body>please log in</body></html>"
        elif what == "wrong":
            body = body[:-1] + bytes([body[-1] ^ 1])
        elif what == "long":
            body, length = body + bytes(100_000), -1
        elif what == "short":
            body = body[: len(body) // 2]
        elif asked and what in ("good", "cut", "wrong_range"):
            total = len(body)
            body, status = body[start:], 206
            shown = start + 1 if what == "wrong_range" else start
            extra = {"Content-Range": f"bytes {shown}-{total - 1}/{total}"}
        self.send_response(status)
        for name, value in extra.items():
            self.send_header(name, value)
        if length != -1:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if what == "cut":
            body = body[: len(body) // 2]
        if what in ("hang", "drip"):
            for at in range(len(body) if what == "drip" else 1):
                if what == "drip" and not self._send(body[at : at + 1]):
                    return
                if owner.stop.wait(0.05 if what == "drip" else 60):
                    return
            return
        owner.sent.append(len(body))  # before the client can have it all and go on
        self._send(body)

    def _send(self, body: bytes) -> bool:
        try:
            self.wfile.write(body)
            return True
        except OSError:
            return False


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    one = FaultyServer(b"MAGIC" + bytes(range(256)) * 1000)
    yield one
    one.close()
