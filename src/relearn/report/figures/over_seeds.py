"""Aggregation over several runs at the same position: the mean of the values with its interval or range, and what is said of both."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from relearn.report.artefacts import Artefact
from relearn.report.runs import Run, having
from relearn.report.statistics import student_mean

LEAST = 3
"""Seeds from which on a mean has an interval. Below, Student's t is 12.7 and says little: the range is shown."""
RANGE = "lowest to highest seed"
INTERVAL = "Student's 95% interval of the mean over seeds"


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


def spread(
    values: Sequence[float], least: float = -math.inf, most: float = math.inf
) -> tuple[float, float, float, int]:
    """Mean, lower and upper end, and count; the ends of the 95% interval of the mean or, below LEAST values, the smallest and largest.

    A range grows with the number of values, so two series with different numbers of seeds could not be compared by it.

    Args:
        least, most: bounds of a single value, which the interval keeps.
    """
    mean, count = sum(values) / len(values), len(values)
    if count < LEAST or not all(map(math.isfinite, values)):
        return mean, min(values), max(values), count
    ends = student_mean(values)
    return mean, max(least, min(ends.low, mean)), min(most, max(ends.high, mean)), count


def ends(points: Iterable[Mapping[str, Any]], drawn: str = "bands", more: str = "") -> str:
    """What the bars or bands of these points are: intervals, ranges, or both."""
    several = {point["seeds"] for point in points if (point.get("seeds") or 0) > 1}
    if not several or max(several) < LEAST:
        shown = RANGE
    else:
        few = min(several) < LEAST
        shown = INTERVAL + (f", with {LEAST - 1} seeds the {RANGE}" if few else "")
    return f"{drawn}: {shown}{more}"


def bands(_: Artefact, points: Sequence[Mapping[str, Any]]) -> str:
    """``BARS`` of a renderer with bands."""
    return ends(points)


def hatched_bands(_: Artefact, points: Sequence[Mapping[str, Any]]) -> str:
    """``BARS`` of a renderer with bands that are hatched around dashed lines."""
    return ends(points, more=", hatched around dashed lines")


def log_bands(points: Sequence[Mapping[str, Any]], panel: Callable[[Mapping[str, Any]], Any]) -> str:
    """``BARS`` of bands on log axes; ``panel`` gives what the points of one axis share."""
    found: dict[Any, list[Mapping[str, Any]]] = defaultdict(list)
    for point in points:
        found[panel(point)].append(point)
    cut = any(point["low"] < bottom(of) for of in found.values() for point in of)
    return ends(points, more=", cut at the lower edge" if cut else "")


def bottom(points: Iterable[Mapping[str, Any]]) -> float:
    """The lower edge of a log axis: half of the smallest mean. An interval of positive numbers can include 0, which the axis lacks."""
    return min((point["value"] for point in points if point["value"] > 0), default=1.0) / 2


def edges(points: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """The limits of a log axis."""
    low = bottom(points)
    return low, max(4 * low, 1.5 * max(point["high"] for point in points))


def numbers(points: Iterable[Mapping[str, Any]], key: str = "series") -> Mapping[Any, str]:
    """`` (n = 3)`` for each series, to put behind its name in a legend; "" for all of them if they have equally many seeds."""
    found: dict[Any, set[int]] = defaultdict(set)
    for point in points:
        if point.get("seeds"):
            found[point[key]].add(int(point["seeds"]))
    alike = len({frozenset(counts) for counts in found.values()}) < 2
    said = {name: " to ".join(map(str, sorted({min(of), max(of)}))) for name, of in found.items()}
    return defaultdict(str, {} if alike else {name: f" (n = {count})" for name, count in said.items()})
