"""The runs behind a report: the records of one scale, from a folder of records or from a Parquet store.

Files that belong to a record are read only when needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from relearn.report.artefacts import Where, matches
from relearn.report.views.names import plural
from relearn.runs import parquet_file, record_file
from relearn.runs.run_store import RUNS, Store, is_store


@dataclass(eq=False)
class Run:
    """One record, with its folder relative to the results root (the link that the report prints).

    Its files are in ``store``, or next to the record if that is None.
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
    def resumed(self) -> bool:
        """Whether a later attempt finished the run, so that a time measured in its process may be only a part."""
        return any(note.startswith("resumed: finished by attempt") for note in self.record.get("notes") or ())

    @property
    def sources(self) -> list[str]:
        """The folders of the runs whose outputs it read."""
        paths = [file["path"] for group in self.record.get("inputs", {}).values() for file in group]
        return [
            f"runs/{path.rpartition('/runs/')[2].rpartition('/')[0]}" for path in paths if "/runs/" in path
        ]

    @property
    def machine(self) -> str:
        """``<processor or device> (<kind of device>, <precision>, 2 threads)``."""
        machine = self.record["machine"]
        name = machine.get("device_name") or machine.get("cpu") or "unnamed"
        threads = plural(machine["threads"], "thread")
        return f"{name} ({machine['device']}, {machine['precision']}, {threads})"

    @cached_property
    def trials(self) -> list[dict[str, Any]]:
        """The rows of trials.csv; an empty cell is None."""
        return self.rows("trials.csv")

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a CSV file that belongs to the record."""
        return record_file.rows(self.content(name))

    def has(self, name: str) -> bool:
        """Whether the record lists this output and the file exists."""
        if name not in self.record["outputs"]:
            return False
        if self.store is not None:
            return self.store.has(dict(self.record), name)
        return (Path(self.record["path"]) / name).is_file()

    def content(self, name: str) -> bytes:
        """The bytes of a file that belongs to the record.

        Raises:
            RecordError: the file is missing, or its bytes differ from those that were recorded.
        """
        record = dict(self.record)
        return self.store.content(record, name) if self.store else record_file.content(record, name)

    def matches(self, where: Where) -> bool:
        return matches(where, self.study, self.step, self.labels)


def load(root: str | Path, scale: str) -> tuple[list[Run], list[str]]:
    """Every valid record of a store or of ``root/runs``, sorted by folder, and a message for each that cannot be used."""
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


def scale_of(folder: Path | None) -> str | None:
    """The scale of a published set; None for another folder, or if its runs are of several scales."""
    if folder is None or not is_store(folder):
        return None
    table = parquet_file.read(folder / RUNS)
    scales = set(table["scale"].to_pylist()) if "scale" in table.column_names else set()
    return scales.pop() if len(scales) == 1 else None


def sets_below(folder: Path) -> str:
    """The end of a message about a folder without runs: the published sets directly below it, or ""."""
    sets = sorted(path.as_posix() for path in folder.glob("*") if is_store(path))
    return f"; below it: {', '.join(sets)}" if sets else ""


def select(runs: Iterable[Run], *filters: Where) -> list[Run]:
    """The runs that match all filters."""
    return [run for run in runs if all(run.matches(where) for where in filters)]


def having(runs: Iterable[Run], file: str) -> list[Run]:
    """The runs that have this file."""
    return [run for run in runs if run.has(file)]


def folders(runs: Iterable[Run]) -> tuple[str, ...]:
    """The folder of each run."""
    return tuple(run.folder for run in runs)
