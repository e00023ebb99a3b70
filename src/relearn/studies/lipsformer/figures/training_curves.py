"""qi2023, figure 4: training loss and test accuracy during training; one panel per metric, one line per network.

Colour shows the family of networks, line style the size.
"""

from __future__ import annotations

from typing import Any

from relearn.report.artefacts import Artefact, Column, Row
from relearn.report.classified import guess
from relearn.report.figures.over_seeds import by_place, hatched_bands, numbers, spread
from relearn.report.figures.panels import by_column, panels, runs_of
from relearn.report.figures.style import (
    COLOURS,
    HATCH,
    MUTED,
    apply_style,
    band,
    chance_line,
    empty_figure,
    in_percent,
    number,
)
from relearn.report.quantities import Evidence
from relearn.report.views.names import plural

FIELDS = ("panel", "series", "epoch", "value", "low", "high", "seeds", "diverged", "chance", "runs")
BARS = hatched_bands
NAMES_NETWORKS = True
COLOUR = {
    "LipsFormer-Swin": COLOURS["gradinit"],
    "Swin": COLOURS["start"],
    "LipsFormer-CSwin": COLOURS["gradient_matching"],
    "CSwin": COLOURS["bullseye_polytope"],
}
STROKE: dict[str, Any] = {"T": "-", "S": (0, (5, 1.5)), "B": (0, (1.2, 1.2)), "L": (0, (3, 1, 1, 1))}
FEW = 20  # largest number of epochs drawn with markers
EDGE = 0.06  # margin, relative to the range shown


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per panel, network and epoch: the mean over seeds, its interval or the range; each diverged training has its own rows."""
    return by_column(_line, artefact, evidence)


def _line(artefact: Artefact, row: Row, column: Column, evidence: Evidence) -> list[dict[str, Any]]:
    runs = runs_of(artefact, row, column, evidence)
    lines = [[run for run in runs if not run.diverged], *([run] for run in runs if run.diverged)]
    level = guess(evidence) if column.unit == "fraction" else None
    bounds = (0.0, 1.0) if column.unit == "fraction" else ()
    found = []
    for line in lines:
        values = by_place(line, "history.csv", "epoch", column.panel["value"], lambda _: True)
        lost, folders = int(any(run.diverged for run in line)), " ".join(run.folder for run in line)
        numbers: list[tuple[Any, ...]] = [
            (epoch, *spread(several, *bounds)) for epoch, several in values.items()
        ]
        if lost and not numbers:  # it diverged in its first epoch
            numbers = [(None, None, None, None, 0)]
        found += [dict(zip(FIELDS, (column.id, row.id, *one, lost, level, folders))) for one in numbers]
    return found


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """A cross ends the thin line of a diverged training; the network's label counts these."""
    from matplotlib.lines import Line2D

    there = {point["series"] for point in points}
    shown = [row for row in artefact.rows if row.id in there]
    with apply_style():
        figure = empty_figure(3.9)
        grid = figure.subplots(1, len(artefact.columns))
        drawn = [point for point in points if point["epoch"] is not None]
        for axes, column, here in panels(grid, artefact.columns, drawn, "Epoch"):
            low, high = _limits(here)
            axes.set_ylim(low, high)
            for row in shown:
                for runs in dict.fromkeys(point["runs"] for point in here if point["series"] == row.id):
                    line = [point for point in here if point["runs"] == runs]
                    _curve(axes, row.id, line, high)
                    _mark(axes, f"{row.title}, {column.title.lower()}", line, column.unit == "fraction")
            if column.unit == "fraction":
                in_percent(axes.yaxis)
                chance_line(axes, here)
            else:
                axes.set_ylabel("Nats")
            axes.xaxis.get_major_locator().set_params(integer=True, nbins=6)
        counts = numbers(point for point in points if not point["diverged"])
        handles = [
            Line2D([], [], **_stroke(row.id), label=row.title + counts[row.id] + _lost(row.id, points))
            for row in shown
        ]
        if handles:
            figure.legend(handles=handles, loc="outside upper left", ncols=3, frameon=False, handlelength=2.6)
    return figure


def _mark(axes: Any, title: str, points: list[dict[str, Any]], percent: bool) -> None:
    last = points[-1]
    value = number(last["value"], last["low"], last["high"], percent=percent)
    says = f"{title}: {value} after {plural(int(last['epoch']), 'epoch')}, {plural(last['seeds'], 'seed')}"
    axes.figure.mark(axes, last["epoch"], last["value"], last, says)


def _stroke(network: str) -> dict[str, Any]:
    family, _, size = network.rpartition("-")
    return {"color": COLOUR.get(family, MUTED), "ls": STROKE.get(size, "-"), "lw": 1.6}


def _limits(points: list[dict[str, Any]]) -> tuple[float, float]:
    """Axis limits cover all converged runs and the first epoch of diverged ones, so that an exploding loss does not hide the rest."""
    first = min(point["epoch"] for point in points)
    kept = [point for point in points if not point["diverged"] or point["epoch"] == first]
    low, high = min(point["low"] for point in kept), max(point["high"] for point in kept)
    edge = EDGE * (high - low) or 0.1
    return low - edge, high + edge


def _curve(axes: Any, network: str, points: list[dict[str, Any]], top: float) -> None:
    epochs, values = ([p[name] for p in points] for name in ("epoch", "value"))
    stroke = _stroke(network)
    if points[0]["diverged"]:
        axes.plot(epochs, values, zorder=3, **{**stroke, "lw": 1})
        last = max((at for at, value in enumerate(values) if value <= top), default=0)
        axes.plot(epochs[last], min(values[last], top), marker="X", ms=8, color=stroke["color"], zorder=4)
        return
    band(axes, points, "epoch", stroke["color"], hatch="" if stroke["ls"] == "-" else HATCH)
    axes.plot(epochs, values, marker="o" if len(points) <= FEW else None, ms=2.8, zorder=3, **stroke)


def _lost(network: str, points: list[dict[str, Any]]) -> str:
    lost = {point["runs"] for point in points if point["series"] == network and point["diverged"]}
    return f" ({len(lost)} diverged)" if lost else ""
