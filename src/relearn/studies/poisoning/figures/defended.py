"""zhu2022, figure 2.9: Deep k-NN's defence success and the filtered victim's accuracy, by architecture."""

from __future__ import annotations

from typing import Any

from relearn.report.artefacts import Artefact, Row
from relearn.report.figures.style import COLOURS, INK, MUTED, empty_figure, in_percent, styled, two_lines
from relearn.report.quantities import Evidence
from relearn.report.statistics import wilson
from relearn.report.table import by_member

FIELDS = (
    "series",
    "victim",
    "panel",
    "status",
    "value",
    "low",
    "high",
    "unfiltered",
    "trials",
    "source",
    "runs",
)
BARS = "whiskers: Wilson's 95% interval over the attacks on a victim"
GROUP = 0.78


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """A row a series, panel and victim; of attacks that succeed undefended only, which may be none."""
    found = []
    for row in artefact.rows:
        for column in artefact.columns:
            found += _panel(artefact, row, column.id, column.quantity, evidence)
    source = artefact.published["published code"]
    for value in source.values():
        known = value.row == "Deep k-NN" and value.column in artefact.members
        if known and value.metric == "defence_success_rate":
            line: dict[str, Any] = {
                "series": "convex_polytope",
                "victim": value.column,
                "panel": "defence_success",
            }
            line |= {"value": value.in_unit("fraction"), "trials": value.n_runs, "source": "published code"}
            found.append({**dict.fromkeys(FIELDS), **line})
    return found


def _panel(
    artefact: Artefact, row: Row, panel: str, quantity: str, evidence: Evidence
) -> list[dict[str, Any]]:
    filters = {"study": artefact.study, **artefact.common, **row.where}
    trials = evidence.trials(quantity, filters)
    values = by_member(trials)
    before = by_member(evidence.trials(quantity, {**filters, "defence": "none"}))
    tried = {run.labels["victim"] for run in evidence.of(quantity, filters)}
    lines = []
    for victim in artefact.members:
        line: dict[str, Any] = {"series": row.id, "victim": victim, "panel": panel, "source": "measured"}
        line = {**dict.fromkeys(FIELDS), **line, "status": "no_value" if victim in tried else "not_run"}
        if victim in values:
            own = values[victim]
            line |= {"status": "measured", "value": sum(own) / len(own), "trials": len(own)}
            if panel == "defence_success":
                rate = wilson(sum(own), len(own))
                line |= {"low": rate.low, "high": rate.high}
            elif victim in before:
                line |= {"unfiltered": sum(before[victim]) / len(before[victim])}
            line |= {"runs": " ".join(sorted({trial.folder for trial in trials if trial.victim == victim}))}
        lines.append(line)
    return lines


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Two panels of bars over the same victims."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from seaborn import despine

    there = {point["series"] for point in points if point["status"] == "measured"}
    rows = [row for row in artefact.rows if row.in_grid or row.id in there]
    with styled():
        figure = empty_figure(9.2, 5.6)
        grid = figure.subplots(len(artefact.columns), sharex=True)
        for axes, column in zip(grid, artefact.columns):
            here = [point for point in points if point["panel"] == column.id]
            _bars(axes, artefact, rows, here)
            axes.set_ylabel(column.title)
            in_percent(axes.yaxis)
            axes.grid(axis="x", visible=False)
            despine(ax=axes, left=True)
        names = [two_lines(victim) for victim in artefact.members]
        grid[-1].set_xticks(range(len(names)), names)
        grid[-1].set_xlim(-0.6, len(names) - 0.4)
        handles: list[Any] = [Patch(color=COLOURS[row.id], label=row.title) for row in rows]
        handles.append(Line2D([], [], color=INK, lw=1.6, label="Unfiltered"))
        handles.append(_mark(label="Published code, convex polytope"))
        figure.legend(handles=handles, loc="outside upper left", ncols=3, frameon=False)
    return figure


def _bars(axes: Any, artefact: Artefact, rows: list[Row], points: list[dict[str, Any]]) -> None:
    width = GROUP / len(rows)
    ranks = {row.id: rank for rank, row in enumerate(rows)}
    for point in points:
        if point["series"] not in ranks:
            continue
        place = artefact.members.index(point["victim"])
        x = place + width * (ranks[point["series"]] - (len(rows) - 1) / 2)
        if point["source"] == "published code":
            axes.plot(
                [x - width / 2], [point["value"]], zorder=6, clip_on=False, **_look()
            )  # beside the whisker
        elif point["status"] == "measured":
            axes.bar(
                x, point["value"], width * 0.94, color=COLOURS[point["series"]], zorder=3, edgecolor="none"
            )
            if point["low"] is not None:
                lengths = [[point["value"] - point["low"]], [point["high"] - point["value"]]]
                axes.errorbar(x, point["value"], lengths, color=INK, lw=1, capsize=2.5, zorder=5)
            if point["unfiltered"] is not None:
                axes.hlines(point["unfiltered"], x - width / 2, x + width / 2, color=INK, lw=1.6, zorder=4)
        elif point["status"] == "no_value":
            _say(axes, x, "no attack works")
    seen = {point["victim"] for point in points if point["status"] in ("measured", "no_value")}
    for place, victim in enumerate(artefact.members):
        if victim not in seen:
            _say(axes, place, "not run")
    axes.set_ylim(0, 1.04)


def _say(axes: Any, x: float, words: str) -> None:
    axes.text(x, 0.02, words, rotation=90, ha="center", va="bottom", color=MUTED, fontsize=8.5)


def _look() -> dict[str, Any]:
    return {"marker": "D", "ms": 6, "mfc": "white", "mec": INK, "mew": 1.2, "ls": ""}


def _mark(label: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **_look())
