"""Caches the code versions of modules until a file of the package changes; computing them takes a third of the plan's time."""

from __future__ import annotations

import json
from pathlib import Path

from relearn.data.cache import cache_folder
from relearn.runs.atomic_files import write
from relearn.runs.code_version import ROOT, code_version
from relearn.runs.plugins import MARK
from relearn.runs.warm.client import times_of


class KnownVersions:
    """Computes code versions of modules; reuses those in a file of the cache folder if the package is unchanged.

    Args:
        root: folder of the package.
        path: the file; None: the default one.
    """

    def __init__(self, root: Path = ROOT, path: Path | None = None) -> None:
        self.path = path or cache_folder() / "forecast" / "code.json"
        self.package = times_of(root)
        self.known: dict[str, str] = {}
        self.new = False
        try:
            found = json.loads(self.path.read_bytes())
            if found["package"] == self.package:
                self.known = dict(found["versions"])
        except (OSError, ValueError, KeyError, TypeError):  # no file, or not a valid one: start afresh
            pass

    def __call__(self, *modules: str) -> str:
        key = " ".join(sorted(set(modules)))
        if key not in self.known:
            version = code_version(*modules)
            if MARK in version:  # a plug-in's package changes without this one
                return version
            self.known[key] = version
            self.new = True
        return self.known[key]

    def keep(self) -> None:
        """Write new versions to the file; does nothing if the cache is not writable."""
        if self.new:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                write(self.path, json.dumps({"package": self.package, "versions": self.known}).encode())
            except OSError:
                pass
