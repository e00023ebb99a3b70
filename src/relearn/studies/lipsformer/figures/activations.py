"""qi2023, figure 2: activation functions and their slopes; the largest slope is the Lipschitz constant."""

from __future__ import annotations

import math
from typing import Any

from relearn.report.artefacts import Artefact
from relearn.report.figures.panels import empty
from relearn.report.figures.style import COLOURS, INK, MUTED, apply_style, empty_figure
from relearn.report.quantities import Evidence
from relearn.report.runs import select

FIELDS = ("series", "x", "value", "slope", "at", "constant", "runs")
NOTE = "numbers and circles: largest slope; dotted: a slope of 1"
JUMP, NEAR = 0.4, 0.2  # a curve that changes by JUMP over less than NEAR is discontinuous there
LOOK: dict[str, dict[str, Any]] = {
    "sigmoid": {"color": COLOURS["start"], "lw": 1.8},
    "tanh": {"color": COLOURS["bullseye_polytope"], "lw": 1.8},
    "relu": {"color": MUTED, "lw": 1.8},
    "gelu_sigmoid": {"color": COLOURS["gradinit"], "lw": 1.8},
    "gelu": {"color": COLOURS["gradient_matching"], "lw": 1.5, "ls": (0, (4, 2))},
}


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per activation and x, with the position and size of its largest slope; only the first seed is drawn."""
    found = []
    for run in select(evidence.runs, artefact.common)[:1]:
        if not (run.has("curves.csv") and run.has("cases.csv")):
            continue
        steepest = {row["activation"]: (row["at"], row["norm"]) for row in run.rows("cases.csv")}
        for row in artefact.rows:
            for line in run.rows("curves.csv"):
                if line["activation"] == row.id:
                    numbers = (line["x"], line["value"], line["slope"], *steepest[row.id])
                    found.append(dict(zip(FIELDS, (row.id, *map(float, numbers), run.folder))))
    return found


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Functions on the left; their slopes on the right, with a marker at the largest and a line at 1."""
    from seaborn import despine

    with apply_style():
        figure = empty_figure(3.9)
        left, right = figure.subplots(1, 2)
        handles = []
        for axes, name, column in ((left, "f(x)", "value"), (right, "f′(x)", "slope")):
            axes.set_title("Activations" if axes is left else "Their slopes")
            axes.set(xlabel="x", ylabel=name)
            despine(ax=axes, left=True)
            if not points:
                empty(axes)
                continue
            for row in artefact.rows:
                line = [point for point in points if point["series"] == row.id]
                if not line:
                    continue
                label = f"{row.title}: {line[0]['constant']:.5g}" if axes is left else None
                (drawn,) = axes.plot(*_curve(line, column), label=label, **LOOK[row.id])
                handles += [drawn] if label else []
        if points:
            _constants(right, points)
            figure.legend(handles=handles, loc="outside upper left", ncols=3, frameon=False)
    return figure


def _curve(points: list[dict[str, Any]], column: str) -> tuple[list[float], list[float]]:
    """x and y, with a gap where the curve jumps: at the kink of ReLU the slope has two values."""
    xs, ys = [p["x"] for p in points], [p[column] for p in points]
    for at in range(len(ys) - 1, 0, -1):
        if abs(ys[at] - ys[at - 1]) > JUMP and xs[at] - xs[at - 1] < NEAR:
            xs.insert(at, xs[at])
            ys.insert(at, math.nan)
    return xs, ys


def _constants(axes: Any, points: list[dict[str, Any]]) -> None:
    """Mark each largest slope, and draw a line at 1, the constant that section 2 states for all."""
    axes.axhline(1.0, color=INK, lw=0.9, ls=(0, (1, 2)), zorder=1)
    for rank, name in enumerate(dict.fromkeys(point["series"] for point in points)):
        first = next(point for point in points if point["series"] == name)
        look = {
            "color": LOOK[name]["color"],
            "ls": "",
            "marker": "o",
            "mfc": "none",
            "ms": 4 + 2.5 * rank,
            "zorder": 5,
        }
        axes.plot([first["at"]], [first["constant"]], **look)
