"""kim2020, figure 8: the norm of the Jacobian during gradient ascent on the input; one panel per attention."""

from __future__ import annotations

import math
from typing import Any

from relearn.report.artefacts import Artefact
from relearn.report.figures.panels import at_comma, empty, rows_to_draw
from relearn.report.figures.style import COLOURS, MUTED, apply_style, empty_figure, few_numbers
from relearn.report.quantities import Evidence
from relearn.report.runs import select

FIELDS = ("panel", "length", "seed", "rank", "step", "value", "bound", "runs")
COLOUR = COLOURS["start"]


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per run, start and step, with the run's bound if it has one."""
    return [
        dict(
            zip(
                FIELDS,
                (
                    *(
                        row.id,
                        int(run.labels["length"]),
                        run.seed,
                        one["rank"],
                        one["step"],
                        float(one["value"]),
                    ),
                    *(run.metrics.get("bound"), run.folder),
                ),
            )
        )
        for row in artefact.rows
        for run in select(evidence.runs, artefact.common, row.where)
        if run.has("curve.csv")
        for one in run.rows("curve.csv")
        if one["value"] is not None and math.isfinite(float(one["value"]))
    ]


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Draw all panels with a shared vertical axis: the best start of each run thick, the others thin, and the bound dashed."""
    from matplotlib.lines import Line2D
    from seaborn import despine

    rows = rows_to_draw(artefact, points)
    with apply_style():
        figure = empty_figure(3.4)
        for axes, row in zip(figure.subplots(1, len(rows), squeeze=False, sharey=True)[0], rows):
            here = [point for point in points if point["panel"] == row.id]
            lengths = ", ".join(str(length) for length in sorted({point["length"] for point in here}))
            axes.set_title(at_comma(row.title) + (f"\nN = {lengths}" if here else ""))
            axes.set_xlabel("Step of the ascent")
            axes.set_ylabel(r"$\|J\|_\infty$" if row is rows[0] else "")
            despine(ax=axes, left=True)
            if not here:
                empty(axes)
                continue
            for key in dict.fromkeys((p["runs"], p["rank"]) for p in here):
                line = [p for p in here if (p["runs"], p["rank"]) == key]
                best = key[1] == min(p["rank"] for p in here if p["runs"] == key[0])
                look = {"lw": 2.0, "zorder": 4} if best else {"lw": 0.8, "alpha": 0.5, "zorder": 3}
                axes.plot([p["step"] for p in line], [p["value"] for p in line], color=COLOUR, **look)
            for bound in {p["bound"] for p in here if p["bound"] is not None}:
                axes.axhline(bound, color=MUTED, ls=(0, (5, 3)), lw=1.2, zorder=2)
            axes.set_yscale("log", nonpositive="mask")
            few_numbers(axes.yaxis)
        if any(point["bound"] is not None for point in points):
            handles = [
                Line2D([], [], color=COLOUR, lw=2.0, label="Best start"),
                Line2D([], [], color=COLOUR, lw=0.8, alpha=0.5, label="Other starts"),
                Line2D([], [], color=MUTED, lw=1.2, ls=(0, (5, 3)), label="Bound"),
            ]
            figure.legend(handles=handles, loc="outside upper left", ncols=3, frameon=False)
    return figure
