"""The runs that a report is made of: records of one scale, their trials read when first asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from relearn.report.artefacts import Where, matches
from relearn.runs import record as records


@dataclass(eq=False)
class Run:
    """One record, with its folder relative to the results root (the link that the report prints)."""

    record: Mapping[str, Any]
    folder: str

    @property
    def study(self) -> str:
        return self.record["study"]

    @property
    def step(self) -> str:
        return self.record["step"]

    @property
    def labels(self) -> Mapping[str, str]:
        return self.record["labels"]

    @property
    def seed(self) -> int:
        return int(self.record["seed"])

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.record["settings"]

    @property
    def metrics(self) -> Mapping[str, float | None]:
        return self.record["metrics"]

    @property
    def outcome(self) -> str:
        return self.record["outcome"]

    @property
    def diverged(self) -> bool:
        return self.outcome == "diverged"

    @property
    def machine(self) -> str:
        """``<processor or device> (<kind of device>, <precision>, 2 threads)``."""
        machine = self.record["machine"]
        name = machine.get("device_name") or machine.get("cpu") or "unnamed"
        threads = f"{machine['threads']} thread" + ("s" if machine["threads"] != 1 else "")
        return f"{name} ({machine['device']}, {machine['precision']}, {threads})"

    @cached_property
    def trials(self) -> list[dict[str, Any]]:
        """The rows of trials.csv; an empty cell is None."""
        return self.rows("trials.csv")

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a CSV file beside the record."""
        return records.trials(dict(self.record), name)

    def file(self, name: str) -> Path | None:
        """A file beside the record, None if the record names no such output or it is not there."""
        path = Path(self.record["path"]) / name
        return path if name in self.record["outputs"] and path.is_file() else None

    def matches(self, where: Where) -> bool:
        return matches(where, self.study, self.step, self.labels)


def load(root: str | Path, scale: str) -> tuple[list[Run], list[str]]:
    """Every sound record under ``root/runs``, ordered by folder, and a line for each that cannot be used."""
    root = Path(root)
    found, problems = records.read_all(root / "runs")
    runs = []
    for one in found:
        folder = Path(one["path"]).relative_to(root).as_posix()
        if one["scale"] != scale:
            problems.append(f"{folder}: found scale {one['scale']}, allowed: {scale}")
        else:
            runs.append(Run(one, folder))
    return sorted(runs, key=lambda run: run.folder), problems


def select(runs: Iterable[Run], *filters: Where) -> list[Run]:
    """The runs that agree with all the filters."""
    return [run for run in runs if all(run.matches(where) for where in filters)]
