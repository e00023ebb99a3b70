"""Code versions of modules, remembered as long as no file of the package changes: they take a second of the plan's three."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from relearn.data.cache import cache_folder
from relearn.runs.atomic_files import write
from relearn.runs.code_version import ROOT, code_version


class KnownVersions:
    """The code version of modules, from a file below the cache folder where the package is the same as then.

    Args:
        root: folder of the package.
        path: the file; None: the usual one.
    """

    def __init__(self, root: Path = ROOT, path: Path | None = None) -> None:
        self.path = path or cache_folder() / "forecast" / "code.json"
        self.package = fingerprint(root)
        self.known: dict[str, str] = {}
        self.new = False
        try:
            found = json.loads(self.path.read_bytes())
            if found["package"] == self.package:
                self.known = dict(found["versions"])
        except (OSError, ValueError, KeyError, TypeError):  # no file, or not one of ours: begin anew
            pass

    def __call__(self, *modules: str) -> str:
        key = " ".join(sorted(set(modules)))
        if key not in self.known:
            self.known[key] = code_version(*modules)
            self.new = True
        return self.known[key]

    def keep(self) -> None:
        """Write what is new; nothing where the cache cannot be written."""
        if self.new:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                write(self.path, json.dumps({"package": self.package, "versions": self.known}).encode())
            except OSError:
                pass


def fingerprint(root: Path) -> str:
    """A hash of the place, size and time of every Python file below ``root``."""
    seen = hashlib.sha256(str(root).encode())
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files):
            if name.endswith(".py"):
                stat = os.stat(os.path.join(folder, name))
                seen.update(f"{folder}/{name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return seen.hexdigest()
