"""The papers' own numbers: one CSV per study, one row per cell, stored as printed and converted on request."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FILE = "published.csv"  # in a study's folder `reported`
FIELDS = (
    *("artefact", "row", "column", "metric", "unit", "direction"),
    *("value", "spread", "spread_kind", "n_runs", "outcome", "note"),
)
OUTCOMES = ("ok", "diverged", "not_converged", "converges_poorly", "not_reported")
#: how many of each unit make a fraction of one
PER_FRACTION = {"fraction": 1.0, "percent": 100.0, "percentage_points": 100.0}


@dataclass(frozen=True)
class Value:
    """One published cell; ``value`` is None if nothing is printed, and ``outcome`` says why."""

    artefact: str
    row: str
    column: str
    metric: str
    unit: str
    direction: str
    value: float | None
    spread: float | None
    spread_kind: str
    n_runs: int | None
    outcome: str
    note: str
    digits: str = ""
    """The value as it is printed, with its zeros; ``spread_digits`` is that of the spread."""
    spread_digits: str = ""

    def in_unit(self, unit: str) -> float | None:
        """The value in another unit: converts between percent and fraction, leaves everything else unchanged.

        A unit with the suffix ``_fine`` is the same unit, shown with three significant digits.

        Raises:
            ValueError: the units are not convertible.
        """
        if self.value is None or unit.removesuffix("_fine") == self.unit:
            return self.value
        if unit in PER_FRACTION and self.unit in PER_FRACTION:
            return self.value * PER_FRACTION[unit] / PER_FRACTION[self.unit]
        raise ValueError(
            f"{self.artefact}, {self.row}, {self.column}: found unit {self.unit}, asked for {unit}"
        )


def read(path: str | Path) -> list[Value]:
    """All values of one file.

    Raises:
        ValueError: naming file and line, for wrong columns, an unknown outcome or a value that is not a number.
    """
    path = Path(path)
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != FIELDS:
            raise ValueError(f"{path}: found columns {reader.fieldnames}, allowed: {', '.join(FIELDS)}")
        return [_value(path, reader.line_num, row) for row in reader]


def _value(path: Path, line: int, row: dict[str, str]) -> Value:
    if None in row or None in row.values():
        raise ValueError(f"{path}: line {line}: found {len(row)} cells, allowed: {len(FIELDS)}")
    if row["outcome"] not in OUTCOMES:
        raise ValueError(
            f"{path}: line {line}: found outcome {row['outcome']!r}, allowed: {', '.join(OUTCOMES)}"
        )
    try:
        number = {name: float(row[name]) if row[name] else None for name in ("value", "spread")}
        runs = int(row["n_runs"]) if row["n_runs"] else None
    except ValueError as error:
        raise ValueError(f"{path}: line {line}: {error}") from None
    printed = {"digits": row["value"], "spread_digits": row["spread"]}
    return Value(**{**row, **number, **printed, "n_runs": runs})  # type: ignore[arg-type]


def values_of(path: Path, artefact: str) -> list[Value]:
    """The values of one artefact.

    Raises:
        ValueError: as :func:`read`, and if the file has no value of this artefact.
    """
    found = [value for value in read(path) if value.artefact == artefact]
    if not found:
        raise ValueError(f"{path}: no value of {artefact}")
    return found


def find(values: Iterable[Value], *, row: str, metric: str, column: str | None = None) -> Value | None:
    """The first value of this cell; None if there is none."""
    for value in values:
        if (value.row, value.metric) == (row, metric) and column in (None, value.column):
            return value
    return None
