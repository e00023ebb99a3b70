"""Which settings differ between the run records of two results folders, for runs of the same name in both."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relearn.report import runs
from relearn.runs.run_store import is_store


@dataclass(frozen=True)
class Setting:
    """One setting of one step whose value differs, and the number of runs concerned."""

    step: str  # "poisoning filter"
    key: str
    before: str
    after: str
    runs: int


def compare(sides: Sequence[tuple[Path, str]]) -> list[Setting]:
    """The settings that differ, the most frequent first; none if a folder has no records.

    Args:
        sides: the two folders, each with its scale.
    """
    old, new = (_by_name(*side) for side in sides)
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for name in old.keys() & new.keys():
        was, now = dict(flat(old[name])), dict(flat(new[name]))
        for key in was.keys() | now.keys():
            if was.get(key) != now.get(key):
                counts[f"{name[0]} {name[1]}", key, was.get(key, "-"), now.get(key, "-")] += 1
    return [
        Setting(*what, count) for what, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    ]


def _by_name(folder: Path, scale: str) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    if not (folder / "runs").is_dir() and not is_store(folder):
        return {}
    found, _ = runs.load(folder, scale)
    return {(run.study, run.step, tuple(run.labels.items()), run.seed): run.settings for run in found}


def flat(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Every setting with its dotted key and its value as text."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{above}{key}.")
        else:
            listed = isinstance(value, (list, tuple))  # of mappings, perhaps in another order of keys
            yield f"{above}{key}", json.dumps(value, sort_keys=True) if listed else str(value)
