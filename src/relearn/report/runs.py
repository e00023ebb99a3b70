"""The runs that a report is made of: records of one scale, from a folder of records or from a store of Parquet files.

Files beside a record are read when first asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from relearn.report.artefacts import Where, matches
from relearn.runs import record_file
from relearn.runs.run_store import Store, is_store


@dataclass(eq=False)
class Run:
    """One record, with its folder relative to the results root (the link that the report prints).

    ``store`` holds its files, or they lie beside the record.
    """

    record: Mapping[str, Any]
    folder: str
    store: Store | None = None

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
        return record_file.rows(self.content(name))

    def has(self, name: str) -> bool:
        """Whether the record names this output and it is there."""
        if name not in self.record["outputs"]:
            return False
        if self.store is not None:
            return self.store.has(dict(self.record), name)
        return (Path(self.record["path"]) / name).is_file()

    def content(self, name: str) -> bytes:
        """The bytes of a file beside the record.

        Raises:
            RecordError: it is not there, or its bytes are not those that the record names.
        """
        record = dict(self.record)
        return self.store.content(record, name) if self.store else record_file.content(record, name)

    def matches(self, where: Where) -> bool:
        return matches(where, self.study, self.step, self.labels)


def load(root: str | Path, scale: str) -> tuple[list[Run], list[str]]:
    """Every sound record of a store, or under ``root/runs``, ordered by folder, and a line for each that cannot be used."""
    root = Path(root)
    store = Store(root) if is_store(root) else None
    found, problems = store.read_all() if store else record_file.read_all(root / "runs")
    runs = []
    for one in found:
        folder = Path(one["path"]).relative_to(root).as_posix()
        if one["scale"] != scale:
            problems.append(f"{folder}: found scale {one['scale']}, allowed: {scale}")
        else:
            runs.append(Run(one, folder, store))
    return sorted(runs, key=lambda run: run.folder), problems


def select(runs: Iterable[Run], *filters: Where) -> list[Run]:
    """The runs that agree with all the filters."""
    return [run for run in runs if all(run.matches(where) for where in filters)]
