"""zhu2022, figure 2.4: all poisons of two targets, and which victims each attack fooled with them."""

from __future__ import annotations

from typing import Any

from relearn.report.artefacts import Artefact
from relearn.report.figures.style import MUTED, empty_figure, styled
from relearn.report.quantities import Evidence
from relearn.studies.poisoning.figures.pictures import bare, gallery, image

FIELDS = ("series", "target", "fell", "stood", "runs", "pictures")
GROUPS = 2
ORIGINALS = "bases"


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """A row a target and attack, and the bases: names of the victims that fell and that stood, the pictures."""
    found: list[dict[str, Any]] = []
    for row in artefact.rows:
        images = gallery(artefact, row, evidence)
        if images is None:
            continue
        where = {"setting": "transfer", "defence": "none", **row.where}
        trials = [t for t in evidence.trials("attack_success", where) if t.seed == images.run.seed]
        for place, number in enumerate(images.numbers[:GROUPS]):
            mine = [trial for trial in trials if trial.target == number]
            names = [{t.victim for t in mine if bool(t.value) == fell} for fell in (True, False)]
            ordered = [" ".join(sorted(group)) for group in names]
            runs = " ".join([images.run.folder, *sorted({trial.folder for trial in mine})])
            shown = (images.target[place], images.poison[place])
            if not any((p["series"], p["target"]) == (ORIGINALS, number) for p in found):
                clean = (
                    ORIGINALS,
                    number,
                    None,
                    None,
                    images.run.folder,
                    (images.target[place], images.base),
                )
                found.append(dict(zip(FIELDS, clean)))
            found.append(dict(zip(FIELDS, (row.id, number, *ordered, runs, shown))))
    return found


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """A group a target: it stands on the left, then the bases and a line of poisons an attack."""
    there = {point["series"] for point in points}
    titles = {ORIGINALS: "Bases", **{row.id: row.title for row in artefact.rows}}
    lines = [ORIGINALS, *(row.id for row in artefact.rows if row.in_grid or row.id in there)]
    numbers = list(dict.fromkeys(point["target"] for point in points))[:GROUPS] or [None, None]
    poisons = max([len(point["pictures"][1]) for point in points], default=5)
    with styled():
        figure = empty_figure(10.4, 0.5 + 1.02 * len(lines) * len(numbers))
        grid = figure.subplots(
            len(lines) * len(numbers), poisons + 2, width_ratios=[1.0] * (poisons + 1) + [3.4], squeeze=False
        )
        for axes in grid.flat:
            bare(axes)
        for group, number in enumerate(numbers):
            for rank, series in enumerate(lines):
                own = [p for p in points if (p["series"], p["target"]) == (series, number)]
                line = grid[group * len(lines) + rank]
                _line(line, titles[series], own, lead=rank == 0, number=number)
    return figure


def _line(line: Any, title: str, points: list[dict[str, Any]], *, lead: bool, number: int | None) -> None:
    words = line[-1]
    if not points:
        said = f"{title}\nnot run"
    else:
        (point,) = points
        target, images = point["pictures"]
        if lead:
            image(line[0], target)
            line[0].set_title(f"Target {number}", fontsize=9.5)
        for axes, one in zip(line[1:], images):
            image(axes, one)
        said = f"{title}\n{_outcome(point)}".strip()
    words.text(
        0, 0.5, said, transform=words.transAxes, va="center", fontsize=9, color=None if points else MUTED
    )


def _outcome(point: dict[str, Any]) -> str:
    if point["fell"] is None:
        return ""
    fell, stood = point["fell"].split(), point["stood"].split()
    if not fell + stood:
        return "no victim trained"
    rows = [", ".join(fell[start : start + 2]) for start in range(0, len(fell), 2)]
    return f"fooled {len(fell)} of {len(fell + stood)} victims" + "".join(f"\n{names}" for names in rows)
