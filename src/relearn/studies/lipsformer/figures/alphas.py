"""qi2023, figure 5: mean and standard deviation of |alpha| after each epoch; one panel per network, one line per stage."""

from __future__ import annotations

from typing import Any

from relearn.report.artefacts import Artefact, Column, Row
from relearn.report.figures.over_seeds import by_place, spread
from relearn.report.figures.panels import empty, shown
from relearn.report.figures.style import empty_figure, sequential, styled
from relearn.report.quantities import Evidence
from relearn.report.runs import select

FIELDS = ("panel", "series", "epoch", "mean", "std", "seeds", "runs")
BARS = "bands: mean ± standard deviation of |α| within a stage"
FEW = 20  # epochs that are marked


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per network, stage and epoch: the mean over seeds of the mean and of the standard deviation."""
    return [
        p
        for row in artefact.rows
        for column in artefact.columns
        for p in _line(artefact, row, column, evidence)
    ]


def _line(artefact: Artefact, row: Row, column: Column, evidence: Evidence) -> list[dict[str, Any]]:
    runs = select(evidence.runs, artefact.common, row.where, column.where)
    means, stds = (
        by_place(
            runs,
            "alphas.csv",
            "epoch",
            f"alpha_{name}",
            lambda line: line["stage"] == column.panel["stage"],
        )
        for name in ("mean", "std")
    )
    folders = " ".join(run.folder for run in runs)
    found = []
    for epoch in means.keys() & stds.keys():
        mean, _, _, seeds = spread(means[epoch])
        found.append(
            dict(zip(FIELDS, (row.id, column.id, epoch, mean, spread(stds[epoch])[0], seeds, folders)))
        )
    return sorted(found, key=lambda point: point["epoch"])


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Panels of equal height; networks that are not in the paper appear only if they were run."""
    from matplotlib.lines import Line2D
    from seaborn import despine

    rows = shown(artefact, points)
    colours = sequential([column.id for column in artefact.columns])
    with styled():
        figure = empty_figure(max(5.2, 2.9 * len(rows) + 0.6), 3.7)
        grid = figure.subplots(1, len(rows), squeeze=False, sharey=True)[0]
        for axes, row in zip(grid, rows):
            here = [point for point in points if point["panel"] == row.id]
            axes.set_title(row.title, fontsize=10)
            axes.set_xlabel("Epoch")
            despine(ax=axes, left=True)
            if not here:
                empty(axes)
                continue
            for name, colour in colours.items():
                _curve(axes, [point for point in here if point["series"] == name], colour)
            axes.xaxis.get_major_locator().set_params(integer=True, nbins=5)
        if points:
            grid[0].set_ylabel("|α|")
            grid[0].set_ylim(bottom=min(0.0, grid[0].get_ylim()[0]))
            handles = [
                Line2D([], [], color=colours[column.id], lw=1.6, label=column.title)
                for column in artefact.columns
            ]
            figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False)
    return figure


def _curve(axes: Any, points: list[dict[str, Any]], colour: Any) -> None:
    if not points:
        return
    epochs, means, stds = ([p[name] for p in points] for name in ("epoch", "mean", "std"))
    low, high = ([m + sign * s for m, s in zip(means, stds)] for sign in (-1, 1))
    axes.fill_between(epochs, low, high, color=colour, alpha=0.2, lw=0, zorder=2)
    axes.plot(epochs, means, color=colour, lw=1.6, marker="o" if len(points) <= FEW else None, ms=3, zorder=3)
