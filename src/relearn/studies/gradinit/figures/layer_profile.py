"""zhu2022, figures 4.1 and 4.4 to 4.10: one number per weight tensor, from shallow to deep, before and after GradInit.

A panel is a column of the artefact, which gives the kind (and group) of tensor and the number to show.
"""

from __future__ import annotations

import math
import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from relearn.report.artefacts import Artefact, Column, Row
from relearn.report.figures.over_seeds import edges, log_bands, numbers, spread
from relearn.report.figures.panels import by_column, runs_of, with_points
from relearn.report.figures.style import (
    COLOURS,
    MUTED,
    SMALL,
    apply_style,
    band,
    empty_figure,
    few_numbers,
    not_run,
)
from relearn.report.quantities import Evidence
from relearn.report.runs import select

FIELDS = ("panel", "series", "layer", "name", "value", "low", "high", "seeds", "floor", "runs")
WIDE, NARROW = 4, 2  # panels per row; the second if a title names a network and its tensors
PARTED = ": "  # between the network and the tensors in a title
LETTERS = 16  # longest title that fits above a panel: "Output projection" does not
NAMES_NETWORKS = True
FEW = 24  # with more layers the points are not joined: in deep networks values alternate between layers, and a line would zigzag
PARTS = ("encoder", "decoder")
FLOORED = ("norm", "weight_abs_mean")  # kind and value of the panels that show factors of GradInit
NEAR = 1.5  # up to this multiple of the floor a layer is near it
LOOK: dict[str, dict[str, Any]] = {
    "before": {"color": COLOURS["start"], "marker": "o", "mfc": "white", "ms": 5.0},
    "gradinit": {"color": COLOURS["gradinit"], "marker": "o", "ms": 2.8},
}
"""The second is drawn on the first, which stays seen around it where both are equal."""


def bars(_: Artefact, points: Sequence[Mapping[str, Any]]) -> str:
    return log_bands(points, lambda point: point["panel"])


BARS = bars


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per panel, initialisation and layer: mean and interval (or range) over runs; non-finite values are left out."""
    return by_column(_line, artefact, evidence)


def _line(artefact: Artefact, row: Row, column: Column, evidence: Evidence) -> list[dict[str, Any]]:
    runs = runs_of(artefact, row, column, evidence, "layers.csv")
    panel = column.panel
    found: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        chosen = [
            one
            for one in run.rows("layers.csv")
            if one["kind"] == panel["kind"] and one["group"] == panel.get("group", one["group"])
        ]
        for one in sorted(chosen, key=lambda one: one["index"]):
            values = found[str(one["name"])]  # a layer without a finite value still occupies its position
            value = one[panel["value"]]
            if value is not None and math.isfinite(float(value)):
                values.append(float(value))
    folders, floor = " ".join(run.folder for run in runs), _floor(row, column, evidence)
    return [
        dict(zip(FIELDS, (column.id, row.id, place, name, *spread(values), floor, folders)))
        for place, (name, values) in enumerate(found.items(), 1)
        if values
    ]


def _floor(row: Row, column: Column, evidence: Evidence) -> float | None:
    """GradInit's smallest allowed factor, which is also the smallest weight of normalisation layers (they start at 1).

    None for panels that do not show weights of normalisation layers.
    """
    if (column.panel["kind"], column.panel["value"]) != FLOORED:
        return None
    starts = select(evidence.runs, {"step": "initialise"}, {**row.where}, column.where)
    least = [run.settings.get("arguments", {}).get("min_scale") for run in starts]
    return min((float(value) for value in least if value is not None), default=None)


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """The panels that have points, or all without any, in the order of the paper, four per row."""
    from matplotlib.lines import Line2D
    from seaborn import despine

    columns = with_points(artefact.columns, points)
    count = len(columns)
    across = min(NARROW if any(PARTED in column.title for column in columns) else WIDE, count)
    lines = math.ceil(count / across)
    there = {point["series"] for point in points}
    long = across > NARROW and max(len(column.title) for column in columns) > LETTERS
    with apply_style():
        figure = empty_figure(0.5 + (2.3 if lines == 1 else 1.85 if across > NARROW else 2.05) * lines)
        figure.get_layout_engine().set(w_pad=0.07, h_pad=0.05)
        grid = figure.subplots(lines, across, squeeze=False)
        for axes in grid.flat[count:]:
            axes.set_visible(False)
        for place, (axes, column) in enumerate(zip(grid.flat, columns)):
            here = [point for point in points if point["panel"] == column.id]
            axes.set_title(_in_lines(column.title) if long else column.title.replace(PARTED, ":\n"))
            axes.set_ylabel(column.panel["label"])
            if place + across >= count:
                axes.set_xlabel("Layer")
            despine(ax=axes, left=True)
            if not here:
                axes.set(xticks=[], yticks=[])
                not_run(axes)
                continue
            _log(axes, here)
            for row in artefact.rows:
                _curve(axes, [point for point in here if point["series"] == row.id], LOOK[row.id])
            few_numbers(axes.yaxis)
            least = min(point["value"] for point in here)
            for floor in {point["floor"] for point in here} - {None}:
                if least < NEAR * floor:
                    _floor_line(axes, floor)
            axes.xaxis.get_major_locator().set_params(integer=True, nbins=4)
        counts = numbers(points)
        handles = [
            Line2D(
                [],
                [],
                lw=1.2,
                label=row.title + (counts[row.id] if row.id in there or not there else " (not run)"),
                **LOOK[row.id],
            )
            for row in artefact.rows
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False)
    return figure


def _log(axes: Any, points: list[dict[str, Any]]) -> None:
    axes.set_yscale("log", nonpositive="mask")
    axes.set_ylim(edges(points))


def _in_lines(title: str) -> str:
    """A title in lines, broken between its words if it is long."""
    return textwrap.fill(title, LETTERS)


def _floor_line(axes: Any, floor: float) -> None:
    """Draw the lower limit of GradInit's factors."""
    axes.axhline(floor, color=MUTED, lw=1, ls=(0, (1, 2)), zorder=1)
    axes.annotate(
        "floor of the factors",
        (1, floor),
        (0, 2),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        ha="right",
        color=MUTED,
        fontsize=SMALL,
    )


def _curve(axes: Any, points: list[dict[str, Any]], look: dict[str, Any]) -> None:
    """Draw the points; join them within each part of the network if there are few enough."""
    if not points:
        return
    layers, values = ([p[name] for p in points] for name in ("layer", "value"))
    band(axes, points, "layer", look["color"], 0.2)
    few = len(points) <= FEW
    axes.plot(layers, values, ls="", zorder=3, **{**look, "ms": look["ms"] if few else 0.6 * look["ms"]})
    for part in _parts(points) if few else ():
        axes.plot(
            [p["layer"] for p in part], [p["value"] for p in part], color=look["color"], lw=0.9, zorder=3
        )


def _parts(points: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Split the layers into encoder, decoder and the rest of the network."""
    found: dict[str, list[dict[str, Any]]] = {}
    for point in points:
        found.setdefault(
            next((part for part in PARTS if str(point["name"]).startswith(part)), ""), []
        ).append(point)
    return list(found.values())
