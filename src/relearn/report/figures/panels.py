"""Which rows and members of an artefact a figure shows: our own rows, and members, only if they were run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from relearn.report.artefacts import Artefact, Row
from relearn.report.figures.style import MUTED, SMALL, not_run


def rows_to_draw(artefact: Artefact, points: Sequence[dict[str, Any]]) -> list[Row]:
    """The paper's rows, and our own rows that have a point."""
    there = {point["panel"] for point in points}
    return [row for row in artefact.rows if row.in_grid or row.id in there]


def empty(axes: Any) -> None:
    """A panel for which nothing was run; an axis shared with other panels keeps its ticks."""
    for axis, shared in (("x", axes.get_shared_x_axes()), ("y", axes.get_shared_y_axes())):
        if len(shared.get_siblings(axes)) == 1:
            axes.set(**{f"{axis}ticks": []})
    not_run(axes)


def attacked(artefact: Artefact, there: Collection[str]) -> list[str]:
    """The members that were run, in the paper's order; all if none was."""
    return [member for member in artefact.members if member in there] or list(artefact.members)


def absent(axes: Any, artefact: Artefact, members: Collection[str]) -> None:
    """Name the missing members in one line below the axis."""
    if gone := [member for member in artefact.members if member not in members]:
        axes.set_xlabel(f"Not run here: {', '.join(gone)}", fontsize=SMALL, color=MUTED, loc="left")
