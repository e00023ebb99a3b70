"""kim2020, figures 3, 5 and 6: error of the inversion after each iteration; one panel per size, one line per c."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from relearn.report.artefacts import Artefact, Row
from relearn.report.figures.panels import empty, rows_to_draw
from relearn.report.figures.style import apply_style, empty_figure, few_numbers, sequential
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, having, select

FIELDS = ("panel", "length", "dim", "c", "iteration", "error", "low", "seeds", "runs")
BARS = "lines: the largest error of all seeds; bands: down to the smallest"
LEAST = 1e-17  # smaller errors are zero within rounding
PLAIN = 3  # most panels in a row for which the panels are drawn taller


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per attention, size, c and iteration: the largest error over inputs and seeds; non-finite errors are infinite."""
    found = []
    for row in artefact.rows:
        by_size: dict[tuple[int, int], list[Run]] = defaultdict(list)
        for run in having(select(evidence.runs, artefact.common, row.where), "errors.csv"):
            by_size[int(run.labels["length"]), int(run.labels["dim"])].append(run)
        for size, runs in sorted(by_size.items()):
            found += _lines(row, size, runs)
    return found


def _lines(row: Row, size: tuple[int, int], runs: list[Run]) -> list[dict[str, Any]]:
    errors: dict[tuple[float, int], list[float]] = defaultdict(list)
    for run in runs:
        for one in run.rows("errors.csv"):
            value = math.inf if one["error_max"] is None else float(one["error_max"])
            errors[float(one["c"]), one["iteration"]].append(value if math.isfinite(value) else math.inf)
    folders = " ".join(run.folder for run in runs)
    return [
        dict(zip(FIELDS, (row.id, *size, c, iteration, max(values), min(values), len(values), folders)))
        for (c, iteration), values in sorted(errors.items())
    ]


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """One row of panels per N, with one panel per attention and D; all panels share the error axis."""
    from matplotlib.lines import Line2D
    from seaborn import despine

    rows = rows_to_draw(artefact, points)
    dims = {row.id: sorted({p["dim"] for p in points if p["panel"] == row.id}) or [0] for row in rows}
    across = [(row, dim) for row in rows for dim in dims[row.id]]
    lengths = sorted({p["length"] for p in points}) or [0]
    colours = sequential(sorted({p["c"] for p in points}))
    wide = len(across) <= PLAIN
    with apply_style():
        figure = empty_figure(0.8 + (2.6 if wide else 2.0) * len(lengths))
        grid = figure.subplots(len(lengths), len(across), squeeze=False, sharex=True, sharey=True)
        limits = _limits(points)
        for line, length in zip(grid, lengths):
            for axes, (row, dim) in zip(line, across):
                here = [p for p in points if (p["panel"], p["length"], p["dim"]) == (row.id, length, dim)]
                size = f"N = {length}{', ' if wide else chr(10)}D = {dim}" if length and dim else ""
                axes.set_title(f"{row.title}\n{size}".strip())
                despine(ax=axes, left=True)
                if not here:
                    empty(axes)
                    continue
                for rank, (c, colour) in enumerate(colours.items()):
                    width = max(1.2, 3.2 - rank)  # different widths keep coinciding lines visible
                    _curve(axes, [p for p in here if p["c"] == c], colour, width)
                axes.set_yscale("log", nonpositive="mask")
                axes.set_ylim(limits)
                few_numbers(axes.yaxis)
                axes.xaxis.get_major_locator().set_params(integer=True, nbins=5)
            line[0].set_ylabel("Largest error")
        for axes in grid[-1]:
            axes.set_xlabel("Iteration")
        handles = [Line2D([], [], color=colour, lw=1.6, label=f"c = {c:g}") for c, colour in colours.items()]
        if handles:
            figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False)
    return figure


def _limits(points: list[dict[str, Any]]) -> tuple[float, float]:
    drawn = [p["error"] for p in points if LEAST <= p["error"] < math.inf]
    return max(LEAST, min(drawn, default=0.1) / 3), 3 * max(drawn, default=1.0)


def _curve(axes: Any, points: list[dict[str, Any]], colour: Any, width: float) -> None:
    drawn = [p for p in points if math.isfinite(p["error"])]
    iterations, errors, low = ([p[name] for p in drawn] for name in ("iteration", "error", "low"))
    if max((p["seeds"] for p in drawn), default=0) > 1:
        axes.fill_between(
            iterations, [max(value, LEAST) for value in low], errors, color=colour, alpha=0.2, lw=0, zorder=2
        )
    axes.plot(iterations, errors, color=colour, lw=width, zorder=3)
