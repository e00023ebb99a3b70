"""Aggregation over several runs at the same position: mean and range of the finite values."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from relearn.report.runs import Run


def by_place(
    runs: Iterable[Run], name: str, place: str, value: str, where: Callable[[Mapping[str, Any]], bool]
) -> dict[float, list[float]]:
    """The finite values of column ``value`` in a CSV file of the runs, grouped and sorted by column ``place``."""
    found: dict[float, list[float]] = defaultdict(list)
    for run in runs:
        for row in run.rows(name) if run.has(name) else ():
            number = row.get(value)
            if where(row) and number is not None and math.isfinite(float(number)):
                found[row[place]].append(float(number))
    return dict(sorted(found.items()))


def spread(values: list[float]) -> tuple[float, float, float, int]:
    """Mean, minimum, maximum and count."""
    return sum(values) / len(values), min(values), max(values), len(values)
