"""zhu2022, figure 2.2: two poisons of one target, their perturbations, and the size of these perturbations."""

from __future__ import annotations

from typing import Any

import numpy as np

from relearn.report.artefacts import Artefact
from relearn.report.figures.style import MUTED, SMALL, apply_style, empty_figure
from relearn.report.quantities import Evidence
from relearn.studies.poisoning.figures.pictures import bare, gallery, image

FIELDS = ("series", "place", "target", "l1_mean_255", "linf_255", "amplified", "source", "runs", "pictures")
NOTE = "mean and max: absolute change of a pixel value, in 1/255"
PLACES = ("top", "bottom")
SHORT = {"FC": "feature_collision", "CP": "convex_polytope"}


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per poison: mean and maximum change, and its pictures (left out of the CSV)."""
    found = []
    for row in artefact.rows:
        images = gallery(artefact, row, evidence)
        for rank, place in enumerate(PLACES):
            if images is None or len(images.base) <= rank:
                continue
            base, poison = images.base[rank], images.poison[0, rank]
            change = poison.astype(float) - base
            top = float(np.abs(change).max())
            line: dict[str, Any] = {
                **dict.fromkeys(FIELDS),
                "series": row.id,
                "place": place,
                "source": "measured",
            }
            line |= {
                "target": images.numbers[0],
                "l1_mean_255": float(np.abs(change).mean()),
                "linf_255": top,
            }
            line |= {"amplified": 127 / top if top else 1.0, "runs": images.run.folder}
            found.append({**line, "pictures": (images.target[0], base, poison, change)})
    return found + _published(artefact)


def _published(artefact: Artefact) -> list[dict[str, Any]]:
    source = artefact.published["paper"]
    values = source.values()
    largest = {v.row: v.value for v in values if v.metric == "perturbation_linf"}
    lines = []
    for value in values:
        if value.metric == "perturbation_l1_per_pixel":
            line: dict[str, Any] = {
                "series": SHORT[value.row],
                "place": value.column.split()[0],
                "source": "paper",
            }
            line |= {"l1_mean_255": value.value, "linf_255": largest[value.row]}
            lines.append({**dict.fromkeys(FIELDS), **line})
    return lines


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Draw two rows per base image: poisons, one column per attack, and below them their amplified perturbations."""
    measured = [point for point in points if point["source"] == "measured"]
    there = {point["series"] for point in measured}
    rows = [row for row in artefact.rows if row.in_grid or row.id in there]
    with apply_style():
        figure = empty_figure(6.4)
        grid = figure.subplots(2 * len(PLACES), 1 + len(rows), squeeze=False)
        for axes in grid.flat:
            bare(axes)
        for at, place in enumerate(PLACES):
            poisons, changes = grid[2 * at], grid[2 * at + 1]
            for rank, row in enumerate(rows, 1):
                here = {p["source"]: p for p in points if (p["series"], p["place"]) == (row.id, place)}
                _pair(poisons[0], poisons[rank], changes[rank], here)
            poisons[0].set_title("Base" if there else "")
        for rank, row in enumerate(rows, 1):
            title = row.title.replace(" (addition)", "\n(addition)")
            grid[0, rank].set_title(title, fontsize=SMALL)
        if measured:
            image(grid[1, 0], measured[0]["pictures"][0])
            grid[1, 0].set_xlabel("Target")
    return figure


def _pair(base: Any, poison: Any, change: Any, here: dict[str, dict[str, Any]]) -> None:
    """Draw one poison and its perturbation; the published values are printed below even if nothing was run."""
    point, paper = here.get("measured"), here.get("paper")
    labels = []
    if point is None:
        poison.text(0.5, 0.5, "not run", transform=poison.transAxes, ha="center", va="center", color=MUTED)
    else:
        _, start, poisoned, difference = point["pictures"]
        image(base, start)
        image(poison, poisoned)
        amplified = np.clip(127 + point["amplified"] * difference, 0, 255).round()
        image(change, amplified.astype(np.uint8))
        change.set_title(f"change ×{point['amplified']:.1f}", fontsize=SMALL, color=MUTED)
        labels.append(f"mean {point['l1_mean_255']:.1f}, max {point['linf_255']:.0f}")
    if paper:
        labels.append(f"the paper: {paper['l1_mean_255']:g}, {paper['linf_255']:g}")
    change.set_xlabel("\n".join(labels), fontsize=SMALL)
