"""Remembered code versions equal fresh ones, and are forgotten when a file of the package changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from relearn.forecast import known_versions
from relearn.forecast.known_versions import KnownVersions
from relearn.runs.code_version import code_version

MODULES = ("relearn.maths.simplex",)


def test_versions_are_remembered_until_a_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, cached = tmp_path / "package", tmp_path / "cache" / "code.json"
    package.mkdir()
    (package / "a.py").write_text("x = 1\n")
    first = KnownVersions(package, cached)
    assert first(*MODULES) == code_version(*MODULES)
    first.keep()
    monkeypatch.setattr(known_versions, "code_version", lambda *modules: "computed anew")
    assert KnownVersions(package, cached)(*MODULES) == code_version(*MODULES)
    (package / "a.py").write_text("x = 2\n")
    os.utime(package / "a.py", (5.0, 5.0))
    assert KnownVersions(package, cached)(*MODULES) == "computed anew"
    cached.write_text("[")
    assert KnownVersions(package, cached)(*MODULES) == "computed anew"
