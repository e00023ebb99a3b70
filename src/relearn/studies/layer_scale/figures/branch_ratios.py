"""Norm of a residual branch over the norm of its stream, layer by layer; one panel per branch and moment, one line per scheme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relearn.report.artefacts import Artefact, Column, Row
from relearn.report.figures.over_seeds import by_place, edges, log_bands, numbers, spread
from relearn.report.figures.panels import panels
from relearn.report.figures.style import COLOURS, INK, apply_style, band, empty_figure, few_numbers
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, having, select

FIELDS = ("panel", "series", "depth", "layer", "value", "low", "high", "seeds", "runs")
FIRST = "pre_norm"  # drawn in black
# hues far apart: the lines and bands of the others lie on each other
OTHERS = ("gradinit", "bullseye_polytope", "start", "gradient_matching")
MARKERS, SIZES = (
    "osD^o",
    (2.6, 5.2, 4.4, 4.4, 2.6),
)  # large markers are hollow, so that both of two coinciding lines are visible


def bars(_: Artefact, points: Sequence[Mapping[str, Any]]) -> str:
    return log_bands(points, _moment)


BARS = bars


def _moment(point: Mapping[str, Any]) -> str:
    """Panels of one moment share their axis."""
    return str(point["panel"]).rpartition("_")[2]


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per panel, scheme and layer (starting at 1): the mean over seeds and its interval or their range.

    The depth is the largest at which the first scheme and another one were trained; if there is none, the largest of any.
    """
    found = {row.id: _by_depth(artefact, row, evidence) for row in artefact.rows}
    others = {depth for name, runs in found.items() if name != FIRST for depth in runs}
    depth = max(others & set(found.get(FIRST, ())) or others | set(found.get(FIRST, ())), default=0)
    return [
        p
        for column in artefact.columns
        for name, runs in found.items()
        for p in _line(column, name, depth, runs.get(depth, []))
    ]


def _by_depth(artefact: Artefact, row: Row, evidence: Evidence) -> dict[int, list[Run]]:
    found: dict[int, list[Run]] = {}
    for run in having(select(evidence.runs, artefact.common, row.where), "layers.csv"):
        found.setdefault(int(run.labels["depth"]), []).append(run)
    return found


def _line(column: Column, name: str, depth: int, runs: list[Run]) -> list[dict[str, Any]]:
    panel = column.panel
    values = by_place(
        runs,
        "layers.csv",
        "layer",
        "ratio",
        lambda row: (row["branch"], row["moment"]) == (panel["branch"], panel["moment"]),
    )
    folders = " ".join(run.folder for run in runs)
    return [
        dict(zip(FIELDS, (column.id, name, depth, int(layer) + 1, *spread(numbers), folders)))
        for layer, numbers in values.items()
    ]


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Panels before training in the upper row, after training in the lower one; panels of a row share their y axis."""
    from matplotlib.lines import Line2D

    others = [row.id for row in artefact.rows if row.id != FIRST]
    hues = {name: COLOURS[OTHERS[at % len(OTHERS)]] for at, name in enumerate(others)}
    looks: dict[str, dict[str, Any]] = {
        row.id: {
            "color": hues.get(row.id, INK),
            "marker": MARKERS[at % len(MARKERS)],
            "ms": SIZES[at % len(SIZES)],
            "mfc": "white" if SIZES[at % len(SIZES)] > 3 else None,
        }
        for at, row in enumerate(artefact.rows)
    }
    there = {point["series"] for point in points}
    with apply_style():
        figure = empty_figure(5.2)
        grid = figure.subplots(2, 2, sharey="row", sharex=True)
        for axes, column, here in panels(grid.flat, artefact.columns, points):
            place = artefact.columns.index(column)
            beside = [point for point in points if _moment(point) == _moment(here[0])]
            axes.set_yscale("log", nonpositive="mask")
            axes.set_ylim(edges(beside))
            for name, look in looks.items():
                _curve(axes, [point for point in here if point["series"] == name], look)
            axes.xaxis.get_major_locator().set_params(integer=True, nbins=7)
            if place >= 2:
                axes.set_xlabel(f"Block of {here[0]['depth']}")
            if place % 2 == 0:
                axes.set_ylabel("Branch / stream")
        for axes in grid.flat:
            if axes.lines:
                few_numbers(axes.yaxis)
        counts = numbers(points)
        handles = [
            Line2D([], [], lw=1.4, label=row.title + counts[row.id], **looks[row.id])
            for row in artefact.rows
            if row.id in there
        ]
        if handles:
            figure.legend(handles=handles, loc="outside upper left", ncols=5, frameon=False)
    return figure


def _curve(axes: Any, points: list[dict[str, Any]], look: dict[str, Any]) -> None:
    if not points:
        return
    layers, values = ([p[name] for p in points] for name in ("layer", "value"))
    band(axes, points, "layer", look["color"], 0.18)
    axes.plot(layers, values, lw=1.2, zorder=3, **look)
