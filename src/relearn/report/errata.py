"""Errata: statements and numbers in a paper that are wrong, from ``errata.yaml`` of each study's ``reported`` folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relearn.report import yaml_file


def load(folders: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """All entries by id, grouped by paper in the order of the studies and sorted by number within a paper."""
    paths = [folder / "errata.yaml" for folder in folders.values()]
    found = {name: entry for path in paths if path.is_file() for name, entry in yaml_file.read(path).items()}
    papers = list(dict.fromkeys(entry["paper"] for entry in found.values()))
    return dict(sorted(found.items(), key=lambda item: (papers.index(item[1]["paper"]), int(item[0][1:]))))
