"""Figures of an earlier rendering that need not be drawn again, because nothing that decides how they look has changed.

Drawing takes most of the time of a rendering. ``figures/drawn.json`` holds for each figure a key over its definition, its points, its
line of text, the code of the report and matplotlib's version, and the sha256 of its files; a file that was changed since is drawn again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

FILE = "drawn.json"
ENDINGS = ("csv", "png", "pdf")


class Entry(NamedTuple):
    """How one figure was drawn."""

    key: str
    files: list[str]
    """The sha256 of its files, in the order of ENDINGS."""


@dataclass(frozen=True)
class Drawn:
    """The figures in a folder, as they were drawn by ``code``."""

    folder: Path
    code: str
    entries: Mapping[str, Entry]

    @classmethod
    def read(cls, folder: Path, code: str) -> Drawn:
        """Read ``drawn.json``; a missing or unreadable file means that every figure is drawn."""
        try:
            values = json.loads((folder / FILE).read_text(encoding="utf-8"))
            entries = {
                name: Entry(str(key), [str(one) for one in files]) for name, (key, files) in values.items()
            }
        except (OSError, ValueError, TypeError, AttributeError):
            entries = {}
        return cls(folder, code, entries)

    def key(self, artefact: object, points: Iterable[Mapping[str, Any]], text: str) -> str:
        """Return the key of a figure; numbers count with all their digits, pictures by their bytes."""
        import matplotlib
        import numpy

        found = hashlib.sha256(repr((self.code, matplotlib.__version__, artefact, text)).encode())
        for point in points:
            found.update(
                repr([(name, value) for name, value in point.items() if name != "pictures"]).encode()
            )
            for picture in point.get("pictures") or ():
                array = numpy.ascontiguousarray(picture)
                found.update(repr((array.shape, array.dtype.str)).encode() + array.tobytes())
        return found.hexdigest()

    def copy(self, name: str, key: str, folder: Path) -> list[Path]:
        """Copy a figure's files into another folder if they are those of the key; return the copies, or [] if they are not."""
        old = [self.folder / f"{name}.{ending}" for ending in ENDINGS]
        if self.entries.get(name) != (key, digests(old)):
            return []
        folder.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copyfile(path, folder / path.name)) for path in old]


def digests(paths: Iterable[Path]) -> list[str]:
    """The sha256 of each file, "" for one that is missing."""
    from relearn.runs.atomic_files import digest

    return [digest(path) if path.is_file() else "" for path in paths]


def write(entries: Mapping[str, Entry], folder: Path) -> None:
    """Write ``drawn.json`` into the folder of the figures."""
    text = json.dumps(entries, indent=0, sort_keys=True)
    (folder / FILE).write_text(f"{text}\n", encoding="utf-8", newline="\n")
