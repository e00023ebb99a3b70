"""qi2023, figure 5: mean and standard deviation of |alpha| after each epoch; one panel per network, one line per stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from relearn.report.artefacts import Artefact, Column, Row
from relearn.report.figures.over_seeds import by_place, spread
from relearn.report.figures.panels import by_row, panels, rows_to_draw, runs_of
from relearn.report.figures.style import COLOURS, apply_style, empty_figure
from relearn.report.quantities import Evidence

FIELDS = ("panel", "series", "epoch", "mean", "std", "seeds", "runs")
NAMES_NETWORKS = True
FEW = 20  # largest number of epochs drawn with bars
APART = 0.09  # offset between two stages, in epochs
NAMES = ("start", "gradinit", "bullseye_polytope", "gradient_matching")
LOOKS: tuple[dict[str, Any], ...] = tuple(
    {"color": COLOURS[name], "marker": marker, "ms": 4} for name, marker in zip(NAMES, "osD^")
)


def bars(_: Artefact, points: Sequence[Mapping[str, Any]]) -> str:
    """Few epochs have bars, many have thin lines."""
    lines = Counter((point["panel"], point["series"]) for point in points).values()
    kinds = dict.fromkeys("bars" if count <= FEW else "thin lines" for count in sorted(lines))
    return f"{' or '.join(kinds)}: mean ± standard deviation of |α| within a stage"


BARS = bars


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per network, stage and epoch: the within-stage mean and standard deviation, both averaged over seeds."""
    return by_row(_line, artefact, evidence)


def _line(artefact: Artefact, row: Row, column: Column, evidence: Evidence) -> list[dict[str, Any]]:
    runs = runs_of(artefact, row, column, evidence)
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

    rows = rows_to_draw(artefact, points)
    looks = {column.id: look for column, look in zip(artefact.columns, LOOKS)}
    with apply_style():
        figure = empty_figure(3.5)
        grid = figure.subplots(1, len(rows), squeeze=False, sharey=True)[0]
        for axes, _, here in panels(grid, rows, points, "Epoch"):
            for at, (name, look) in enumerate(looks.items()):
                shift = APART * (at - (len(looks) - 1) / 2)
                _curve(axes, [point for point in here if point["series"] == name], look, shift)
            axes.xaxis.get_major_locator().set_params(integer=True, nbins=5)
        if points:
            grid[0].set_ylabel("|α|")
            grid[0].set_ylim(bottom=min(0.0, grid[0].get_ylim()[0]))
            handles = [
                Line2D([], [], lw=1.4, label=column.title, **looks[column.id])
                for column in artefact.columns
                if any(point["series"] == column.id for point in points)
            ]
            figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False)
    return figure


def _curve(axes: Any, points: list[dict[str, Any]], look: dict[str, Any], shift: float) -> None:
    """Few epochs: bars, with the stages side by side; many epochs: a line between two thin ones."""
    if not points:
        return
    epochs, means, stds = ([p[name] for p in points] for name in ("epoch", "mean", "std"))
    if len(points) <= FEW:
        axes.errorbar(
            [epoch + shift for epoch in epochs],
            means,
            stds,
            lw=1.4,
            elinewidth=1,
            capsize=2,
            zorder=3,
            **look,
        )
        return
    plain = {**look, "marker": None}
    axes.plot(epochs, means, lw=1.6, zorder=3, **plain)
    for sign in (-1, 1):
        axes.plot(epochs, [m + sign * s for m, s in zip(means, stds)], lw=0.6, zorder=2, **plain)
