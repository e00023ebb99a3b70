"""zhu2022, figure 2.11: Deep k-NN against normalised k (left) and against class balance (right)."""

from __future__ import annotations

from typing import Any

from relearn.report.artefacts import Artefact
from relearn.report.figures.style import (
    COLOURS,
    HATCH,
    INK,
    MUTED,
    SHADE,
    SMALL,
    apply_style,
    between,
    chance_line,
    empty_figure,
    in_percent,
    not_run,
    number,
)
from relearn.report.views.names import plural
from relearn.studies.poisoning.figures.sweeps import FIELDS, POOLED, points

__all__ = ["FIELDS", "draw", "points"]

BARS = (
    "bands: 95% interval over targets, of all attacks (hatched: not replicated); thin lines: one victim each"
)

RECOMMENDED = (1.0, 2.0)  # normalised k
SUFFERS_BELOW = 0.7  # class balance, without replication
LABELS = {
    ("defence_success", "effective"): "Defence success\n(of attacks that work)",
    ("defence_success", "all"): "Defence success\n(all attacks)",
    ("mcc", "all"): "MCC of the removal",
    ("test_accuracy", "all"): "Test accuracy",
}
DASHED = (0, (4, 2))
DOTTED = (0, (1, 1.5))  # published values
CODE: dict[str, Any] = {"color": INK, "lw": 1.3, "ls": DOTTED, "marker": ".", "ms": 4}
PLAIN_CODE: dict[str, Any] = {**CODE, "ls": (0, (5, 1.5, 1, 1.5)), "marker": "o", "mfc": "none"}
"""The published code's curves, and those without replication."""


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Draw one row of panels per quantity; the label names the population of attacks shown."""
    import seaborn as sns

    population = {"defence_success": _population(points)}
    with apply_style():
        figure = empty_figure(7.0)
        grid = figure.subplots(len(artefact.columns), 2, sharex="col", sharey="row")
        for line, column in zip(grid, artefact.columns):
            shown = population.get(column.id, "all")
            for axes, along in zip(line, ("k", "balance")):
                here = [
                    p
                    for p in points
                    if (p["panel"], p["population"], p["along"]) == (column.id, shown, along)
                ]
                _panel(axes, here, along)
                if column.id != "mcc":
                    in_percent(axes.yaxis)
                chance_line(axes, here, reach=False)
                sns.despine(ax=axes, left=True)
            line[0].set_ylabel(LABELS[column.id, shown])
        _axes(grid)
        figure.legend(handles=_handles(artefact, points), loc="outside upper left", ncols=2, frameon=False)
    return figure


def _axes(grid: Any) -> None:
    left, right = grid[-1]
    left.set_xscale("log")
    ticks = [0.04, 0.1, 0.2, 0.4, 1, 2, 4, 8]
    left.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    left.set_xticks([], minor=True)
    left.set_xlabel("k / images per class (log scale)")
    right.set_xlabel("Class balance n/N")
    right.set_xlim(0, 1.03)
    look: dict[str, Any] = {
        "xycoords": ("data", "axes fraction"),
        "textcoords": "offset points",
        "ha": "center",
    }
    grid[0, 0].annotate("recommended", (2**0.5, 1), (0, 3), color=MUTED, fontsize=SMALL, **look)
    words = "the paper: worse without replication"
    grid[0, 1].annotate(words, (SUFFERS_BELOW / 2, 1), (0, 3), color=MUTED, fontsize=SMALL, **look)


def _population(points: list[dict[str, Any]]) -> str:
    """Attacks that succeed undefended, as in the published code, or all attacks if none succeeds."""
    works = any(p["population"] == "effective" and p["source"] == "measured" for p in points)
    return "effective" if works else "all"


def _panel(axes: Any, points: list[dict[str, Any]], along: str) -> None:
    axes.axvspan(*(RECOMMENDED if along == "k" else (0.0, SUFFERS_BELOW)), color=SHADE, zorder=0, lw=0)
    measured = [p for p in points if p["source"] == "measured"]
    if not measured:
        not_run(axes)
    for series in dict.fromkeys(p["series"] for p in measured):
        for replicated in (1, 0):
            own = [p for p in measured if (p["series"], p["replicated"]) == (series, replicated)]
            solid = along == "k" or replicated
            _curves(axes, own, series, "-" if solid else DASHED)
    for replicated in (1, 0):
        code = [p for p in points if p["source"] == "published code" and p["replicated"] == replicated]
        axes.plot(*_xy(code), zorder=5, **(CODE if along == "k" or replicated else PLAIN_CODE))
    axes.margins(y=0.08)


def _curves(axes: Any, points: list[dict[str, Any]], series: str, style: Any) -> None:
    colour = COLOURS[series]
    for victim in dict.fromkeys(p["victim"] for p in points if p["victim"] != POOLED):
        own = [p for p in points if p["victim"] == victim]
        axes.plot(*_xy(own), color=colour, ls=style, lw=0.8, alpha=0.4, zorder=2)
    thick = [p for p in points if p["victim"] == POOLED]
    xs, ys = _xy(thick)
    between(axes, thick, "x", colour, hatch="" if style == "-" else HATCH)
    axes.plot(xs, ys, color=colour, ls=style, zorder=4, **_stroke(series))
    for point in thick:
        axes.figure.mark(axes, point["x"], point["value"], point, _says(point))


def _says(point: dict[str, Any]) -> str:
    name = LABELS[point["panel"], point["population"]].replace("\n", " ")
    percent = point["panel"] != "mcc"
    value = number(point["value"], point["low"], point["high"], percent=percent)
    repeated = ", replicated" if point["replicated"] else ", not replicated"
    at = f"k / images {point['x']:g}" if point["along"] == "k" else f"balance {point['x']:g}{repeated}"
    series = point["series"].replace("_", " ").capitalize()
    return f"{series}, {at}: {name.lower()} {value}, {plural(point['trials'], 'attack')}"


def _xy(points: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    return [p["x"] for p in points], [p["value"] for p in points]


def _stroke(series: str) -> dict[str, Any]:
    """Feature collision gets larger markers and is drawn first, so that both lines are visible where they coincide."""
    first = series == "feature_collision"
    return {"lw": 1.8, "marker": "s" if first else "o", "markersize": 6.5 if first else 4}


def _handles(artefact: Artefact, points: list[dict[str, Any]]) -> list[Any]:
    from matplotlib.lines import Line2D

    there = {p["series"] for p in points if p["source"] == "measured"}
    lines = [
        Line2D([], [], color=COLOURS[row.id], **_stroke(row.id), label=row.title)
        for row in artefact.rows
        if row.id in there
    ]
    code = Line2D([], [], label="Published code, convex polytope", **CODE)
    styles = [
        Line2D([], [], label="Published code, right column: not replicated", **PLAIN_CODE),
        Line2D([], [], color=MUTED, lw=1.6, label="Right column: small classes replicated"),
        Line2D([], [], color=MUTED, lw=1.6, ls=DASHED, label="Right column: not replicated"),
    ]
    imbalanced = any(p["source"] == "measured" and p["along"] == "balance" for p in points)
    return [*lines, code, *(styles if imbalanced else ())]
