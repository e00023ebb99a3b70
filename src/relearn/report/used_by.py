"""Uses of a run: the tables and figures that show it, its cells there, and the claims based on it.

Artefacts and cells follow from their definitions and the run's labels, so they are known before the run ends. Claims and the
numbers of the cells are read from the last rendering, and are missing before the first one.
"""

from __future__ import annotations

import contextlib
import csv
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relearn.report import claims_file
from relearn.report.artefacts import Artefact, Column, Row, Where, matches
from relearn.report.quantities import quantity
from relearn.runs.record_file import RecordError

RENDERED = ("claims.json", "metrics.json")  # rewritten by every rendering


@dataclass(frozen=True)
class Use:
    """Readable names such as ``table 2.2`` or ``table 2.2, Deep k-NN, DPN92``; ids of claims; the cells' numbers.

    ``numbers`` has the measured and the published value of each cell that has both, by artefact, row, column and unit.
    """

    artefacts: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    numbers: Mapping[tuple[str, str, str, str], tuple[float, float, float | None]] = field(
        default_factory=dict
    )
    rendered_ms: int = 0  # time of the rendering, in milliseconds since 1970


@dataclass(frozen=True)
class _Place:
    """One row and column of an artefact, with the filters that select its runs."""

    artefact: Artefact
    row: Row
    column: Column
    filters: tuple[Where, ...]


def short_name(name: str) -> str:
    """``zhu2022.fig2.5`` → ``figure 2.5``, ``zhu2022.table2.2`` → ``table 2.2``; other names stay."""
    kind = re.search(r"(?:^|\.)(fig|table)(\d.*)$", name)
    return f"{'figure' if kind[1] == 'fig' else 'table'} {kind[2]}" if kind else name


class UsedBy:
    """The uses of any run in a results folder; reads the definitions once, and a rendering again when it has changed."""

    def __init__(self, artefacts: Mapping[str, Artefact], about: Mapping[str, str] | None = None) -> None:
        """
        Args:
            artefacts: as from :func:`relearn.report.artefacts.load`.
            about: a short description of each study.
        """
        self._artefacts, self._about = artefacts, about or {}
        self._places: dict[tuple[str, str], list[_Place]] = defaultdict(list)
        for artefact in artefacts.values():
            for place in _places(artefact):
                for step in _steps(place):
                    self._places[artefact.study, step].append(place)
        self._rendered: dict[
            Path, tuple[Any, dict[str, list[str]], dict[tuple[str, ...], dict[str, str]]]
        ] = {}

    def about(self, study: str) -> str:
        """The description of a study; "" if there is none."""
        return self._about.get(study, "")

    def signature(self, root: Path) -> tuple[tuple[int, int], ...]:
        """A value that changes with every rendering of the folder."""
        stats = [(root / name).stat() for name in RENDERED if (root / name).is_file()]
        return tuple((one.st_mtime_ns, one.st_size) for one in stats)

    def of(self, root: Path, what: Mapping[str, Any], folder: str) -> Use:
        """The uses of one run.

        Args:
            root: the results folder of its scale.
            what: its study, step and labels, as in a record.
            folder: folder of the run, relative to `root`.
        """
        claims, numbers = self._read(root)
        study, step = str(what["study"]), str(what["step"])
        labels = {str(key): str(value) for key, value in what["labels"].items()}
        cells: dict[str, None] = {}
        found: dict[tuple[str, str, str, str], tuple[float, float, float | None]] = {}
        for place in self._places.get((study, step), ()):
            if not all(matches(where, study, step, labels) for where in place.filters):
                continue
            row, title = _row_name(place, labels)
            member = labels.get(place.artefact.over, "")
            last = member or place.column.title
            cells[", ".join(filter(None, (short_name(place.artefact.id), title, last)))] = None
            found |= _numbers(place, row, numbers, member)
        shown = [
            short_name(one.id)
            for one in self._artefacts.values()
            if any(matches(where, study, step, labels) for where in one.where)
        ]
        at = max((time for time, _ in self.signature(root)), default=0) // 1_000_000
        return Use(tuple(shown), tuple(cells), tuple(claims.get(folder, ())), found, at)

    def _read(self, root: Path) -> tuple[dict[str, list[str]], dict[tuple[str, ...], dict[str, str]]]:
        signature = self.signature(root)
        if root not in self._rendered or self._rendered[root][0] != signature:
            self._rendered[root] = (signature, _claims(root / "claims.json"), _cells(root / "tables"))
        return self._rendered[root][1:]


def _places(artefact: Artefact) -> Iterator[_Place]:
    rows = artefact.rows
    if artefact.expand:  # one row per measured network: its name comes from the run
        rows = (Row("", "", {}),)
    for row in rows:
        for column in artefact.columns:
            if row.applies(column.id):
                made = column.of(row)
                filters = ({"study": artefact.study}, artefact.common, row.where, made.where)
                yield _Place(artefact, row, made, tuple(one for one in filters if one))


def _steps(place: _Place) -> set[str]:
    """The steps whose runs a cell shows: the step of its quantity, or the steps that the artefact names."""
    name = place.column.quantity
    if not name.startswith("file:"):
        return {quantity(name.replace("_accuracy@*", "_accuracy")).step}
    steps: set[str] = set()
    for where in place.artefact.where:
        named = where.get("step", ())
        steps |= {named} if isinstance(named, str) else set(named)
    return steps


def _row_name(place: _Place, labels: Mapping[str, str]) -> tuple[str, str]:
    """Id and title of the run's row."""
    if not place.artefact.expand:
        return place.row.id, place.row.title
    names = [labels.get(label, "") for label in place.artefact.expand["rows"]]
    return "/".join(names), place.artefact.expand["title"].format(*names)


def _numbers(
    place: _Place, row: str, cells: Mapping[tuple[str, ...], Mapping[str, str]], member: str
) -> dict[tuple[str, str, str, str], tuple[float, float, float | None]]:
    """Measured and published value: the member's own, otherwise the whole cell's; none if either is missing.

    Their deviation follows if the whole cell has one, that is, if the two are comparable.
    """
    name = (place.artefact.id, row, place.column.id)
    comparable = bool(cells.get(name, {}).get("deviation"))
    for key in ((*name, member), name):
        cell = cells.get(key, {})
        beside = cell.get("paper") or cell.get("published_code")
        if beside and cell.get("mean"):
            measured, published = float(cell["mean"]), float(beside)
            away = measured - published if comparable else None
            return {(*name, place.column.unit): (measured, published, away)}
    return {}


def _claims(file: Path) -> dict[str, list[str]]:
    """Maps a run's folder to the claims based on it; empty without a sound file, which the next rendering writes anew."""
    found: dict[str, list[str]] = defaultdict(list)
    with contextlib.suppress(OSError, RecordError):
        for claim in claims_file.read(file)["claims"]:
            for run in claim.get("runs", ()):
                found[run].append(claim["id"])
    return found


def _cells(folder: Path) -> dict[tuple[str, ...], dict[str, str]]:
    """Maps (artefact, row, column) and (artefact, row, column, member) to the line in the table's file."""
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for file in sorted(folder.glob("*.csv")):
        with file.open(encoding="utf-8", newline="") as lines:
            table = csv.DictReader(lines)
            if "artefact" not in (table.fieldnames or ()):
                continue  # a file of the user's own
            for line in table:
                member = (line["member"],) if "member" in line else ()
                found[line["artefact"], line["row"], line["column"], *member] = line
    return found
