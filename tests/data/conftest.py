"""Where the tests' data are: real copies where they are at hand, no network, or a server that fails on purpose."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


class FaultyServer:
    """Serves `body` at every path of 127.0.0.1. `plan` holds one behaviour per request, "good" once it is used up.

    good: the whole body · cut: half of it under the full length · wrong: one other byte · html: a page ·
    hang: headers, then nothing · 503 and other numbers: that status.
    """

    def __init__(self, body: bytes) -> None:
        self.body, self.plan = body, list[str]()
        self.asked: list[str] = []  # path of each request
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
        owner.asked.append(self.path)
        behaviour = owner.plan.pop(0) if owner.plan else "good"
        status, body = 200, owner.body
        if behaviour.isdigit():
            status, body = int(behaviour), b"no"
        elif behaviour == "html":
            body = b"\n<!DOCTYPE html><html><body>please log in</body></html>"
        elif behaviour == "wrong":
            body = body[:-1] + bytes([body[-1] ^ 1])
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if behaviour == "hang":
            owner.stop.wait(60)
            return
        with suppress(OSError):  # the client may have given up
            self.wfile.write(body[: len(body) // 2] if behaviour == "cut" else body)


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    one = FaultyServer(b"MAGIC" + bytes(range(256)) * 1000)
    yield one
    one.close()


@pytest.fixture
def mirror() -> Callable[..., Path]:
    """``mirror("ptb")``: this folder or file of RELEARN_MIRROR; without it the test is skipped."""

    def found(*names: str) -> Path:
        path = Path(os.environ.get("RELEARN_MIRROR") or "none", *names)
        if not path.exists():
            pytest.skip(f"RELEARN_MIRROR has no {'/'.join(names)}")
        return path

    return found


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing can be fetched; the empty folder in which downloads would lie."""
    monkeypatch.setenv("RELEARN_OFFLINE", "1")
    monkeypatch.setenv("RELEARN_CACHE", str(tmp_path))
    return tmp_path
