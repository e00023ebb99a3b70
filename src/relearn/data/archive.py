"""Reads files out of tar and zip archives into memory.

Nothing is unpacked to disk, so no member name can lead outside a folder. Only regular files are read; links and
devices are ignored. What is read may not exceed a size limit, which is checked before (tar) or while (zip) a file is
unpacked.
"""

from __future__ import annotations

import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection
from pathlib import Path, PurePosixPath

LIMIT = 2**30  # bytes, unpacked; the largest file, MNLI's training part, is a third of that
ERRORS = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


def read_members(path: Path, names: Collection[str], limit: int = LIMIT) -> dict[str, bytes]:
    """Contents of the named files.

    Raises:
        ValueError: the archive is broken, exceeds the limit or lacks a name.
        OSError: the archive cannot be read.
    """
    found = read_matching(path, lambda name: name in names, limit)
    if missing := [name for name in names if name not in found]:
        raise ValueError(f"{path}: lacks {', '.join(missing)}")
    return found


def read_matching(path: Path, wanted: Callable[[str], bool], limit: int = LIMIT) -> dict[str, bytes]:
    """Contents of all files whose name (without a leading ``./``) ``wanted`` accepts.

    Raises:
        ValueError: the archive is broken, or the wanted files exceed the limit (bytes).
        OSError: the archive cannot be read.
    """
    found: dict[str, bytes] = {}
    unpacked = 0
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                name = str(PurePosixPath(member.name))
                if not member.isfile() or not wanted(name):
                    continue
                unpacked += member.size
                if unpacked > limit:
                    raise ValueError(f"{path}: unpacks to more than the allowed {limit} bytes")
                file = tar.extractfile(member)
                assert file is not None  # it is a regular file
                found[name] = file.read()
            while tar.fileobj is not None and tar.fileobj.read(2**20):
                pass  # a checksum stands at the end, where tarfile does not read
    except ERRORS as error:
        raise ValueError(f"{path}: not a complete tar archive ({' '.join(str(error).split())})") from None
    return found


def zip_member(path: Path, name: str, limit: int = LIMIT) -> bytes | None:
    """Contents of one file of a zip archive; None if the archive lacks it.

    Raises:
        ValueError: the archive is broken, or the file exceeds the limit (bytes).
        OSError: the archive cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if name not in archive.namelist():
                return None
            with archive.open(name) as file:
                content = file.read(limit + 1)
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: not a complete zip archive ({' '.join(str(error).split())})") from None
    if len(content) > limit:
        raise ValueError(f"{path}: {name} unpacks to more than the allowed {limit} bytes")
    return content
