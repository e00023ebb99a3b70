"""zhu2022, figure 2.4: all poisons of two targets, and the victims that each attack fooled with them."""

from __future__ import annotations

import textwrap
from typing import Any

from relearn.report.artefacts import Artefact
from relearn.report.figures.style import MUTED, SMALL, apply_style, empty_figure
from relearn.report.quantities import Evidence
from relearn.studies.poisoning.figures.pictures import bare, gallery, image

FIELDS = ("series", "target", "fell", "stood", "runs", "pictures")
GROUPS = 2
ORIGINALS = "bases"
LETTERS = 44  # line width, in characters, of the text below the poisons of one target


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per target and attack, and one per target for the bases: names of fooled and unfooled victims, pictures."""
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
    """Draw one block of columns per target: the target, then a row of bases, then one row of poisons per attack."""
    there = {point["series"] for point in points}
    titles = {ORIGINALS: "Bases", **{row.id: row.title for row in artefact.rows}}
    lines = [ORIGINALS, *(row.id for row in artefact.rows if row.in_grid or row.id in there)]
    numbers = list(dict.fromkeys(point["target"] for point in points))[:GROUPS] or [None, None]
    poisons = max([len(point["pictures"][1]) for point in points], default=5)
    with apply_style():
        figure = empty_figure(0.4 + 0.86 * (len(lines) + 1))
        grid = figure.subplots(
            len(lines) + 1, 1 + poisons * len(numbers), width_ratios=[1.9] + [1.0] * poisons * len(numbers)
        )
        for axes in grid.flat:
            bare(axes)
        for words, title in zip(grid[:, 0], ["Target", *(titles[series] for series in lines)]):
            name = title.replace(" (addition)", "\n(addition)")
            words.text(0, 0.5, name, transform=words.transAxes, va="center")
        for group, number in enumerate(numbers):
            block = grid[:, 1 + group * poisons : 1 + (group + 1) * poisons]
            own = {point["series"]: point for point in points if point["target"] == number}
            if own:
                image(block[0, 0], next(iter(own.values()))["pictures"][0])
                _side_text(block[0, 0], 1.1, f"image {number} of the target pool", "left")
            for line, series in zip(block[1:], lines):
                _line(line, own.get(series))
            for at, axes in enumerate(block[1], 1):
                axes.set_title(str(at), loc="center", fontsize=SMALL, color=MUTED)
    return figure


def _line(line: Any, point: dict[str, Any] | None) -> None:
    if point is None:
        _side_text(line[len(line) // 2], 0.5, "not run", "center")
        return
    for axes, one in zip(line, point["pictures"][1]):
        image(axes, one)
    outcome = line[len(line) // 2].set_xlabel(_outcome(point), fontsize=SMALL)
    outcome.set_in_layout(False)  # the text is wider than a picture


def _side_text(axes: Any, x: float, words: str, align: str) -> None:
    axes.set_zorder(1)  # the text overlaps the neighbouring pictures
    place: Any = {"transform": axes.transAxes, "ha": align, "va": "center"}
    axes.text(x, 0.5, words, color=MUTED, fontsize=SMALL, **place).set_in_layout(False)


def _outcome(point: dict[str, Any]) -> str:
    if point["fell"] is None:
        return ""
    fell, stood = point["fell"].split(), point["stood"].split()
    if not fell + stood:
        return "no victim trained"
    named = f": {', '.join(fell)}" if fell else ""
    return textwrap.fill(f"fooled {len(fell)} of {len(fell + stood)} victims{named}", LETTERS)
