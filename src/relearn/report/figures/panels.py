"""Panels of a figure that shows a row of its artefact each, and some rows of ours only where they were run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relearn.report.artefacts import Artefact, Row
from relearn.report.figures.style import not_run


def shown(artefact: Artefact, points: Sequence[dict[str, Any]]) -> list[Row]:
    """The paper's rows, and of the others those with a point."""
    there = {point["panel"] for point in points}
    return [row for row in artefact.rows if row.in_grid or row.id in there]


def empty(axes: Any) -> None:
    """A panel that nothing was run for."""
    axes.set(xticks=[], yticks=[])
    not_run(axes)
