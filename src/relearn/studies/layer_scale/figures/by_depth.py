"""The accuracy of trained networks by depth (label ``depth``): one line per scheme, one panel per family of schemes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relearn.report.artefacts import Artefact
from relearn.report.classified import accuracy, guess, trainings
from relearn.report.figures.panels import empty
from relearn.report.figures.style import (
    MUTED,
    SMALL,
    apply_style,
    empty_figure,
    in_percent,
    number,
    sequential,
)
from relearn.report.quantities import Evidence
from relearn.report.statistics import student_mean
from relearn.report.views.names import plural

FIELDS = (
    *("panel", "series", "depth", "value", "low", "high", "seeds", "diverged", "not_converged", "chance"),
    "runs",
)
BARS = "lines: 95% interval of the mean over seeds"
MARKERS = "osD^v"
LINE = 0.23  # inches per scheme
APART = 0.22  # distance between two depths of a scheme, relative to that between two schemes
DASHED = (0, (4, 2))
LOST: dict[str, dict[str, Any]] = {
    "not_converged": {"marker": "o", "mfc": "white", "ms": 6, "label": "Some did not converge"},
    "diverged": {"marker": "X", "ms": 7, "label": "Some diverged"},
}


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per panel, scheme and depth: the mean over seeds, its 95% interval, and the numbers of diverged and not converged trainings.

    A training without a final accuracy counts with its accuracy before divergence, or with that of chance.
    """
    found = []
    level = guess(evidence)
    for column in artefact.columns:
        for row in artefact.rows:
            if not row.applies(column.id):
                continue
            where = {**artefact.common, **row.where, **column.where}
            for depth in sorted({run.labels["depth"] for run in trainings(evidence, where)}, key=int):
                at = {**where, "depth": depth}
                runs = trainings(evidence, at)
                values = list(accuracy(evidence, row.id, at).values.values())
                lost = [sum(run.outcome == word for run in runs) for word in ("diverged", "not_converged")]
                folders = " ".join(run.folder for run in runs)
                if values:
                    mean = student_mean(values)
                    ends = (mean.low, mean.high)
                    if len(values) == 1:
                        ends = (mean.estimate, mean.estimate)
                    numbers = (int(depth), mean.estimate, *ends, len(values), *lost, level, folders)
                    found.append(dict(zip(FIELDS, (column.id, row.id, *numbers))))
    return found


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """One line per scheme, below the title of its family; the depths of a scheme are stacked vertically."""
    from matplotlib.lines import Line2D
    from seaborn import despine

    depths = sorted({point["depth"] for point in points})
    looks = {
        depth: (colour, MARKERS[at % len(MARKERS)])
        for at, (depth, colour) in enumerate(sequential(depths).items())
    }
    families = [[row for row in artefact.rows if row.applies(column.id)] for column in artefact.columns]
    with apply_style():
        figure = empty_figure(1.5 + LINE * sum(len(rows) + 1.6 for rows in families))
        grid = figure.subplots(len(families), sharex=True, height_ratios=[len(rows) for rows in families])
        for axes, column, rows in zip(grid, artefact.columns, families):
            own = [point for point in points if point["panel"] == column.id]
            axes.set_title(column.title)
            despine(ax=axes, left=True)
            if not own:
                empty(axes)
                continue
            for at, row in enumerate(rows):
                _line(axes, at, row.title, [p for p in own if p["series"] == row.id], looks)
            for point in points:
                if point["series"] == artefact.reference:
                    axes.axvline(point["value"], color=looks[point["depth"]][0], lw=1, ls=DASHED, zorder=1)
            axes.set_yticks(range(len(rows)), [row.title for row in rows])
            axes.set_ylim(len(rows) - 0.4, -0.6)
            axes.grid(visible=False, axis="y")
        if points:
            _chance(grid, points)
            in_percent(grid[-1].xaxis)
            grid[-1].set_xlabel("Test accuracy")
            handles = [
                Line2D([], [], color=c, ls="", marker=m, ms=6, label=f"{d} blocks")
                for d, (c, m) in looks.items()
            ]
            for row in artefact.rows:
                if row.id == artefact.reference and any(point["series"] == row.id for point in points):
                    handles.append(Line2D([], [], color=MUTED, lw=1, ls=DASHED, label=row.title))
            handles += [
                Line2D([], [], color=MUTED, ls="", **look)
                for name, look in LOST.items()
                if any(point[name] for point in points)
            ]
            figure.legend(handles=handles, loc="outside upper left", ncols=4, frameon=False)
    return figure


def _line(
    axes: Any, at: int, title: str, points: list[dict[str, Any]], looks: Mapping[int, tuple[Any, str]]
) -> None:
    if not points:
        place: Any = {
            "transform": axes.get_yaxis_transform(),
            "ha": "right",
            "va": "center",
            "color": MUTED,
            "fontsize": SMALL,
        }
        axes.text(0.99, at, "not run", **place)  # at the left end it would cover the line of chance
    for rank, depth in enumerate(looks):
        y = at + APART * (rank - (len(looks) - 1) / 2)
        for point in (point for point in points if point["depth"] == depth):
            colour, marker = looks[depth]
            if point["seeds"] > 1:
                axes.plot([point["low"], point["high"]], [y, y], color=colour, lw=1, alpha=0.6, zorder=2)
            shape = "X" if point["diverged"] else marker
            inside = "white" if point["not_converged"] and not point["diverged"] else colour
            axes.plot(
                point["value"],
                y,
                marker=shape,
                mfc=inside,
                color=colour,
                ms=7 if shape == "X" else 5.5,
                zorder=3,
            )
            axes.figure.mark(axes, point["value"], y, point, _says(title, point))


def _says(title: str, point: Mapping[str, Any]) -> str:
    shown = number(point["value"], point["low"], point["high"], percent=True)
    lost = [
        f"{point[name]} {name.replace('_', ' ')}" for name in ("diverged", "not_converged") if point[name]
    ]
    return "; ".join([f"{title}, {point['depth']} blocks: {shown}, {plural(point['seeds'], 'seed')}", *lost])


def _chance(grid: Any, points: list[dict[str, Any]]) -> None:
    """Draw chance accuracy through all panels, and extend the axis below it."""
    for level in sorted({point["chance"] for point in points if point["chance"] is not None}):
        low, high = grid[0].get_xlim()
        grid[0].set_xlim(min(low, level - 0.03), high)
        for axes in grid:
            axes.axvline(level, color=MUTED, lw=1, ls=(0, (1, 2)), zorder=1)
        place: Any = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        grid[-1].annotate("chance", (level, 0), (3, 3), color=MUTED, fontsize=SMALL, **place)
