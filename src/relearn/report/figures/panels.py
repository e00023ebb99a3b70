"""Which rows and members of an artefact a figure shows: our own rows, and members, only if they were run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from relearn.report.artefacts import Artefact, Column, Row
from relearn.report.figures.style import MUTED, SMALL, not_run
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, having, select

Points = list[dict[str, Any]]
Line = Callable[[Artefact, Row, Column, Evidence], Points]


def runs_of(
    artefact: Artefact, row: Row, column: Column, evidence: Evidence, file: str | None = None
) -> list[Run]:
    """The runs of a cell; with ``file`` those that have it."""
    runs = select(evidence.runs, artefact.common, row.where, column.where)
    return runs if file is None else having(runs, file)


def by_row(line: Line, artefact: Artefact, evidence: Evidence) -> Points:
    """The points of every cell of an artefact, row by row."""
    return [
        p
        for row in artefact.rows
        for column in artefact.columns
        for p in line(artefact, row, column, evidence)
    ]


def by_column(line: Line, artefact: Artefact, evidence: Evidence) -> Points:
    """The points of every cell of an artefact, column by column."""
    return [
        p
        for column in artefact.columns
        for row in artefact.rows
        for p in line(artefact, row, column, evidence)
    ]


def panels(
    grid: Iterable[Any],
    members: Iterable[Any],
    points: Sequence[dict[str, Any]],
    below: str = "",
    title: Callable[[str], str] = str,
) -> Iterator[tuple[Any, Any, Points]]:
    """The axes, the row or column and the points of each panel that has points; the others show "not run".

    Args:
        below: label of the x axis; "" for none.
        title: what is written above a panel, from the title of its row or column.
    """
    from seaborn import despine

    for axes, member in zip(grid, members):
        here = [point for point in points if point["panel"] == member.id]
        axes.set_title(title(member.title))
        despine(ax=axes, left=True)
        if here:
            axes.set_xlabel(below)
            yield axes, member, here
        else:
            empty(axes)


def in_lines(title: str) -> str:
    """A title with one part a line."""
    return title.replace(", ", "\n")


def at_comma(title: str) -> str:
    """A title such as ``DP, trained`` in two lines, broken after its first comma."""
    return title.replace(", ", ",\n", 1)


def rows_to_draw(artefact: Artefact, points: Sequence[dict[str, Any]]) -> list[Row]:
    """The paper's rows, and our own rows that have a point."""
    there = {point["panel"] for point in points}
    return [row for row in artefact.rows if row.in_grid or row.id in there]


def with_points(
    columns: Sequence[Column], points: Iterable[Mapping[str, Any]], key: str = "panel"
) -> list[Column]:
    """The columns that have a point, or all of them if none has; the line below the figure names the others."""
    there = {point[key] for point in points}
    return [column for column in columns if column.id in there] or list(columns)


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
