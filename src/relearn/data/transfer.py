"""The bytes of one file over https: try, resume, try elsewhere."""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from relearn.data.remote import DownloadError, Remote, fault_of, say

BLOCK = 1 << 16
HEAD = 512  # bytes looked at to recognise what is sent
LONGEST_PAUSE_S = 60.0
WORTH_ANOTHER_TRY = {408, 416, 425, 429, 500, 502, 503, 504}


class Refused(Exception):
    """What the server sent is not what was asked for."""


class Transfer:
    """The tries for one file; `complete` once `part` is the wanted file."""

    def __init__(self, remote: Remote, part: Path, timeout_s: float, end: float, loopback: bool) -> None:
        self.remote, self.part, self.timeout_s, self.end, self.loopback = (
            remote,
            part,
            timeout_s,
            end,
            loopback,
        )
        self.complete = False
        self.wait_s = 0.0  # what a server has asked for
        self.opener = _opener(loopback)

    def run(self, attempts: int, pause_s: float) -> list[str]:
        """Try until complete, hopeless or too late; the faults met, one text each."""
        faults: list[str] = []
        urls = list(self.remote.urls)
        for attempt in range(attempts):
            if attempt and urls:
                pause = min(max(pause_s * 2 ** (attempt - 1), self.wait_s), LONGEST_PAUSE_S)
                time.sleep(max(0.0, min(pause, self.end - time.monotonic())))
                self.wait_s = 0.0
            for url in list(urls):
                if time.monotonic() >= self.end:
                    return [*faults, "the time allowed for it is over"]
                fault, again = self._try(url)
                if not fault:
                    self.complete = True
                    return []
                faults.append(f"{url}: {fault}")
                say(f"{self.remote.name}: {faults[-1]}")
                if not again:
                    urls.remove(url)
        return faults

    def _try(self, url: str) -> tuple[str, bool]:
        """One address once: the fault, and whether it may pass."""
        try:
            self._receive(url)
        except DownloadError:
            raise
        except urllib.error.HTTPError as fault:
            with fault:
                self.wait_s = _seconds(fault.headers.get("Retry-After"))
                if fault.code == 416:  # "no such range": what lies here is not a beginning of the file
                    self.part.unlink(missing_ok=True)
                return f"HTTP {fault.code} {fault.reason}", fault.code in WORTH_ANOTHER_TRY
        except Refused as fault:
            return str(fault), True
        except (OSError, http.client.HTTPException) as fault:
            reason = getattr(fault, "reason", None) or fault
            return " ".join(f"{type(reason).__name__} {reason}".split()), True
        fault_found = fault_of(self.part, self.remote)
        if fault_found:
            self.part.unlink()
        return fault_found, True

    def _receive(self, url: str) -> None:
        """Append to `part`, or begin it anew, until it has all bytes."""
        if not _allowed(url, self.loopback):
            raise Refused("only https is allowed")
        have = self.part.stat().st_size if self.part.exists() else 0
        if have == self.remote.size:  # killed between the last byte and the rename
            return
        if have > self.remote.size:
            self.part.unlink()
            have = 0
        headers = {"User-Agent": "relearn", "Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        request = urllib.request.Request(url, headers=headers)
        say(f"{self.remote.name}: fetching {url}, {have} of {self.remote.size} bytes are here")
        with self.opener.open(request, timeout=self.timeout_s) as response:
            if response.status == 206:
                if not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                    self.part.unlink(missing_ok=True)
                    raise Refused("the server sent another range than the one asked for")
            else:
                have = 0
            blocks = self._blocks(response)
            first = b""
            while not have and len(first) < HEAD and (block := next(blocks, b"")):
                first += block
            if not have and not first.startswith(self.remote.magic):
                raise Refused(_described(first))
            announced = response.headers.get("Content-Length", "")
            if announced.isdigit() and have + int(announced) != self.remote.size:
                raise Refused(f"{have + int(announced)} bytes announced, expected {self.remote.size}")
            self._store(first, blocks, have)

    def _store(self, first: bytes, blocks: Iterator[bytes], have: int) -> None:
        with _local(self.part, "ab" if have else "wb") as file:
            block = first
            while block or (block := next(blocks, b"")):
                have += len(block)
                if have > self.remote.size:
                    file.close()
                    self.part.unlink()
                    raise Refused(f"more than the expected {self.remote.size} bytes")
                try:
                    file.write(block)
                    file.flush()
                except OSError as fault:
                    raise DownloadError(f"{self.part}: {fault.strerror}") from None
                block = b""
        if have < self.remote.size:
            raise Refused(f"broke off after {have} of {self.remote.size} bytes")

    def _blocks(self, response: Any) -> Iterator[bytes]:
        # read1 returns what has come; read would wait for a whole block, past any deadline.
        while block := response.read1(BLOCK):
            yield block
            if time.monotonic() >= self.end:
                raise Refused("too slow")


def _opener(loopback: bool) -> urllib.request.OpenerDirector:
    """https alone; no handler for file:, ftp: or data: exists in it."""
    opener = urllib.request.OpenerDirector()
    handlers: list[urllib.request.BaseHandler] = [
        urllib.request.ProxyHandler({} if loopback else None),
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Redirects(loopback),
    ]
    for handler in handlers + ([urllib.request.HTTPHandler()] if loopback else []):
        opener.add_handler(handler)
    return opener


class _Redirects(urllib.request.HTTPRedirectHandler):
    def __init__(self, loopback: bool) -> None:
        self.loopback = loopback

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        fp.close()  # or urllib would read its body, however long
        if not _allowed(newurl, self.loopback):
            raise Refused(f"redirects to {newurl}; only https is allowed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _allowed(url: str, loopback: bool) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (loopback and parts.scheme == "http" and parts.hostname == "127.0.0.1")


def _described(first: bytes) -> str:
    text = first.lstrip().lower()
    if text.startswith((b"<!doctype html", b"<html")):
        return "an HTML page instead of the file"
    return f"another kind of file, it begins with {first[:8]!r}" if first else "nothing was sent"


def _local(path: Path, mode: str) -> Any:
    try:
        return open(path, mode)
    except OSError as fault:
        raise DownloadError(f"{path}: {fault.strerror}") from None


def _seconds(text: str | None) -> float:
    return float(text) if text and text.isdigit() else 0.0
