"""zhu2022, figure 2.9: defence success of Deep k-NN and test accuracy of the filtered victim, by architecture."""

from __future__ import annotations

from typing import Any

from relearn.report.artefacts import Artefact, Row
from relearn.report.classified import guess
from relearn.report.figures import panels
from relearn.report.figures.style import (
    COLOURS,
    INK,
    MUTED,
    SMALL,
    apply_style,
    chance_line,
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

FIELDS = (
    "series",
    "victim",
    "panel",
    "status",
    "value",
    "low",
    "high",
    "unfiltered",
    "chance",
    "trials",
    "source",
    "runs",
)
BARS = "whiskers: Wilson's 95% interval over the attacks on a victim"
NAMES_NETWORKS = True
GROUP = 0.78


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per series, panel and victim, over the attacks that succeed undefended; there may be none."""
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
            line |= {"chance": guess(evidence) if panel == "test_accuracy" else None}
            if panel == "defence_success":
                rate = wilson(sum(own), len(own))
                line |= {"low": rate.low, "high": rate.high}
            elif victim in before:
                line |= {"unfiltered": sum(before[victim]) / len(before[victim])}
            line |= {"runs": " ".join(sorted({trial.folder for trial in trials if trial.victim == victim}))}
        lines.append(line)
    return lines


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Draw two panels of bars over the same victims; a victim without runs shows at most a published value."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from seaborn import despine

    there = {point["series"] for point in points if point["status"] == "measured"}
    rows = [row for row in artefact.rows if row.in_grid or row.id in there]
    victims = panels.attacked(
        artefact, {p["victim"] for p in points if p["status"] in ("measured", "no_value")}
    )
    with apply_style():
        figure = empty_figure(5.4)
        grid = figure.subplots(len(artefact.columns), sharex=True)
        for axes, column in zip(grid, artefact.columns):
            here = [point for point in points if point["panel"] == column.id and point["victim"] in victims]
            _bars(axes, victims, rows, here)
            axes.set_ylabel(column.title)
            in_percent(axes.yaxis)
            axes.grid(axis="x", visible=False)
            despine(ax=axes, left=True)
            chance_line(axes, here)
            if not there:
                not_run(axes)
        grid[-1].set_xticks(range(len(victims)), [two_lines(victim) for victim in victims])
        room = max(0.2, 0.065 * len(victims))  # beside the last bar: the width of "chance"
        grid[-1].set_xlim(-0.6, len(victims) - 0.6 + room)
        panels.absent(grid[-1], artefact, victims)
        handles: list[Any] = [
            Patch(color=COLOURS[row.id], label=row.title) for row in rows if row.id in there
        ]
        if any(point["unfiltered"] is not None for point in points):
            handles.append(Line2D([], [], color=INK, lw=1.6, label="Unfiltered"))
        handles.append(_mark(label="Published code, convex polytope"))
        figure.legend(handles=handles, loc="outside upper left", ncols=3, frameon=False)
    return figure


def _bars(axes: Any, victims: list[str], rows: list[Row], points: list[dict[str, Any]]) -> None:
    width = GROUP / len(rows)
    ranks = {row.id: rank for rank, row in enumerate(rows)}
    for point in points:
        if point["series"] not in ranks:
            continue
        rank = ranks[point["series"]]
        x = victims.index(point["victim"]) + width * (rank - (len(rows) - 1) / 2)
        if point["source"] == "published code":
            at = x - width / 4  # on its bar, beside the whisker
            axes.plot([at], [point["value"]], zorder=6, clip_on=False, **_look())
            label = f"Published code, {point['victim']}: {number(point['value'], percent=True)}"
            axes.figure.mark(axes, at, point["value"], point, f"{label}, {plural(point['trials'], 'attack')}")
        elif point["status"] == "measured":
            _bar(axes, x, width, rows[rank].title, point)
        elif point["status"] == "no_value":
            _say(axes, x, "no attack succeeds", MUTED)
    axes.set_ylim(0, 1.04)
    if any(point["low"] is not None for point in points):
        _below(axes, -0.6, "n")


def _bar(axes: Any, x: float, width: float, title: str, point: dict[str, Any]) -> None:
    axes.bar(x, point["value"], width * 0.94, color=COLOURS[point["series"]], zorder=3, edgecolor="none")
    says = f"{title}, {point['victim']}: {number(point['value'], point['low'], point['high'], percent=True)}"
    if point["low"] is not None:
        lengths = [[point["value"] - point["low"]], [point["high"] - point["value"]]]
        axes.errorbar(x, point["value"], lengths, color=INK, lw=1, capsize=2.5, zorder=5)
        _below(axes, x, str(point["trials"]))
        says += f", {plural(point['trials'], 'attack')}"
    if point["unfiltered"] is not None:
        axes.hlines(point["unfiltered"], x - width / 2, x + width / 2, color=INK, lw=1.6, zorder=4)
        says += f"; unfiltered {number(point['unfiltered'], percent=True)}"
    axes.figure.mark(axes, x, point["value"], point, says)


def _say(axes: Any, x: float, words: str, colour: str) -> None:
    look: Any = {"rotation": 90, "ha": "center", "va": "bottom", "zorder": 7}
    axes.text(x, 0.03, words, color=colour, fontsize=SMALL, **look)


def _below(axes: Any, x: float, words: str) -> None:
    """Write under the axis: a number of attacks, or its name at the left end."""
    place: Any = {"textcoords": "offset points", "ha": "center", "va": "top"}
    axes.annotate(words, (x, 0), (0, -3), color=MUTED, fontsize=SMALL, **place)


def _look() -> dict[str, Any]:
    return {"marker": "D", "ms": 6, "mfc": "white", "mec": INK, "mew": 1.2, "ls": ""}


def _mark(label: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **_look())
