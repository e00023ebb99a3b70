"""A number of trained networks over their depth (label ``depth``): one line per scheme, one panel per family of schemes."""

from __future__ import annotations

from typing import Any

from relearn.report.artefacts import Artefact, Row
from relearn.report.classified import accuracy, trainings
from relearn.report.figures.over_seeds import spread
from relearn.report.figures.panels import empty
from relearn.report.figures.style import COLOURS, MUTED, empty_figure, in_percent, styled
from relearn.report.quantities import Evidence

FIELDS = ("panel", "series", "depth", "value", "low", "high", "seeds", "diverged", "not_converged", "runs")
LINES = tuple(COLOURS[name] for name in ("start", "gradinit", "bullseye_polytope", "gradient_matching"))
MARKERS = "osD^"
APART = 0.022  # of the axis: how far the schemes of a panel stand beside each other


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per panel, scheme and depth: the mean over seeds and their range; how many of the trainings were lost.

    A training without an accuracy has the one that it had before it diverged, or that of chance.
    """
    found = []
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
                    numbers = (int(depth), *spread(values), *lost, folders)
                    found.append(dict(zip(FIELDS, (column.id, row.id, *numbers))))
    return found


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """The reference is in every panel; the legend of each panel names its schemes."""
    from matplotlib.lines import Line2D
    from seaborn import despine

    depths = sorted({point["depth"] for point in points})
    with styled():
        figure = empty_figure(2.75 * len(artefact.columns), 4.3)
        grid = figure.subplots(1, len(artefact.columns), sharey=True)
        for axes, column in zip(grid, artefact.columns):
            rows = [row for row in artefact.rows if row.applies(column.id)]
            own = [point for point in points if point["panel"] == column.id]
            axes.set_title(column.title, fontsize=10)
            axes.set_xlabel("Blocks")
            despine(ax=axes, left=True)
            if not own:
                empty(axes)
                continue
            looks = dict(zip((row.id for row in rows), zip(LINES, MARKERS)))
            if artefact.reference in looks:
                looks[artefact.reference] = (MUTED, MARKERS[0])
            _line(axes, [p for p in points if p["series"] == artefact.reference], MUTED, MARKERS[0], 0.0)
            edge = 0.12 * (depths[-1] - depths[0]) or 5
            wide = APART * (depths[-1] - depths[0] + 2 * edge)
            for at, row in enumerate(rows):
                if row.id != artefact.reference:
                    shift = (at - (len(rows) - 1) / 2) * wide
                    _line(axes, [p for p in own if p["series"] == row.id], *looks[row.id], shift)
            axes.set_xlim(depths[0] - edge, depths[-1] + edge)
            axes.set_xticks(depths, [str(depth) for depth in depths])
            axes.grid(visible=False, axis="x")
            in_percent(axes.yaxis)
            handles = [_handle(row, *looks[row.id]) for row in rows]
            axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(-0.04, -0.185), frameon=False)
        if points:
            grid[0].set_ylabel("Test accuracy")
            marks = [
                Line2D([], [], color=MUTED, lw=1.4, label="Pre-norm"),
                Line2D(
                    [], [], color=MUTED, ls="", marker="o", mfc="white", ms=6, label="Some did not converge"
                ),
                Line2D([], [], color=MUTED, ls="", marker="X", ms=7, label="Some diverged"),
            ]
            figure.legend(handles=marks, loc="outside upper left", ncols=3, frameon=False)
    return figure


def _handle(row: Row, colour: str, marker: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, lw=1.4, marker=marker, ms=5, label=row.title)


def _line(axes: Any, points: list[dict[str, Any]], colour: str, marker: str, shift: float) -> None:
    xs, ys = [point["depth"] + shift for point in points], [point["value"] for point in points]
    axes.plot(xs, ys, color=colour, lw=1.4, zorder=2)
    for x, point in zip(xs, points):
        if point["seeds"] > 1:
            axes.plot([x, x], [point["low"], point["high"]], color=colour, lw=1, alpha=0.6, zorder=2)
        shape = "X" if point["diverged"] else marker
        inside = "white" if point["not_converged"] and not point["diverged"] else colour
        axes.plot(
            x, point["value"], marker=shape, mfc=inside, color=colour, ms=7 if shape == "X" else 5, zorder=3
        )
