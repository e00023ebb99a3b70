"""What several runs of one kind say at the same place: their mean and their range, of numbers that are finite."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from relearn.report.runs import Run


def by_place(
    runs: Iterable[Run], name: str, place: str, value: str, where: Callable[[Mapping[str, Any]], bool]
) -> dict[float, list[float]]:
    """A column of a CSV file of the runs by another of its columns, in its order; rows without a finite number are left out."""
    found: dict[float, list[float]] = defaultdict(list)
    for run in runs:
        for row in run.rows(name) if run.has(name) else ():
            number = row.get(value)
            if where(row) and number is not None and math.isfinite(float(number)):
                found[row[place]].append(float(number))
    return dict(sorted(found.items()))


def spread(values: list[float]) -> tuple[float, float, float, int]:
    """Mean, least, greatest, and how many."""
    return sum(values) / len(values), min(values), max(values), len(values)
