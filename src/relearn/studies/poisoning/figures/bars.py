"""Bar charts of attack success by victim: figures 2.5, 2.6 and 2.7 of zhu2022, which differ only in their rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from relearn.report.artefacts import Artefact, Row, Where
from relearn.report.figures import panels
from relearn.report.figures.style import (
    COLOURS,
    INK,
    MUTED,
    apply_style,
    empty_figure,
    in_percent,
    not_run,
    number,
    two_lines,
)
from relearn.report.quantities import Evidence
from relearn.report.statistics import wilson
from relearn.report.table import by_member
from relearn.report.views.names import plural
from relearn.studies.poisoning.evidence import black_box_victims

FIELDS = (
    *("series", "victim", "knowledge", "status", "success", "low", "high", "trials"),
    *("reference", "source", "runs"),
)
BARS = "whiskers: Wilson's 95% interval over the attacks on a victim"
NAMES_NETWORKS = True
BLACK, GREY = "black_box", "gray_box"
GROUP = 0.78  # share of the distance between two victims that is filled with bars
WIDEST = 0.4  # a lone bar is not as wide as a group
LEAST_TOP = 0.2  # minimum upper limit of the axis, used if nothing succeeds


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per series and victim, in the paper's order, and the bounds that the paper states in prose."""
    found = [point for row in artefact.rows for point in _series(artefact, row, evidence)]
    source = artefact.published["paper"]
    for value in source.values():
        if value.value is not None:
            blank = dict.fromkeys(FIELDS)
            bound = {"series": value.row, "victim": value.column, "status": value.note.split(":")[0]}
            found.append({**blank, **bound, "success": value.value, "source": "paper"})
    return found


def _series(artefact: Artefact, row: Row, evidence: Evidence) -> list[dict[str, Any]]:
    where: Where = {"study": artefact.study, **artefact.common, **row.where}
    trials = evidence.trials("attack_success", where)
    values = by_member(trials)
    black_box = black_box_victims(evidence, where["attack"], where["setting"])
    reference = by_member(evidence.trials("attack_success", row.reference)) if row.reference else {}
    lines = []
    for victim in artefact.members:
        line: dict[str, Any] = {
            **dict.fromkeys(FIELDS),
            "series": row.id,
            "victim": victim,
            "source": "measured",
        }
        if victim in values:
            rate = wilson(sum(values[victim]), len(values[victim]))
            line |= {"status": "measured", "success": rate.estimate, "low": rate.low, "high": rate.high}
            line |= {"knowledge": BLACK if victim in black_box else GREY}
            line |= {"trials": len(values[victim])}
            if victim in reference:
                line |= {"reference": sum(reference[victim]) / len(reference[victim])}
            line |= {"runs": " ".join(sorted({trial.folder for trial in trials if trial.victim == victim}))}
        else:
            line |= {"status": "not_run"}
        lines.append(line)
    return lines


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Draw a bar with its interval for each attacked victim and a short line for each reference."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from seaborn import despine

    measured = [point for point in points if point["status"] == "measured"]
    there = {point["series"] for point in measured}
    rows = [row for row in artefact.rows if row.id in there] or list(
        artefact.rows
    )  # no gap for what did not run
    victims = panels.attacked(artefact, {point["victim"] for point in measured})
    width = min(GROUP / len(rows), WIDEST)
    with apply_style():
        figure = empty_figure(3.9)
        axes = figure.subplots()
        for rank, row in enumerate(rows):
            shift = width * (rank - (len(rows) - 1) / 2)
            for point in measured:
                if point["series"] == row.id:
                    _bar(axes, victims.index(point["victim"]) + shift, width, row, point)
        stated = _stated(axes, artefact, points, victims)
        top = max(
            [LEAST_TOP, *(point["high"] for point in measured), *(line.get_ydata()[0] for line in stated)]
        )
        axes.set_xticks(range(len(victims)), [_label(victim, points) for victim in victims])
        axes.set(xlim=(-0.6, len(victims) - 0.4), ylim=(-0.012, min(1.02, top * 1.06)))
        axes.set_ylabel("Attack success")
        panels.absent(axes, artefact, victims)
        if not measured:
            not_run(axes)
        in_percent(axes.yaxis)
        axes.grid(axis="x", visible=False)
        handles: list[Any] = [
            Patch(color=COLOURS[row.id], label=row.title) for row in rows if row.id in there
        ]
        if any(point["reference"] is not None for point in measured):
            handles.append(Line2D([], [], color=INK, lw=1.6, label=artefact.reference))
        handles += stated
        figure.legend(
            handles=handles, loc="outside upper left", ncols=3 if len(handles) > 3 else 2, frameon=False
        )
        despine(ax=axes, left=True)
    return figure


def _bar(axes: Any, x: float, width: float, row: Row, point: dict[str, Any]) -> None:
    axes.bar(x, point["success"], width * 0.94, color=COLOURS[point["series"]], zorder=3, edgecolor="none")
    lengths = [[point["success"] - point["low"]], [point["high"] - point["success"]]]
    axes.errorbar(x, point["success"], lengths, color=INK, lw=1, capsize=2.5, zorder=5)
    axes.plot(
        x, point["success"], "o", ms=4, mfc=COLOURS[point["series"]], mec=INK, mew=0.6, zorder=6
    )  # also visible at 0
    shown = number(point["success"], point["low"], point["high"], percent=True)
    says = f"{row.title}, {point['victim']}: {shown}, {plural(point['trials'], 'attack')}"
    if point["reference"] is not None:
        axes.hlines(point["reference"], x - width / 2, x + width / 2, color=INK, lw=1.6, zorder=4)
        says += f"; unperturbed {number(point['reference'], percent=True)}"
    axes.figure.mark(axes, x, point["success"], point, says)


def _stated(axes: Any, artefact: Artefact, points: list[dict[str, Any]], victims: Sequence[str]) -> list[Any]:
    """Draw the paper's own bounds as dashed, labelled lines; ``knowledge`` of a line names the only victims that it is about."""
    found = []
    for line in artefact.stated:
        for point in points:
            if point["source"] == "paper" and point["series"] == line["row"]:
                look: Any = {"color": MUTED, "ls": (0, (5, 3)), "lw": 1, "zorder": 2}
                if "knowledge" not in line:
                    found.append(axes.axhline(point["success"], label=line["words"], **look))
                    break
                about = [
                    at
                    for at, one in enumerate(victims)
                    if _knowledge(one, points) in (None, line["knowledge"])
                ]
                xs = [x for at in about for x in (at - 0.5, at + 0.5, math.nan)]
                if xs:
                    found += axes.plot(xs, [point["success"]] * len(xs), label=line["words"], **look)
                break
    return found


def _knowledge(victim: str, points: Sequence[Mapping[str, Any]]) -> str | None:
    """Whether the victim is a black box: if it is one in all of its series; None if it was not attacked."""
    found = {p["knowledge"] for p in points if p["victim"] == victim and p["knowledge"]}
    return (BLACK if found == {BLACK} else GREY) if found else None


def _label(victim: str, points: list[dict[str, Any]]) -> str:
    """The victim's name, marked "(black box)" if it is one."""
    return two_lines(victim) + ("\n(black box)" if _knowledge(victim, points) == BLACK else "")


def black_boxes(artefact: Artefact, points: Sequence[Mapping[str, Any]]) -> str:
    """Which victims are black boxes, if these are others than in the paper; victims that were not attacked here do not count."""
    known = {victim: _knowledge(victim, points) for victim in artefact.members}
    here = [victim for victim, knowledge in known.items() if knowledge == BLACK]
    paper = artefact.protocol[BLACK]
    if all((knowledge == BLACK) == (victim in paper) for victim, knowledge in known.items() if knowledge):
        return ""
    return f"black box here: {', '.join(here) or 'none'}, in the paper: {', '.join(paper)}"


NOTE = black_boxes
