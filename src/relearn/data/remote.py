"""A file somewhere else, how it is recognised, and the error when it cannot be had."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Remote:
    """A file somewhere else.

    Attributes:
        name: its name in the cache.
        urls: https addresses of the same bytes, the first to be tried first.
        size: bytes, exactly; nothing longer is ever read.
        sha256: hexadecimal; empty where only the md5 is known.
        magic: the first bytes.
        md5: hexadecimal, only where the publisher states it.
    """

    name: str
    urls: tuple[str, ...]
    size: int
    sha256: str
    magic: bytes
    md5: str = ""


class DownloadError(OSError):
    """A file can neither be found nor fetched; the message is one line."""


def fault_of(path: Path, remote: Remote) -> str:
    """Why a file is not the wanted one, in a few words; "" where it is."""
    size = path.stat().st_size
    if size != remote.size:
        return f"{size} bytes, expected {remote.size}"
    for kind, expected in (("sha256", remote.sha256), ("md5", remote.md5)):
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, kind).hexdigest() if expected else ""
        if found != expected:
            return f"{kind} {found}, expected {expected}"
    return ""


def say(line: str) -> None:
    """One line for whoever watches, on stderr."""
    print(line, file=sys.stderr, flush=True)
