"""kim2020, figures 2 and 7: upper and lower bounds on the Lipschitz constant against the number of tokens.

Each row of the artefact is a series: ``lower`` shows the best norms found by ascents, every other row shows the
metric of the same name. For the 2-norm the lower bounds are so far below the upper ones that a second panel shows them alone.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from relearn.report.artefacts import Artefact, Row
from relearn.report.figures.panels import empty
from relearn.report.figures.style import COLOURS, INK, MUTED, apply_style, empty_figure, few_numbers, number
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, having, select
from relearn.report.statistics import log_slope

FIELDS = ("series", "length", "rank", "value", "seeds", "runs")
LOWER = "lower"
FROM_BELOW = (LOWER, "structured")
TOP = 5
NAMED = 6  # up to this number of lengths, each N has its own tick
LOOK: dict[str, dict[str, Any]] = {
    LOWER: {"color": COLOURS["gradinit"], "marker": "o", "ls": "", "ms": 4.2, "alpha": 0.75},
    "structured": {"color": COLOURS["bullseye_polytope"], "marker": "D", "ls": "", "ms": 5.5, "mfc": "none"},
    "bound": {"color": COLOURS["start"], "lw": 1.8},
    "bound_printed": {"color": MUTED, "lw": 1.4, "ls": (0, (4, 2))},
    "bound_corrected": {"color": INK, "lw": 1.4},
    "bound_tight": {"color": COLOURS["gradient_matching"], "lw": 1.4},
}


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per series, length and rank; ``lower`` has the five largest norms over all starts and seeds."""
    found = []
    for row in artefact.rows:
        by_length: dict[int, list[Run]] = defaultdict(list)
        for run in select(evidence.runs, artefact.common, row.where):
            by_length[int(run.labels["length"])].append(run)
        for length, runs in sorted(by_length.items()):
            folders, seeds = " ".join(run.folder for run in runs), len({run.seed for run in runs})
            for rank, value in enumerate(_values(row, runs), 1):
                found.append(dict(zip(FIELDS, (row.id, length, rank, value, seeds, folders))))
    return found


def _values(row: Row, runs: list[Run]) -> list[float]:
    if row.id != LOWER:
        known = [float(value) for run in runs if (value := run.metrics.get(row.id)) is not None]
        return [max(known)] if known else []
    values = [one["value"] for run in having(runs, "ascents.csv") for one in run.rows("ascents.csv")]
    finite = [float(value) for value in values if value is not None and math.isfinite(float(value))]
    return sorted(finite, reverse=True)[:TOP]


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Draw the bounds with a logarithmic N axis; the 2-norm also has a logarithmic value axis and a second panel."""
    from seaborn import despine

    both = artefact.columns[0].panel["norm"] == "two"
    lines = _lines(artefact, points)
    with apply_style():
        figure = empty_figure(4.2)
        grid = figure.subplots(1, 2 if both else 1, squeeze=False)[0]
        handles = [
            axes.plot(
                [], [], label=_label(title, best) if name in FROM_BELOW or not both else title, **LOOK[name]
            )[0]
            for axes, (name, title, best) in zip([grid[0]] * len(lines), lines)
        ]
        for place, axes in enumerate(grid):
            alone = place == 1
            axes.set_xlabel("Number of tokens N")
            axes.set_title("Lower bounds only" if alone else "All bounds" if both else "")
            despine(ax=axes, left=True)
            here = [point for point in points if point["series"] in FROM_BELOW or not alone]
            if not here:
                empty(axes)
                continue
            for name, title, _ in lines:
                own = [point for point in here if point["series"] == name]
                axes.plot([p["length"] for p in own], [p["value"] for p in own], zorder=3, **LOOK[name])
                for point in () if alone else (point for point in own if point["rank"] == 1):
                    says = f"{title}, N = {point['length']}: {number(point['value'])}"
                    axes.figure.mark(axes, point["length"], point["value"], point, says)
            lengths = sorted({point["length"] for point in points})
            axes.set_xscale("log")
            axes.set_xlim(0.85 * lengths[0], 1.18 * lengths[-1])
            few_numbers(axes.xaxis)
            if len(lengths) <= NAMED:
                axes.set_xticks(lengths, [str(length) for length in lengths])
            if both and not alone:
                axes.set_yscale("log")
                few_numbers(axes.yaxis)
            norm = r"$\|J\|_2$" if both else r"$\|J\|_\infty$"
            axes.set_ylabel(f"{norm} (log scale)" if both and not alone else norm)
        if handles:
            figure.legend(handles=handles, loc="outside upper left", ncols=1 if both else 2, frameon=False)
    return figure


def _lines(artefact: Artefact, points: list[dict[str, Any]]) -> list[tuple[str, str, dict[int, float]]]:
    """The series that have points, with title and best value by N; equal bounds are merged into the first."""
    found: list[tuple[str, str, dict[int, float]]] = []
    for row in artefact.rows:
        line = {p["length"]: p["value"] for p in points if p["series"] == row.id and p["rank"] == 1}
        if not line:
            continue
        twin = next((at for at, (_, _, other) in enumerate(found) if _equal(line, other)), None)
        if twin is None:
            found.append((row.id, row.title, line))
        else:
            name, title, other = found[twin]
            found[twin] = (name, f"{title}, here equal to the {row.title[0].lower()}{row.title[1:]}", other)
    return found


def _equal(one: dict[int, float], other: dict[int, float]) -> bool:
    return one.keys() == other.keys() and all(math.isclose(one[n], other[n], rel_tol=1e-9) for n in one)


def _label(title: str, line: dict[int, float]) -> str:
    return f"{title}: slope {log_slope(line):.2f} in ln N" if len(line) > 1 else title
