"""zhu2022, figure 2.10: one victim's feature space with the poisons of one attack, before and after Deep k-NN."""

from __future__ import annotations

from typing import Any

from relearn.report.artefacts import Artefact
from relearn.report.figures.style import COLOURS, INK, MUTED, apply_style, empty_figure, not_run
from relearn.report.quantities import Evidence
from relearn.report.runs import select

FIELDS = ("victim", "attack", "target", "kind", "x", "y", "kept", "runs")
LOOKS: dict[str, dict[str, Any]] = {  # drawn in this order
    "other": {"marker": ".", "color": "#c4c4c4", "s": 16},
    "target_class": {"marker": "o", "color": COLOURS["feature_collision"], "s": 26},
    "poison_class": {"marker": "s", "color": COLOURS["convex_polytope"], "s": 26},
    "target": {"marker": "*", "color": INK, "s": 330},
    "poison": {"marker": "D", "color": "#B3440B", "s": 30},  # drawn over the target that they surround
}
GONE = ((False, MUTED, 4.7, "Removed: clean image"), (True, "#B3440B", 6.8, "Removed: poison"))
"""Crosses after the filter: whether of poisons, colour, size and name."""
WORDS = {
    "other": "Other classes",
    "target_class": "Target's class",
    "poison_class": "Poisons' class",
    "poison": "Poison",
    "target": "Target",
}


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """The points of one run, preferably of a victim that the paper shows."""
    runs = [run for run in select(evidence.runs, *artefact.where) if not run.diverged]
    runs.sort(key=lambda run: (run.labels[artefact.over] not in artefact.members, run.folder))
    return [
        {"victim": run.labels["victim"], "attack": run.labels["attack"], "runs": run.folder}
        | {name: row[name] for name in ("target", "kind", "x", "y", "kept")}
        for run in runs[:1]
        for row in run.trials
    ]


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Draw all points on the left and the points kept by Deep k-NN on the right."""
    from matplotlib.lines import Line2D
    from seaborn import despine

    with apply_style():
        figure = empty_figure(4.3)
        grid = figure.subplots(1, 2, sharex=True, sharey=True)
        if not points:
            for axes in grid:
                not_run(axes)
            return figure
        attack = next(
            (row.title for row in artefact.rows if row.id == points[0]["attack"]), points[0]["attack"]
        )
        for axes, filtered in zip(grid, (False, True)):
            _panel(axes, points, filtered)
            axes.set_xlabel("Along the line between the two classes")
            despine(ax=axes, left=True)
        outside = _zoom(grid[0], points)
        if outside:
            grid[1].set_xlabel(f"{grid[1].get_xlabel()} ({outside} outside)")
        published = ", ".join(artefact.members)
        note = "" if points[0]["victim"] in artefact.members else f"\n(published: {published})"
        grid[0].set_title(f"{attack} on {points[0]['victim']}{note}")
        poisons = [point for point in points if point["kind"] == "poison"]
        removed = sum(point["kept"] == 0 for point in poisons)
        grid[1].set_title(f"After Deep k-NN: {removed} of {len(poisons)} poisons removed")
        grid[0].set_ylabel("First principal component of the rest")
        kinds = {point["kind"] for point in points}
        handles: list[Any] = [
            grid[0].scatter([], [], label=WORDS[kind], **look)
            for kind, look in LOOKS.items()
            if kind in kinds
        ]
        handles += [
            Line2D([], [], marker="x", ls="", color=colour, ms=size, label=label)
            for _, colour, size, label in GONE
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=4, frameon=False)
    return figure


def _zoom(axes: Any, points: list[dict[str, Any]]) -> int:
    """Set the axis limits around the central 96% of the points, so that outliers do not compress the rest.

    Returns the number of points outside.
    """
    import numpy as np

    inside = np.ones(len(points), dtype=bool)
    for name, limit in (("x", axes.set_xlim), ("y", axes.set_ylim)):
        values = np.array([point[name] for point in points], dtype=float)
        low, high = np.quantile(values, [0.02, 0.98])
        margin = 0.5 * (high - low) or 1.0
        low, high = (
            max(low - margin, values.min() - 0.1 * margin),
            min(high + margin, values.max() + 0.1 * margin),
        )
        limit(low, high)
        inside &= (low <= values) & (values <= high)
    return int((~inside).sum())


def _panel(axes: Any, points: list[dict[str, Any]], filtered: bool) -> None:
    for rank, (kind, look) in enumerate(LOOKS.items()):
        here = [p for p in points if p["kind"] == kind and not (filtered and p["kept"] == 0)]
        axes.scatter([p["x"] for p in here], [p["y"] for p in here], zorder=2 + rank, lw=0, **look)
    if filtered:
        gone = [p for p in points if p["kept"] == 0]
        for poisons, colour, size, _ in GONE:
            here = [p for p in gone if (p["kind"] == "poison") == poisons]
            xs, ys = [p["x"] for p in here], [p["y"] for p in here]
            axes.scatter(xs, ys, marker="x", color=colour, s=size**2, lw=1.1, zorder=8)
