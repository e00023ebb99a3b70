"""Bars of attack success, victim by victim: figures 2.5, 2.6 and 2.7 of zhu2022, told apart by their rows."""

from __future__ import annotations

from typing import Any

from relearn.report.artefacts import Artefact, Row, Where
from relearn.report.figures.style import COLOURS, INK, MUTED, empty_figure, in_percent, styled, two_lines
from relearn.report.quantities import Evidence
from relearn.report.statistics import wilson
from relearn.report.table import by_member
from relearn.studies.poisoning.evidence import black_box_victims

FIELDS = (
    *("series", "victim", "knowledge", "status", "success", "low", "high", "trials"),
    *("reference", "source", "runs"),
)
BARS = "whiskers: Wilson's 95% interval over the attacks on a victim"
GROUP = 0.78  # of the distance between two victims, filled with bars


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """A row a series and victim, in the paper's order, and the bounds that the paper states in prose."""
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
            line |= {"knowledge": "black_box" if victim in black_box else "gray_box"}
            line |= {"trials": len(values[victim])}
            if victim in reference:
                line |= {"reference": sum(reference[victim]) / len(reference[victim])}
            line |= {"runs": " ".join(sorted({trial.folder for trial in trials if trial.victim == victim}))}
        else:
            line |= {"status": "not_run"}
        lines.append(line)
    return lines


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Bars with their intervals, short lines for the references, and what was not run by name."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from seaborn import despine

    measured = [point for point in points if point["status"] == "measured"]
    there = {point["series"] for point in measured}
    rows = [row for row in artefact.rows if row.in_grid or row.id in there]
    width = GROUP / len(rows)
    with styled():
        figure = empty_figure(9.2, 4.2)
        axes = figure.subplots()
        for rank, row in enumerate(rows):
            shift = width * (rank - (len(rows) - 1) / 2)
            for point in measured:
                if point["series"] == row.id:
                    _bar(axes, artefact.members.index(point["victim"]) + shift, width, point)
        top = max([0.8, *(point["high"] for point in measured)])
        _stated(axes, artefact, points)
        seen = {point["victim"] for point in measured}
        for place, victim in enumerate(artefact.members):
            if victim not in seen:
                axes.text(place, 0.02 * top, "not run", rotation=90, ha="center", va="bottom", color=MUTED)
        axes.set_xticks(range(len(artefact.members)), [_label(victim, points) for victim in artefact.members])
        axes.set(xlim=(-0.6, len(artefact.members) - 0.4), ylim=(-0.012, min(1.02, top * 1.05)))
        axes.set_ylabel("Attack success")
        in_percent(axes.yaxis)
        axes.grid(axis="x", visible=False)
        handles: list[Any] = [Patch(color=COLOURS[row.id], label=row.title) for row in rows]
        if artefact.reference:
            handles.append(Line2D([], [], color=INK, lw=1.6, label=artefact.reference))
        wide = sum(len(handle.get_label()) for handle in handles) > 75  # letters that fit beside each other
        columns = 3 if wide or len(handles) > 4 else len(handles)
        figure.legend(handles=handles, loc="outside upper left", ncols=columns, frameon=False)
        despine(ax=axes, left=True)
    return figure


def _bar(axes: Any, x: float, width: float, point: dict[str, Any]) -> None:
    axes.bar(x, point["success"], width * 0.94, color=COLOURS[point["series"]], zorder=3, edgecolor="none")
    lengths = [[point["success"] - point["low"]], [point["high"] - point["success"]]]
    axes.errorbar(x, point["success"], lengths, color=INK, lw=1, capsize=2.5, zorder=5)
    axes.plot(
        x, point["success"], "o", ms=4, mfc=COLOURS[point["series"]], mec=INK, mew=0.6, zorder=6
    )  # seen at 0, too
    if point["reference"] is not None:
        axes.hlines(point["reference"], x - width / 2, x + width / 2, color=INK, lw=1.6, zorder=4)


def _stated(axes: Any, artefact: Artefact, points: list[dict[str, Any]]) -> None:
    """The paper's own bounds as dashed lines, with the words that go with them."""
    for line in artefact.stated:
        for point in points:
            if point["source"] == "paper" and point["series"] == line["row"]:
                axes.axhline(point["success"], color=MUTED, ls=(0, (5, 3)), lw=1, zorder=2)
                axes.annotate(
                    line["words"],
                    (1, point["success"]),
                    (8, 0),
                    xycoords=("axes fraction", "data"),
                    textcoords="offset points",
                    va="center",
                    color=MUTED,
                    fontsize=8.5,
                )
                break


def _label(victim: str, points: list[dict[str, Any]]) -> str:
    """Where its series differ in what the attacker knows, the name stands without a mark."""
    knowledge = {p["knowledge"] for p in points if p["victim"] == victim and p["knowledge"]}
    return two_lines(victim) + ("\n(black box)" if knowledge == {"black_box"} else "")
