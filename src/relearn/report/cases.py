"""The rows of ``cases.csv`` of one protocol of the step `check_theorems`, as parts of an exact claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relearn.report.comparisons import Exact
from relearn.report.quantities import Evidence
from relearn.report.runs import folders, having, select

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Cases:
    """The cases checked by the runs of a protocol."""

    rows: Sequence[Row]
    runs: tuple[str, ...]

    def where(self, **labels: Any) -> Cases:
        """The rows with these values; p = ``inf`` is a number (a float), because the CSV is read as numbers."""
        rows = [row for row in self.rows if all(row[name] == value for name, value in labels.items())]
        return Cases(rows, self.runs)

    def part(
        self,
        name: str,
        good: Callable[[Row], bool],
        notes: Sequence[str] = (),
        *,
        full_size: Callable[[Row], bool],
        vacuous: Callable[[Row], bool] = lambda row: False,
    ) -> Exact:
        """A statement that every row should satisfy; without rows it counts as failed, because nothing was checked.

        Args:
            name: the statement.
            good: whether a row satisfies it.
            notes: further notes.
            full_size: whether a row is of the published size; one such non-vacuous row is enough.
            vacuous: whether a row says nothing, for example because its bound is infinite; it counts neither way and is noted.
        """
        telling = [row for row in self.rows if not vacuous(row)]
        idle = len(self.rows) - len(telling)
        if idle:
            notes = [*notes, f"vacuous: {idle} of {len(self.rows)} cases, which count neither way"]
        failures = sum(not good(row) for row in telling) if telling or idle else 1
        whole = any(map(full_size, telling))
        return Exact(name, len(telling), failures, whole, self.runs, tuple(notes))

    def most(self, over: str, under: str) -> float:
        """The largest ratio ``over / under`` of two columns, over the rows that have both."""
        pairs = [(row[over], row[under]) for row in self.rows if row[over] is not None and row[under]]
        return max((float(a) / float(b) for a, b in pairs), default=math.nan)


def counter_example(row: Row) -> bool:
    """``full_size`` for refuting a general statement: one counter-example of any size is enough."""
    return True


def cases(evidence: Evidence, protocol: str) -> Cases:
    """All rows of this protocol; none if it was not run."""
    runs = having(select(evidence.runs, {"step": "check_theorems", "protocol": protocol}), "cases.csv")
    return Cases([row for run in runs for row in run.rows("cases.csv")], folders(runs))


NOISE = 1e-12
"""Errors of double precision below it are rounding, which differs between machines."""


def shown(value: float, form: str = ".2g") -> str:
    """An error in this format, or ``below 1e-12`` for one that is mere rounding."""
    return f"below {NOISE:g}" if abs(value) < NOISE else format(value, form)


def span(values: Iterable[float], form: str = ".2g") -> str:
    """``low to high``, or one number if both look alike."""
    found = list(values)
    low, high = shown(min(found), form), shown(max(found), form)
    return low if low == high else f"{low} to {high}"


def number(value: Any) -> float:
    """A number of a case; infinite if it is missing or not finite."""
    found = math.inf if value is None else float(value)
    return found if math.isfinite(found) else math.inf
