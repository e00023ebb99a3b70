"""A downloadable file, how it is identified, and the error raised if it cannot be fetched."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Remote:
    """A downloadable file.

    Attributes:
        name: file name in the cache.
        urls: addresses of the same bytes, tried in this order.
        size: exact size (bytes).
        sha256: hexadecimal; empty if only the md5 is known.
        md5: hexadecimal, as stated by the publisher; checked only if no sha256 is known.
    """

    name: str
    urls: tuple[str, ...]
    size: int
    sha256: str
    md5: str = ""

    @property
    def checksum(self) -> str:
        """``sha256:…``, or ``md5:…`` if that is all that is known."""
        return f"sha256:{self.sha256}" if self.sha256 else f"md5:{self.md5}"


class DownloadError(OSError):
    """A file is neither in the cache nor can it be fetched; the message is one line."""


def fault_of(path: Path, remote: Remote) -> str:
    """How a file differs from the expected one, in a few words; "" if it does not."""
    size = path.stat().st_size
    if size != remote.size:
        return f"{size} bytes, expected {remote.size}"
    kind, _, expected = remote.checksum.partition(":")
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, kind).hexdigest()
    return "" if found == expected else f"{kind} {found}, expected {expected}"
