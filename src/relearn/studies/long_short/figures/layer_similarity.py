"""zhu2022, figure 5.6: mean cosine similarity between patch embeddings by layer; dashed before training, solid after."""

from __future__ import annotations

from typing import Any

from relearn.report.artefacts import Artefact, Column, Row
from relearn.report.figures.over_seeds import by_place, hatched_bands, numbers, spread
from relearn.report.figures.panels import by_row, empty
from relearn.report.figures.style import COLOURS, HATCH, INK, apply_style, band, empty_figure, number
from relearn.report.quantities import Evidence
from relearn.report.runs import select
from relearn.report.views.names import plural

FIELDS = ("panel", "series", "layer", "value", "low", "high", "seeds", "runs")
BARS = hatched_bands
NAMES_NETWORKS = True
NAMES = (
    "start",
    "gradinit",
    "bullseye_polytope",
    "gradient_matching",
    "multi_layer",
    "multi_layer_as_released",
)
LINES = tuple(COLOURS[name] for name in (*NAMES, "overlap_disjoint"))
DASHED = (0, (4, 2))
PAPER, OURS = "As in the paper", "Other networks"


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per moment, network and layer: mean and interval (or range) over seeds."""
    return by_row(_line, artefact, evidence)


def _line(artefact: Artefact, row: Row, column: Column, evidence: Evidence) -> list[dict[str, Any]]:
    runs = select(evidence.runs, artefact.common, row.where)
    folders = " ".join(run.folder for run in runs)
    values = by_place(
        runs, "similarity.csv", "layer", "cosine", lambda one: one["moment"] == column.panel["moment"]
    )
    return [
        dict(zip(FIELDS, (column.id, row.id, layer, *spread(several, -1.0, 1.0), folders)))
        for layer, several in values.items()
    ]


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Draw the paper's networks on the left, and other networks that were run on the right, with a shared y-axis."""
    from matplotlib.lines import Line2D
    from seaborn import despine

    there = {point["series"] for point in points}
    panels = {PAPER: [row for row in artefact.rows if row.in_grid]}
    if ours := [row for row in artefact.rows if not row.in_grid and row.id in there]:
        panels[OURS] = ours
    with apply_style():
        figure = empty_figure(4.4)
        grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        networks: list[Any] = []
        counts = numbers(points)
        for axes, (title, rows) in zip(grid, panels.items()):
            here = [point for point in points if point["series"] in {row.id for row in rows}]
            axes.set_title(title if len(panels) > 1 else "")
            axes.set_xlabel("Layer")
            despine(ax=axes, left=True)
            if not here:
                empty(axes)
                continue
            shown = [row for row in rows if row.id in there]
            colours = dict(zip((row.id for row in shown), LINES[len(networks) :]))
            for row in shown:
                for column in artefact.columns:
                    _curve(axes, here, row, column.id, colours[row.id])
            axes.xaxis.get_major_locator().set_params(integer=True, nbins=8)
            networks += [
                Line2D([], [], color=colours[row.id], lw=1.6, label=row.title + counts[row.id])
                for row in shown
            ]
        if points:
            grid[0].set_ylabel("Cosine similarity")
            networks += [
                Line2D([], [], color=INK, lw=1.4, ms=4, label=column.title, **_look(column.id))
                for column in artefact.columns
            ]
            figure.legend(
                handles=networks, loc="outside upper left", ncols=4, frameon=False, handlelength=2.8
            )
    return figure


def _curve(axes: Any, points: list[dict[str, Any]], row: Row, panel: str, colour: str) -> None:
    line = [point for point in points if (point["series"], point["panel"]) == (row.id, panel)]
    if not line:
        return
    layers, values = ([p[name] for p in line] for name in ("layer", "value"))
    band(axes, line, "layer", colour, hatch=HATCH if panel == "start" else "")
    axes.plot(layers, values, color=colour, lw=1.5, ms=4, zorder=3, **_look(panel))
    for point in line:
        value = number(point["value"], point["low"], point["high"])
        says = f"{row.title}, layer {point['layer']}: {value}, {plural(point['seeds'], 'seed')}"
        axes.figure.mark(axes, point["layer"], point["value"], point, says)


def _look(panel: str) -> dict[str, Any]:
    return {"marker": "o"} | ({"ls": DASHED, "mfc": "white"} if panel == "start" else {"ls": "-"})
