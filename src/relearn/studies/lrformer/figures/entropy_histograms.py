"""ye2023, our addition: the distribution of predictive entropy on test images and on each out-of-distribution set."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from relearn.report.artefacts import Artefact, Column, Row
from relearn.report.figures.panels import by_column, empty, runs_of, with_points
from relearn.report.figures.style import INK, SHADE, apply_style, empty_figure, in_percent
from relearn.report.quantities import Evidence

FIELDS = ("row", "panel", "set", "low", "high", "share", "seeds", "runs")
TEST = "test"
NAMES = {
    "cifar100": "CIFAR-100",
    "svhn": "SVHN",
    "natural_patches": "Natural patches",
    "corrupted": "Corrupted test images",
    "gaussian_noise": "Gaussian noise",
    "uniform_noise": "Uniform noise",
}
COLOUR = dict(zip(NAMES, ("#0173B2", "#DE8F05", "#029E73", "#CC78BC", "#B3440B", "#56B4E9")))


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per variant, depth, set and bin: the bin's share of the set's images, averaged over seeds."""
    return by_column(_panel, artefact, evidence)


def _panel(artefact: Artefact, row: Row, column: Column, evidence: Evidence) -> list[dict[str, Any]]:
    runs = [run for run in runs_of(artefact, row, column, evidence, "scores.csv") if not run.diverged]
    shares: dict[tuple[str, float, float], list[float]] = defaultdict(list)
    for run in runs:
        totals: dict[str, int] = defaultdict(int)
        lines = run.rows("scores.csv")
        for line in lines:
            totals[line["set"]] += line["count"]
        for line in lines:
            bin_ = line["set"], float(line["low"]), float(line["high"])
            shares[bin_].append(line["count"] / totals[line["set"]])
    folders = " ".join(run.folder for run in runs)
    return [
        dict(zip(FIELDS, (column.id, row.id, *place, sum(values) / len(values), len(values), folders)))
        for place, values in shares.items()
    ]


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Test images as a filled area, out-of-distribution sets as lines; the square-root scale keeps small shares visible next to a peak."""
    from matplotlib.patches import Patch
    from seaborn import despine

    columns = with_points(artefact.columns, points, "row")
    across, down = len(artefact.rows), len(columns)
    with apply_style():
        figure = empty_figure(2.1 * down + 0.8)
        grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
        for line, column in zip(grid, columns):
            for axes, row in zip(line, artefact.rows):
                here = [p for p in points if (p["row"], p["panel"]) == (column.id, row.id)]
                axes.set_title(f"{row.title},\n{column.title}")
                axes.set_yscale("function", functions=(_root, _square))
                despine(ax=axes, left=True)
                if here:
                    _outlines(axes, here)
                else:
                    empty(axes)
            line[0].set_ylabel("Share of images\n(square-root scale)")
        top = max((point["share"] for point in points), default=1.0)
        grid[0][0].set(
            ylim=(0, 1.05 * top), yticks=[at for at in (0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0) if at <= top]
        )
        in_percent(grid[0][0].yaxis)
        filled = [point for point in points if point["share"] > 0]
        if filled:  # the axis covers only occupied bins
            low, high = min(p["low"] for p in filled), max(p["high"] for p in filled)
            grid[0][0].set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))
        for axes in grid[-1]:
            axes.set_xlabel("Entropy, nats")
        handles = [Patch(facecolor=SHADE, edgecolor=INK, label="Test images")]
        there = {point["set"] for point in points}
        handles += [Patch(color=COLOUR[name], label=NAMES[name]) for name in NAMES if name in there]
        figure.legend(handles=handles, loc="outside upper left", ncols=4, frameon=False)
    return figure


def _outlines(axes: Any, points: list[dict[str, Any]]) -> None:
    for name in dict.fromkeys(point["set"] for point in points):
        bins = sorted((p for p in points if p["set"] == name), key=lambda p: p["low"])
        edges = [p["low"] for p in bins] + [bins[-1]["high"]]
        shares = [p["share"] for p in bins]
        if name == TEST:
            axes.stairs(shares, edges, fill=True, color=SHADE, zorder=1)
            axes.stairs(shares, edges, color=INK, lw=0.9, zorder=2)
        else:
            axes.stairs(shares, edges, color=COLOUR[name], lw=1.4, zorder=3, baseline=0)


def _root(values: Any) -> Any:
    import numpy as np

    return np.sqrt(np.clip(values, 0, None))


def _square(values: Any) -> Any:
    return values**2
