"""zhu2022, figure 2.2: two poisons of one target, their perturbations, and how large those are."""

from __future__ import annotations

from typing import Any

import numpy as np

from relearn.report.artefacts import Artefact
from relearn.report.figures.style import MUTED, empty_figure, styled
from relearn.report.quantities import Evidence
from relearn.studies.poisoning.figures.pictures import bare, gallery, image

FIELDS = ("series", "place", "target", "l1_mean_255", "linf_255", "amplified", "source", "runs", "pictures")
PLACES = ("top", "bottom")
SHORT = {"FC": "feature_collision", "CP": "convex_polytope"}


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """A row a poison: the mean and the greatest change, with its pictures (which the CSV leaves out)."""
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
    """Two lines of pictures: base, then poison and amplified perturbation of each attack."""
    measured = [point for point in points if point["source"] == "measured"]
    there = {point["series"] for point in measured}
    rows = [row for row in artefact.rows if row.in_grid or row.id in there]
    with styled():
        figure = empty_figure(1.5 * (2 + 2 * len(rows)), 4.1)
        grid = figure.subplots(2, 2 + 2 * len(rows), squeeze=False)
        for axes in grid.flat:
            bare(axes)
        for line, place in zip(grid, PLACES):
            for rank, row in enumerate(rows):
                here = {p["source"]: p for p in points if (p["series"], p["place"]) == (row.id, place)}
                _pair(line[0], line[1], line[2 + 2 * rank : 4 + 2 * rank], here)
        grid[0, 0].set_title("Target", fontsize=9.5)
        grid[1, 0].set_visible(False)
        grid[0, 1].set_title("Base", fontsize=9.5)
        for rank, row in enumerate(rows):
            words = row.title.replace(" (addition)", "\n(addition)")
            grid[0, 2 + 2 * rank].set_title(words, fontsize=9.5)
    return figure


def _pair(target: Any, base: Any, line: Any, here: dict[str, dict[str, Any]]) -> None:
    """One poison and its perturbation; published labels stand beside even where nothing was run."""
    paper = here.get("paper")
    beside = f"paper: {paper['l1_mean_255']:g}, {paper['linf_255']:g}" if paper else ""
    point = here.get("measured")
    if point is None:
        line[0].text(0.5, 0.5, "not run", transform=line[0].transAxes, ha="center", va="center", color=MUTED)
        line[1].set_xlabel(beside, fontsize=8.5, color=MUTED)
        return
    shown, start, poison, change = point["pictures"]
    image(target, shown)
    image(base, start)
    image(line[0], poison)
    image(line[1], np.clip(127 + point["amplified"] * change, 0, 255).round().astype(np.uint8))
    line[0].set_xlabel(f"mean {point['l1_mean_255']:.1f}\nlargest {point['linf_255']:.0f}", fontsize=8.5)
    line[1].set_title(f"change x{point['amplified']:.1f}", fontsize=8.5, color=MUTED)
    line[1].set_xlabel(beside.replace(": ", ":\n"), fontsize=8.5, color=MUTED)
