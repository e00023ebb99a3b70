"""zhu2022, figure 2.11, left: defence success, MCC and test accuracy of Deep k-NN against normalised k."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from relearn.report import published
from relearn.report.artefacts import Artefact, Column, Row
from relearn.report.figures.style import COLOURS, INK, MUTED, SHADE, empty_figure, styled
from relearn.report.quantities import QUANTITIES, Evidence, Trial
from relearn.report.statistics import clustered_mean

FIELDS = (
    *("source", "series", "victim", "panel", "population", "k", "normalised_k", "value", "low", "high"),
    *("trials", "runs"),
)
RECOMMENDED = (1.0, 2.0)
POOLED = "all"
LABELS = {
    ("defence_success", "effective"): "Defence success\n(of attacks that work undefended)",
    ("defence_success", "all"): "Defence success\n(all attacks)",
    ("mcc", "all"): "MCC of the removal",
    ("test_accuracy", "all"): "Test accuracy",
}


def points(artefact: Artefact, evidence: Evidence, reported: Path) -> list[dict[str, Any]]:
    """A row a series, panel, k and victim (``all``: every victim's attacks), and the published code's."""
    normalised = evidence.normalised_k()
    found = []
    for row in artefact.rows:
        for column in artefact.columns:
            found += _swept(artefact, row, column, column.quantity, "all", evidence, normalised)
            if column.id == "defence_success":
                name = "defence_success_effective"
                found += _swept(artefact, row, column, name, "effective", evidence, normalised)
    source = artefact.published["published code"]
    values = [v for v in published.read(reported / source.file) if v.artefact == source.artefact]
    return found + _published(values, artefact)


def _swept(
    artefact: Artefact,
    row: Row,
    column: Column,
    quantity: str,
    population: str,
    evidence: Evidence,
    normalised: dict[int, float],
) -> list[dict[str, Any]]:
    groups: dict[tuple[str, int], list[Trial]] = defaultdict(list)
    for trial in evidence.trials(quantity, {"study": artefact.study}, artefact.common, row.where, sweep=True):
        if trial.k in normalised:
            groups[POOLED, trial.k].append(trial)
            groups[trial.victim, trial.k].append(trial)
    order = [POOLED, *artefact.members]
    bounds = (0.0, 1.0) if QUANTITIES[quantity].binary else None
    lines = []
    for (victim, k), trials in sorted(groups.items(), key=lambda item: (order.index(item[0][0]), item[0][1])):
        ends = clustered_mean([trial.value for trial in trials], [trial.target for trial in trials], bounds)
        low, high = (ends.low, ends.high) if victim == POOLED else (None, None)
        named = ("measured", row.id, victim, column.id, population, k, normalised[k])
        runs = " ".join(sorted({trial.folder for trial in trials}))
        lines.append(dict(zip(FIELDS, (*named, ends.estimate, low, high, len(trials), runs))))
    return lines


def _published(values: list[published.Value], artefact: Artefact) -> list[dict[str, Any]]:
    panels = {"attack_success_rate": "defence_success", "mcc": "mcc", "test_accuracy": "test_accuracy"}
    lines = []
    for value in values:
        _, is_sweep, k = value.column.rpartition(", k = ")
        if not is_sweep or value.metric not in panels or value.value is None:
            continue
        number = value.in_unit("fraction" if value.unit == "percent" else value.unit) or 0.0
        if value.metric == "attack_success_rate":
            number = 1.0 - number
        panel = panels[value.metric]
        population = "effective" if panel == "defence_success" else "all"
        # 50 images a class there
        named = ("published code", "convex_polytope", POOLED, panel, population, int(k), int(k) / 50)
        lines.append(dict(zip(FIELDS, (*named, number, None, None, value.n_runs, None))))
    return lines


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """A panel a quantity that has points; only the population that is shown stands in its label."""
    import seaborn as sns

    shown = _populations(points)
    measured = [p for p in points if p["source"] == "measured"]
    panels = [c.id for c in artefact.columns if any(p["panel"] == c.id for p in measured)] or [
        "defence_success"
    ]
    with styled():
        figure = empty_figure(7.2, 1.0 + 2.25 * len(panels))
        grid = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
        for axes, panel in zip(grid, panels):
            here = [p for p in points if p["panel"] == panel and p["population"] == shown.get(panel, "all")]
            _panel(axes, here)
            axes.set_ylabel(LABELS[panel, shown.get(panel, "all")])
            if panel != "mcc":
                axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
            sns.despine(ax=axes, left=True)
        if not measured:
            grid[0].text(0.5, 0.5, "not run", transform=grid[0].transAxes, ha="center", color=MUTED)
        grid[0].annotate(
            "recommended",
            (2**0.5, 1),
            (0, 3),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="center",
            color=MUTED,
            fontsize=9,
        )
        grid[-1].set_xscale("log")
        ticks = [0.04, 0.1, 0.2, 0.4, 1, 2, 4, 8]
        grid[-1].set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        grid[-1].set_xticks([], minor=True)
        grid[-1].set_xlabel("k / images per class")
        figure.legend(handles=_handles(artefact, points), loc="outside upper left", ncols=3, frameon=False)
    return figure


def _populations(points: list[dict[str, Any]]) -> dict[str, str]:
    """Attacks that work undefended, as in the published code; all attacks where none works."""
    works = any(p["population"] == "effective" and p["source"] == "measured" for p in points)
    return {"defence_success": "effective" if works else "all"}


def _panel(axes: Any, points: list[dict[str, Any]]) -> None:
    import pandas as pd
    import seaborn as sns

    axes.axvspan(*RECOMMENDED, color=SHADE, zorder=0, lw=0)
    for series in dict.fromkeys(p["series"] for p in points if p["source"] == "measured"):
        lines = pd.DataFrame([p for p in points if p["series"] == series and p["source"] == "measured"])
        thin, thick = lines[lines["victim"] != POOLED], lines[lines["victim"] == POOLED]
        colour = COLOURS[series]
        look: dict[str, Any] = {
            "x": "normalised_k",
            "y": "value",
            "color": colour,
            "errorbar": None,
            "ax": axes,
        }
        sns.lineplot(thin, units="victim", estimator=None, lw=0.8, alpha=0.4, zorder=2, legend=False, **look)
        axes.fill_between(thick["normalised_k"], thick["low"], thick["high"], color=colour, alpha=0.15, lw=0)
        sns.lineplot(thick, **_stroke(series), zorder=4, legend=False, **look)
    code = [p for p in points if p["source"] == "published code"]
    if code:
        xs, ys = ([p[name] for p in code] for name in ("normalised_k", "value"))
        axes.plot(xs, ys, color=INK, lw=1.1, ls=(0, (4, 2)), marker=".", markersize=4, zorder=3)
    axes.margins(y=0.08)
    axes.set_xlabel("")


def _stroke(series: str) -> dict[str, Any]:
    """Feature collision is drawn first and broader: where the lines coincide both are seen."""
    first = series == "feature_collision"
    return {"lw": 4.2 if first else 1.8, "marker": "s" if first else "o", "markersize": 8 if first else 5}


def _handles(artefact: Artefact, points: list[dict[str, Any]]) -> list[Any]:
    from matplotlib.lines import Line2D

    there = {p["series"] for p in points if p["source"] == "measured"}
    lines = [
        Line2D([], [], color=COLOURS[row.id], **_stroke(row.id), label=row.title)
        for row in artefact.rows
        if row.id in there
    ]
    dashed = Line2D(
        [], [], color=INK, lw=1.1, ls=(0, (4, 2)), marker=".", label="Published code, convex polytope"
    )
    return [*lines, dashed]
