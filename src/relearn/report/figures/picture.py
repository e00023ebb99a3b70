"""A matplotlib figure that records the positions and texts of its points, so that a page can show them as tooltips.

Importing this module imports matplotlib; :func:`relearn.report.figures.style.empty_figure` does so only when a figure is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

FIELDS = ("plot_left", "plot_top", "plot_says")
"""Columns that the CSV file of a figure has for them: shares of its picture's width and height, and the words."""
DIGITS = 4  # decimals of a position: a tenth of a pixel


@dataclass(frozen=True)
class Mark:
    axes: Any
    at: tuple[float, float]
    point: Mapping[str, Any]
    says: str


class Picture(Figure):
    """A matplotlib figure with marked points."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.marks: list[Mark] = []

    def mark(self, axes: Any, x: float, y: float, point: Mapping[str, Any], says: str) -> None:
        """Record that ``point`` is drawn at (x, y), in data coordinates of ``axes``."""
        self.marks.append(Mark(axes, (x, y), point, says))

    def places(self) -> list[tuple[Mapping[str, Any], dict[str, Any]]]:
        """Each marked point with the values of FIELDS from the last layout; points outside their axes are left out."""
        found = []
        for mark in self.marks:
            x, y = self.transFigure.inverted().transform(mark.axes.transData.transform(mark.at))
            box = mark.axes.get_position()
            if math.isfinite(x + y) and _within(x, box.x0, box.x1) and _within(y, box.y0, box.y1):
                place = (round(float(x), DIGITS), round(1 - float(y), DIGITS), mark.says)
                found.append((mark.point, dict(zip(FIELDS, place))))
        return found


def _within(value: float, low: float, high: float) -> bool:
    edge = 1e-3  # of the figure: tolerance for a point on the frame of its axes
    return bool(low - edge <= value <= high + edge)
