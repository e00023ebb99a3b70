"""zhu2022, figure 2.5: how often feature collision and convex polytope succeed on eight victims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from relearn.report import published
from relearn.report.artefacts import Artefact, Row
from relearn.report.figures.style import COLOURS, INK, MUTED, empty_figure, styled
from relearn.report.quantities import Evidence
from relearn.report.statistics import wilson
from relearn.report.table import by_member

FIELDS = ("series", "victim", "knowledge", "status", "success", "low", "high", "trials", "source", "runs")
BAR = 0.38


def points(artefact: Artefact, evidence: Evidence, reported: Path) -> list[dict[str, Any]]:
    """A row a series and victim, in the paper's order, and the bounds that the paper states in prose."""
    rows = [*artefact.rows, artefact.reference] if artefact.reference else list(artefact.rows)
    found = [point for row in rows for point in _series(artefact, row, evidence)]
    source = artefact.published["paper"]
    for value in published.read(reported / source.file):
        if value.artefact == source.artefact and value.value is not None:
            blank = dict.fromkeys(FIELDS)
            bound = {"series": value.row, "victim": value.column, "status": value.note.split(":")[0]}
            found.append({**blank, **bound, "success": value.value, "source": "paper"})
    return found


def _series(artefact: Artefact, row: Row, evidence: Evidence) -> list[dict[str, Any]]:
    trials = evidence.trials("attack_success", {"study": artefact.study}, row.where)
    values = by_member(trials)
    black_box = evidence.black_box_victims(str(row.where["attack"]))
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
            line |= {"runs": " ".join(sorted({trial.folder for trial in trials if trial.victim == victim}))}
        else:
            line |= {"status": "not_run"}
        lines.append(line)
    return lines


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Bars with their intervals, a line for the unperturbed bases, and what was not run by name."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    with styled():
        figure = empty_figure(9.2, 4.2)
        axes = figure.subplots()
        measured = [point for point in points if point["status"] == "measured"]
        offsets = {
            row.id: BAR * (rank - (len(artefact.rows) - 1) / 2) for rank, row in enumerate(artefact.rows)
        }
        for point in measured:
            place = artefact.members.index(point["victim"])
            if point["series"] in offsets:
                _bar(axes, place + offsets[point["series"]], point)
            else:
                axes.hlines(
                    point["success"], place - BAR * 1.05, place + BAR * 1.05, color=INK, lw=1.6, zorder=4
                )
        top = max([0.8, *(point["high"] for point in measured)])
        bounds = [point for point in points if point["source"] == "paper"]
        if bounds:
            axes.axhline(bounds[0]["success"], color=MUTED, ls=(0, (5, 3)), lw=1, zorder=2)
            words = "the paper says:\nFC never above,\nCP mostly near\nor above"
            axes.annotate(
                words,
                (1, bounds[0]["success"]),
                (8, 0),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                va="center",
                color=MUTED,
                fontsize=8.5,
            )
        seen = {point["victim"] for point in measured}
        for place, victim in enumerate(artefact.members):
            if victim not in seen:
                axes.text(place, 0.02 * top, "not run", rotation=90, ha="center", va="bottom", color=MUTED)
        axes.set_xticks(range(len(artefact.members)), [_label(victim, points) for victim in artefact.members])
        axes.set(xlim=(-0.6, len(artefact.members) - 0.4), ylim=(-0.012, min(1.02, top * 1.05)))
        axes.set_ylabel("Attack success")
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
        axes.grid(axis="x", visible=False)
        handles: list[Any] = [Patch(color=COLOURS[row.id], label=row.title) for row in artefact.rows]
        if artefact.reference:
            handles.append(Line2D([], [], color=INK, lw=1.6, label=artefact.reference.title))
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False)
        _despine(axes)
    return figure


def _bar(axes: Any, x: float, point: dict[str, Any]) -> None:
    axes.bar(x, point["success"], BAR * 0.94, color=COLOURS[point["series"]], zorder=3, edgecolor="none")
    lengths = [[point["success"] - point["low"]], [point["high"] - point["success"]]]
    axes.errorbar(x, point["success"], lengths, color=INK, lw=1, capsize=2.5, zorder=5)


def _label(victim: str, points: list[dict[str, Any]]) -> str:
    knowledge = {p["knowledge"] for p in points if p["victim"] == victim and p["series"] in COLOURS}
    note = "\n(black box)" if "black_box" in knowledge else ""
    return victim.replace("-", "\n", 1) + note


def _despine(axes: Any) -> None:
    import seaborn as sns

    sns.despine(ax=axes, left=True)
