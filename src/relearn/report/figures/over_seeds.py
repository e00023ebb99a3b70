"""Aggregation over several runs at the same position: mean and range of the values."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from relearn.report.runs import Run, having


def by_place(
    runs: Iterable[Run],
    name: str,
    place: str,
    value: str,
    where: Callable[[Mapping[str, Any]], bool],
    finite: bool = True,
) -> dict[float, list[float]]:
    """The values of column ``value`` in a CSV file of the runs, grouped and sorted by column ``place``.

    Args:
        where: which rows.
        finite: leave out values that are not finite.
    """
    found: dict[float, list[float]] = defaultdict(list)
    for run in having(runs, name):
        for row in run.rows(name):
            number = row.get(value)
            if where(row) and number is not None and (math.isfinite(float(number)) or not finite):
                found[row[place]].append(float(number))
    return dict(sorted(found.items()))


def spread(values: list[float]) -> tuple[float, float, float, int]:
    """Mean, minimum, maximum and count."""
    return sum(values) / len(values), min(values), max(values), len(values)
