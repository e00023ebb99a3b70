"""zhu2022, figure 5.5: peak memory and time of a training step against sequence length, in log-log axes.

Dashed: full attention; solid: long-short attention; one colour per batch size. Each line is labelled with its slope, fitted by least
squares over the longer half of its lengths, on which ``linear_cost`` is judged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from relearn.report.artefacts import Artefact, Column
from relearn.report.derived import rows_of
from relearn.report.figures.over_seeds import spread
from relearn.report.figures.panels import panels
from relearn.report.figures.style import (
    COLOURS,
    INK,
    MUTED,
    SMALL,
    apply_style,
    empty_figure,
    few_numbers,
    number,
)
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, select
from relearn.report.statistics import log_slope

FIELDS = (
    *("panel", "attention", "batch", "length", "value", "low", "high", "runs_count"),
    *("longest", "planned", "paper", "runs"),
)
BATCH = tuple(COLOURS[name] for name in ("start", "gradinit", "bullseye_polytope", "gradient_matching"))
STROKE: dict[str, Any] = {
    "full": {"ls": (0, (4, 2)), "marker": "s", "mfc": "white"},
    "long_short": {"ls": "-", "marker": "o"},
}
WORDS = {"full": "Full attention", "long_short": "Transformer-LS"}
LABEL = {"megabytes": "Megabytes", "seconds": "Seconds"}


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per panel, attention, batch size and length, for all measured batch sizes.

    ``longest`` is the greatest length at which the settings measure this attention, ``planned`` the greatest of any, and ``paper`` the
    greatest of full attention in the paper.
    """
    runs = select(evidence.runs, artefact.common)
    return [point for column in artefact.columns for point in _panel(artefact, column, runs)]


def note(_: Artefact, points: Sequence[Mapping[str, Any]]) -> str:
    """What is not a matter of memory: an attention that the settings stop before the others."""
    stops = {p["attention"]: p for p in points if p["longest"] is not None and p["longest"] < p["planned"]}
    said = [f"{WORDS[name].lower()}: up to {p['longest']:,} by choice" for name, p in stops.items()]
    paper = {f"{p['paper']:,}" for p in stops.values() if p["paper"]}
    return "; ".join(
        [*said, "slope: longer half of each line", *(f"the paper: up to {one}" for one in paper)]
    )


NOTE = note


def _panel(artefact: Artefact, column: Column, runs: list[Run]) -> list[dict[str, Any]]:
    found: dict[tuple[str, int, int], list[float]] = {}
    for run in runs:
        for row in rows_of(run, "cost.csv"):
            if row[column.panel["value"]] is not None and row["attention"] in WORDS:
                place = (str(row["attention"]), int(row["batch"]), int(row["length"]))
                found.setdefault(place, []).append(float(row[column.panel["value"]]))
    folders = " ".join(run.folder for run in runs)
    planned = [length for run in runs for length in run.settings.get("lengths", ())]
    greatest = max(planned, default=None)
    stops = [run.settings["longest"] for run in runs if run.settings.get("longest")]
    return [
        dict(
            zip(
                FIELDS,
                (
                    *(column.id, *place, *spread(values)),
                    max((one[place[0]] for one in stops if place[0] in one), default=greatest),
                    *(greatest, artefact.protocol.get(f"{place[0]}_longest"), folders),
                ),
            )
        )
        for place, values in sorted(found.items())
    ]


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Draw memory on the left and time on the right, as in the paper."""
    from matplotlib.lines import Line2D

    batches = sorted({point["batch"] for point in points})
    colours = {batch: BATCH[at % len(BATCH)] for at, batch in enumerate(batches)}
    with apply_style():
        figure = empty_figure(4.0)
        grid = figure.subplots(1, len(artefact.columns))
        for axes, column, here in panels(grid, artefact.columns, points, "Length of the sequence"):
            axes.set_ylabel(LABEL.get(column.unit, column.unit))
            for name, batch in dict.fromkeys((point["attention"], point["batch"]) for point in here):
                line = [point for point in here if (point["attention"], point["batch"]) == (name, batch)]
                lengths, values = ([point[key] for point in line] for key in ("length", "value"))
                axes.plot(lengths, values, color=colours[batch], lw=1.5, ms=4.2, zorder=3, **STROKE[name])
                _slope(axes, line)
                for point in line:
                    says = f"{WORDS[name]}, {point['length']} tokens: {number(point['value'])} {LABEL.get(column.unit, '').lower()}"
                    axes.figure.mark(axes, point["length"], point["value"], point, f"{says}, batch {batch}")
            axes.set_xscale("log", base=2)
            axes.set_yscale("log", nonpositive="mask")
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.xaxis.set_minor_locator(_none())
            few_numbers(axes.yaxis)
        shown = [name for name in WORDS if any(point["attention"] == name for point in points)]
        handles = [
            Line2D(
                [],
                [],
                color=_ink(batches, colours),
                lw=1.5,
                ms=4.2,
                label=_label(name, batches),
                **STROKE[name],
            )
            for name in shown
        ]
        if len(batches) > 1:
            handles += [Line2D([], [], color=colours[one], lw=1.5, label=f"Batch {one}") for one in batches]
        if handles:
            figure.legend(
                handles=handles, loc="outside upper left", ncols=len(handles), frameon=False, handlelength=2.8
            )
    return figure


def _ink(batches: list[int], colours: Mapping[int, str]) -> str:
    return INK if len(batches) > 1 else colours[batches[0]]


def _label(name: str, batches: list[int]) -> str:
    return WORDS[name] if len(batches) > 1 else f"{WORDS[name]}, batch {batches[0]}"


def _slope(axes: Any, points: list[dict[str, Any]]) -> None:
    """Label a line with its log-log slope at the last point."""
    half = points[len(points) // 2 if len(points) > 3 else 0 :]
    if len(half) > 1:
        slope = log_slope({point["length"]: math.log(point["value"]) for point in half})
        last = (points[-1]["length"], points[-1]["value"])
        place: Any = {"textcoords": "offset points", "ha": "right", "fontsize": SMALL}
        axes.annotate(f"slope {slope:.2f}", last, (-8, 0), color=MUTED, va="center", **place)


def _none() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()
