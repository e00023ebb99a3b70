"""kim2020, figure 10: distributions of the input and output entries of an attention layer; one panel per attention."""

from __future__ import annotations

import math
from typing import Any

from relearn.report.artefacts import Artefact
from relearn.report.figures.panels import at_comma, empty, rows_to_draw
from relearn.report.figures.style import COLOURS, apply_style, empty_figure, few_numbers
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, select

FIELDS = ("panel", "side", "seed", "low", "high", "count", "density", "std", "runs")
COLOUR = {"input": COLOURS["start"], "output": COLOURS["gradinit"]}


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per run, side and bin, with the bin's density (share of all counts / bin width) and the side's standard deviation."""
    return [
        dict(zip(FIELDS, (row.id, side, run.seed, *one, run.metrics.get(f"{side}_std"), run.folder)))
        for row in artefact.rows
        for run in select(evidence.runs, artefact.common, row.where)
        if run.has("histogram.csv")
        for side in COLOUR
        for one in _bins(run, side)
    ]


def _bins(run: Run, side: str) -> list[tuple[float, float, int, float]]:
    rows = sorted(
        (row for row in run.rows("histogram.csv") if row["side"] == side), key=lambda row: row["low"]
    )
    total = sum(row["count"] for row in rows)
    return [
        (
            float(row["low"]),
            float(row["high"]),
            row["count"],
            row["count"] / total / (row["high"] - row["low"]),
        )
        for row in rows
        if total
    ]


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Draw the densities as step curves, with shared axes; the title of each panel gives the two standard deviations."""
    from matplotlib.patches import Patch
    from seaborn import despine

    rows = rows_to_draw(artefact, points)
    with apply_style():
        figure = empty_figure(3.4)
        grid = figure.subplots(1, len(rows), squeeze=False, sharex=True, sharey=True)[0]
        for axes, row in zip(grid, rows):
            here = [point for point in points if point["panel"] == row.id]
            axes.set_title(f"{at_comma(row.title)}\n{_widths(here)}".strip())
            axes.set_xlabel("Value of an entry")
            despine(ax=axes, left=True)
            if not here:
                empty(axes)
                continue
            for run, side in dict.fromkeys((p["runs"], p["side"]) for p in here):
                line = [p for p in here if (p["runs"], p["side"]) == (run, side)]
                edges = [p["low"] for p in line] + [line[-1]["high"]]
                densities = [p["density"] or math.nan for p in line]  # an empty bin is a gap
                axes.stairs(densities, edges, color=COLOUR[side], lw=1.5, baseline=None, zorder=3)
            axes.set_yscale("log")
            few_numbers(axes.yaxis)
        grid[0].set_ylabel("Density")
        handles = [Patch(color=colour, label=f"{side.capitalize()}s") for side, colour in COLOUR.items()]
        figure.legend(handles=handles, loc="outside upper left", ncols=2, frameon=False)
    return figure


def _widths(points: list[dict[str, Any]]) -> str:
    """The standard deviations of inputs and outputs in the first run."""
    deviations = {
        p["side"]: f"{p['side']}s: {p['std']:.3g}" for p in reversed(points) if p["std"] is not None
    }
    return "\n".join(f"σ of {deviations[side]}" for side in COLOUR if side in deviations)
