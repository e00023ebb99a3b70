"""zhu2022, figure 4.2: test accuracy after every epoch, from two initialisations; one panel per network and optimiser."""

from __future__ import annotations

from typing import Any

from relearn.report.artefacts import Artefact, Column, Row
from relearn.report.classified import guess
from relearn.report.figures.over_seeds import bands, by_place, numbers, spread
from relearn.report.figures.panels import by_column, in_lines, panels, runs_of, with_points
from relearn.report.figures.style import (
    COLOURS,
    MUTED,
    SMALL,
    apply_style,
    band,
    chance_line,
    empty_figure,
    in_percent,
    number,
)
from relearn.report.quantities import Evidence
from relearn.report.views.names import plural

FIELDS = ("panel", "series", "epoch", "accuracy", "low", "high", "seeds", "diverged", "chance", "runs")
NAMES_NETWORKS = True
BARS = bands
COLOUR = {"kaiming": COLOURS["start"], "gradinit": COLOURS["gradinit"]}


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per panel, initialisation and epoch: mean and interval (or range) over the seeds that reached this epoch."""
    return by_column(_line, artefact, evidence)


def _line(artefact: Artefact, row: Row, column: Column, evidence: Evidence) -> list[dict[str, Any]]:
    runs = runs_of(artefact, row, column, evidence, "history.csv")
    found = by_place(runs, "history.csv", "epoch", column.panel["value"], lambda _: True, finite=False)
    lost, folders = sum(run.diverged for run in runs), " ".join(run.folder for run in runs)
    level = guess(evidence)
    return [
        dict(zip(FIELDS, (column.id, row.id, epoch, *spread(values, 0.0, 1.0), lost, level, folders)))
        for epoch, values in found.items()
    ]


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """One panel per network that was run, with a shared accuracy axis, and the number of diverged runs below the curves."""
    from matplotlib.lines import Line2D

    columns = with_points(artefact.columns, points)
    with apply_style():
        figure = empty_figure(3.2)
        grid = figure.subplots(1, len(columns), squeeze=False, sharey=True)[0]
        for axes, column, here in panels(grid, columns, points, "Epoch", in_lines):
            for row in artefact.rows:
                line = [point for point in here if point["series"] == row.id]
                _curve(axes, line, COLOUR[row.id], f"{row.title}, {column.title}")
            _lost(axes, artefact, here)
            in_percent(axes.yaxis)
            chance_line(axes, here)
            axes.xaxis.get_major_locator().set_params(integer=True, nbins=5)
        grid[0].set_ylabel("Test accuracy")
        counts = numbers(points)
        handles = [
            Line2D([], [], color=COLOUR[row.id], marker="o", ms=3.5, lw=1.4, label=row.title + counts[row.id])
            for row in artefact.rows
            if any(point["series"] == row.id for point in points)
        ]
        if handles:
            figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False)
    return figure


def _curve(axes: Any, points: list[dict[str, Any]], colour: str, title: str) -> None:
    if not points:
        return
    epochs, values = ([p[name] for p in points] for name in ("epoch", "accuracy"))
    band(axes, points, "epoch", colour, 0.2)
    marker = "o" if len(points) <= 20 else None
    axes.plot(epochs, values, color=colour, marker=marker, ms=3.2, lw=1.4, zorder=3)
    last = points[-1]
    shown = number(last["accuracy"], last["low"], last["high"], percent=True)
    says = f"{title}: {shown} after {plural(int(last['epoch']), 'epoch')}, {plural(last['seeds'], 'seed')}"
    axes.figure.mark(axes, last["epoch"], last["accuracy"], last, says)


def _lost(axes: Any, artefact: Artefact, points: list[dict[str, Any]]) -> None:
    words = []
    for row in artefact.rows:
        own = [point["diverged"] for point in points if point["series"] == row.id]
        if not own:
            words.append(f"{row.title}: not run")
        elif lost := max(own):
            words.append(f"{row.title}: {lost} diverged")
    place = {"transform": axes.transAxes, "ha": "left", "va": "top"}
    axes.text(0.03, 0.98, "\n".join(words), fontsize=SMALL, color=MUTED, **place)
