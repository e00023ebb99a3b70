"""Tar archives from the net, read without trusting them.

Refused, each with its reason in one line, and nothing is left behind: a member that is neither a regular
file nor a folder (links, devices, pipes, sparse files), an absolute path or one with ``..``, a backslash or
a control character in a name, two names that a case-blind file system would make one, a file that is
another one's folder, names too long, and more members, bytes or compression than the limits allow. Bytes
are counted as they leave the decompressor, so neither a header that lies nor a bomb inside a header passes.

Extraction fills a fresh folder beside the final one and renames it at the end. Members also pass Python's
own filter ``data`` (PEP 706); it does not stand alone because it lets links through and has been got round
before.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import secrets
import shutil
import tarfile
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

FLOOR = 10 * 1024**2  # bytes that may always come out: small archives of text compress without bound
LONGEST_NAME, LONGEST_PATH = 255, 1024  # bytes, as common file systems have it
OPENERS = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
KINDS = {
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.LNKTYPE: "a hard link",
    tarfile.FIFOTYPE: "a pipe",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}
FAULTS = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


@dataclass(frozen=True)
class Limits:
    """At most so many members, unpacked bytes, and unpacked bytes for each packed byte (beyond 10 MiB)."""

    members: int = 10_000
    unpacked_bytes: int = 8 * 1024**3
    ratio: float = 100.0


def read_members(path: Path, names: Sequence[str], limits: Limits | None = None) -> dict[str, bytes]:
    """The contents of the named files, in memory; nothing is written. Stops reading when it has them all.

    Raises:
        ValueError: the archive is refused (see the module), broken, or lacks a name.
        OSError: it cannot be read.
    """
    found: dict[str, bytes] = {}
    with _opened(path, limits or Limits()) as members:
        for name, file in members:
            if name in names and file is not None:
                found[name] = file.read()
                if len(found) == len(names):
                    break
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"{path}: lacks {', '.join(missing)}")
    return found


def read_matching(
    path: Path, wanted: Callable[[str], bool], limits: Limits | None = None
) -> dict[str, bytes]:
    """The contents of the files whose name ``wanted`` accepts, in memory; nothing is written, the whole archive is read.

    Raises:
        ValueError: the archive is refused (see the module) or broken, or no name is wanted.
        OSError: it cannot be read.
    """
    found: dict[str, bytes] = {}
    with _opened(path, limits or Limits()) as members:
        for name, file in members:
            if file is not None and wanted(name):
                found[name] = file.read()
    if not found:
        raise ValueError(f"{path}: lacks all files that are looked for")
    return found


def extract(path: Path, folder: Path, limits: Limits | None = None) -> Path:
    """Unpack a whole archive as ``folder``, which must not exist yet; returns it.

    Raises:
        ValueError: the archive is refused (see the module) or broken, or ``folder`` exists. Nothing is left
        behind. OSError: the archive cannot be read or the folder not written.
    """
    if folder.exists() or folder.is_symlink():
        raise ValueError(f"{folder}: exists already; archives are only unpacked into a folder of their own")
    fresh = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.part"
    fresh.mkdir(parents=True)
    try:
        with _opened(path, limits or Limits(), fresh) as members:
            for name, file in members:
                place = fresh / name
                if not place.resolve().is_relative_to(fresh.resolve()):
                    raise ValueError(f"{path}: {name!r} leads outside the folder")
                if file is None:
                    place.mkdir(parents=True, exist_ok=True)
                    continue
                place.parent.mkdir(parents=True, exist_ok=True)
                with open(place, "xb") as copy:
                    shutil.copyfileobj(file, copy)
        os.rename(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


@contextmanager
def _opened(
    path: Path, limits: Limits, folder: Path | None = None
) -> Iterator[Iterator[tuple[str, IO[bytes] | None]]]:
    """Checked members one after the other: normalised name and content, None for a folder."""
    with open(path, "rb") as packed:
        start = packed.read(6)
    opener: Any = next((opener for magic, opener in OPENERS.items() if start.startswith(magic)), open)
    allowed = min(limits.unpacked_bytes, max(FLOOR, int(limits.ratio * path.stat().st_size)))
    try:
        with opener(path, "rb") as stream:
            metered: Any = _Metered(stream, path, allowed)
            with tarfile.open(fileobj=metered, mode="r|") as tar:
                yield _checked(tar, path, limits, allowed, folder)
    except FAULTS as fault:
        raise ValueError(f"{path}: no whole tar archive ({' '.join(str(fault).split())})") from None


def _checked(
    tar: tarfile.TarFile, path: Path, limits: Limits, allowed: int, folder: Path | None
) -> Iterator[tuple[str, IO[bytes] | None]]:
    seen: dict[str, tuple[str, bool]] = {}  # case-blind path -> (path as first written, is a folder)
    unpacked = 0
    for count, member in enumerate(tar, 1):
        name = _name(member.name, path)
        unpacked += member.size
        if count > limits.members:
            raise ValueError(f"{path}: more than the allowed {limits.members} members")
        if unpacked > allowed:
            raise ValueError(f"{path}: unpacks to more than the allowed {allowed} bytes")
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE):
            kind = KINDS.get(member.type, f"of type {member.type!r}")
            raise ValueError(f"{path}: {name!r} is {kind}; allowed: files and folders")
        if name == ".":
            continue
        above = [(str(parent), True) for parent in PurePosixPath(name).parents if parent.name]
        for each, is_folder in (*above, (name, member.isdir())):
            known = _blind(each) in seen
            first, was_folder = seen.setdefault(_blind(each), (each, is_folder))
            if first != each:
                raise ValueError(f"{path}: {each!r} and {first!r} differ in case or accents only")
            if known and not (is_folder and was_folder):
                raise ValueError(f"{path}: {each!r} is there twice")
        if folder is not None and hasattr(tarfile, "data_filter"):
            tarfile.data_filter(member, str(folder))
        yield name, tar.extractfile(member)
    # The tar reader takes a damaged header for the end. Reading on finds that out, and makes the decompressor
    # compare its checksum.
    rest: Any = tar.fileobj
    while block := rest.read(tarfile.RECORDSIZE):
        if block.strip(b"\0"):
            raise ValueError(f"{path}: no whole tar archive (content behind its end, or a damaged header)")


def _name(name: str, path: Path) -> str:
    """A member's path without ``.`` and doubled slashes, or a refusal."""
    reason = ""
    if name.startswith("/") or (name[1:2] == ":" and name[:1].isalpha()):
        reason = "is absolute"
    elif ".." in name.split("/"):
        reason = "climbs out with '..'"
    elif "\\" in name or any(unicodedata.category(letter) == "Cc" for letter in name):
        reason = "has a backslash or a control character"
    elif len(os.fsencode(name)) > LONGEST_PATH:
        reason = f"is longer than {LONGEST_PATH} bytes"
    elif any(len(os.fsencode(part)) > LONGEST_NAME for part in name.split("/")):
        reason = f"has a part longer than {LONGEST_NAME} bytes"
    if reason or not name:
        raise ValueError(f"{path}: member name {name[:60]!r} {reason or 'is empty'}")
    return str(PurePosixPath(name))


def _blind(name: str) -> str:
    """What a file system that knows neither case nor composed letters would call it."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


class _Metered:
    """Counts the bytes that leave the decompressor; the tar reader asks for at most 10 kB at a time."""

    def __init__(self, stream: IO[bytes], path: Path, allowed: int) -> None:
        self.stream, self.path, self.allowed, self.given = stream, path, allowed, 0

    def read(self, size: int) -> bytes:
        block = self.stream.read(size)
        self.given += len(block)
        # Headers and padding come on top of the contents: as much again as the floor, never more.
        if self.given > self.allowed + FLOOR:
            raise ValueError(f"{self.path}: unpacks to more than the allowed {self.allowed} bytes")
        return block
