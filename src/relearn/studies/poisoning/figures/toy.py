"""zhu2022, figure 2.1: a linear SVM in the plane, and which poisons change its label for the target."""

from __future__ import annotations

from typing import Any

from relearn.report.artefacts import Artefact
from relearn.report.figures.style import COLOURS, INK, MUTED, apply_style, empty_figure, not_run
from relearn.report.quantities import Evidence
from relearn.report.runs import select

FIELDS = ("panel", "kind", "x", "y", "runs")
LOOKS = {
    "class_a": {"marker": "o", "color": COLOURS["feature_collision"], "s": 34},
    "class_b": {"marker": "s", "color": COLOURS["convex_polytope"], "s": 34},
    "poison": {
        "marker": "s",
        "facecolor": "white",
        "edgecolor": COLOURS["convex_polytope"],
        "lw": 2,
        "s": 60,
    },
    "target": {"marker": "*", "color": INK, "s": 120},
}
WORDS = {"class_a": "Target's class", "class_b": "Poisons' class", "poison": "Poison", "target": "Target"}


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """The rows of the toy example's record."""
    runs = [run for run in select(evidence.runs, *artefact.where) if not run.diverged]
    return [
        {**{name: row[name] for name in FIELDS[:-1]}, "runs": run.folder}
        for run in runs[:1]
        for row in run.trials
    ]


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Draw one panel per attack; its title states on which side of the final boundary the target lies."""
    from matplotlib.lines import Line2D
    from seaborn import despine

    with apply_style():
        figure = empty_figure(4.0)
        grid = figure.subplots(1, len(artefact.rows), sharex=True, sharey=True)
        for axes, row in zip(grid, artefact.rows):
            here = [point for point in points if point["panel"] == row.id]
            axes.set_title(row.title)
            axes.set(xticks=[], yticks=[], xlabel="Feature 1")
            despine(ax=axes)
            if not here:
                not_run(axes)
                continue
            _panel(axes, here)
            fooled = _fooled(here)
            axes.set_title(
                f"{row.title}: the target {'is misclassified' if fooled else 'is still classified correctly'}"
            )
        grid[0].set_ylabel("Feature 2")
        handles = [grid[0].scatter([], [], label=WORDS[kind], **look) for kind, look in LOOKS.items()]
        lines = [
            Line2D([], [], color=MUTED, ls=(0, (4, 2)), label="Boundary before the poisons"),
            Line2D([], [], color=INK, label="Boundary after training on them"),
        ]
        figure.legend(handles=[*handles, *lines], loc="outside upper left", ncols=3, frameon=False)
    return figure


def _panel(axes: Any, points: list[dict[str, Any]]) -> None:
    for kind, look in LOOKS.items():
        axes.scatter(*_of(points, kind), zorder=4, **look)
    axes.plot(*_of(points, "boundary_before"), color=MUTED, ls=(0, (4, 2)), lw=1.2, zorder=2)
    axes.plot(*_of(points, "boundary_after"), color=INK, lw=1.6, zorder=3)
    xs, ys = zip(*((p["x"], p["y"]) for p in points if not p["kind"].startswith("boundary")))
    axes.set_xlim(min(xs) - 0.4, max(xs) + 0.4)
    axes.set_ylim(min(ys) - 0.4, max(ys) + 0.4)


def _of(points: list[dict[str, Any]], kind: str) -> tuple[list[float], list[float]]:
    here = [point for point in points if point["kind"] == kind]
    return [point["x"] for point in here], [point["y"] for point in here]


def _fooled(points: list[dict[str, Any]]) -> bool:
    """Whether the target lies on the poisons' side: to the right when following the final boundary."""
    (x0, x1), (y0, y1) = _of(points, "boundary_after")
    (x,), (y,) = _of(points, "target")
    return (x1 - x0) * (y - y0) - (y1 - y0) * (x - x0) < 0
