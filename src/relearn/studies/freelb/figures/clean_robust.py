"""Effect of adversarial training on clean performance: clean against robust accuracy on images, change of the score per text task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relearn.report.artefacts import Artefact
from relearn.report.classified import guess
from relearn.report.figures.over_seeds import ends, spread
from relearn.report.figures.panels import empty
from relearn.report.figures.style import (
    COLOURS,
    INK,
    MUTED,
    SMALL,
    apply_style,
    chance_line,
    empty_figure,
    in_percent,
    number,
)
from relearn.report.quantities import Evidence
from relearn.report.runs import select
from relearn.report.seeds import sample
from relearn.report.views.names import plural
from relearn.studies.freelb.claims import scores as scores_of

FIELDS = (
    *("panel", "series", "place", "seed", "x", "x_low", "x_high", "y", "y_low", "y_high"),
    *("seeds", "counts", "held_out", "chance", "runs"),
)
NAMES_NETWORKS = True
NOTE = "large marker: mean, small: single seeds"
IMAGES, TEXTS = "images", "texts"
REFERENCE = "vanilla"
MARKS = "soD^"
COLOUR = (MUTED, *(COLOURS[name] for name in ("start", "bullseye_polytope", "gradinit")))
CLEAN = "train_images_adversarially.acc_frac"
NAMES = {
    "rte": "RTE",
    "cola": "CoLA",
    "mrpc": "MRPC",
    "sst2": "SST-2",
    "stsb": "STS-B",
    "qnli": "QNLI",
    "qqp": "QQP",
    "mnli": "MNLI",
    "wnli": "WNLI",
    "imdb": "IMDb",
    "acceptability": "Acceptability",
}


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per seed and one with their mean and its ends (empty seed): clean and robust accuracy, or the change of a task's score.

    A change is a score minus that of vanilla training with the same seed: the score that decides the claims, on held-out samples if the
    task has them (``held_out`` 1), otherwise on those that chose rates and checkpoints. ``counts`` is 0 for a task that vanilla training
    does not learn.
    """
    robust = artefact.columns[0].quantity
    found: list[dict[str, Any]] = []
    level = guess(evidence)
    for row in artefact.rows:
        where = {"study": artefact.study, **row.where}
        both = [sample(evidence, name, where, network=row.id) for name in (CLEAN, robust)]
        seeds = sorted(both[0].values.keys() & both[1].values.keys())
        pairs = [[one.values[seed] for one in both] for seed in seeds]
        rows = _rows(IMAGES, row.id, "", seeds, pairs, True, both[0].runs)
        found += [{**point, "chance": level} for point in rows]
    there = {run.labels["task"] for run in select(evidence.runs, artefact.columns[1].where)}
    for task in (task for task in NAMES if task in there):
        scores = {row.id: scores_of.score(evidence, task, row.where["method"]) for row in artefact.rows}
        apart = int(scores_of.held_out(evidence, task))
        base = scores.pop(REFERENCE)
        for name, one in scores.items():
            seeds = sorted(one.values.keys() & base.values.keys())
            gaps = [[one.values[seed] - base.values[seed]] for seed in seeds]
            runs = (*base.runs, *one.runs)
            rows = _rows(TEXTS, name, task, seeds, gaps, scores_of.counts(evidence, task), runs)
            found += [{**point, "held_out": apart} for point in rows]
    return found


def whiskers(_: Artefact, points: Sequence[Mapping[str, Any]]) -> str:
    return ends(points, "whiskers")


BARS = whiskers


def _rows(
    panel: str,
    series: str,
    place: str,
    seeds: Sequence[int],
    values: Sequence[Sequence[float]],
    counts: bool,
    runs: Sequence[str],
) -> list[dict[str, Any]]:
    if not seeds:
        return []
    named = {**dict.fromkeys(FIELDS), "panel": panel, "series": series, "place": place}
    named |= {"counts": int(counts), "runs": " ".join(runs)}
    rows = [{**named, "seed": seed, **dict(zip("xy", row))} for seed, row in zip(seeds, values)]
    mean: dict[str, Any] = {**named, "seeds": len(seeds)}
    bounds = (0.0, 1.0) if panel == IMAGES else ()
    for axis, column in zip("xy", zip(*values)):
        mean[axis], mean[f"{axis}_low"], mean[f"{axis}_high"], _ = spread(column, *bounds)
    return [*rows, mean]


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Draw the panels that have points, or both without any, with one legend of the methods."""
    from matplotlib.lines import Line2D
    from seaborn import despine

    looks = dict(zip((row.id for row in artefact.rows), zip(COLOUR, MARKS)))
    titles = {row.id: row.title for row in artefact.rows}
    tasks = list(dict.fromkeys(point["place"] for point in points if point["panel"] == TEXTS))
    measured = {point["panel"] for point in points} or {IMAGES, TEXTS}
    columns = [column for column in artefact.columns if column.id in measured]
    with apply_style():
        figure = empty_figure(max(3.7, 1.7 + 0.42 * len(tasks)))
        grid = figure.subplots(1, len(columns), squeeze=False, width_ratios=(1, 1.25)[: len(columns)])
        for axes, column in zip(grid[0], columns):
            here = [point for point in points if point["panel"] == column.id]
            axes.set_title(column.title)
            despine(ax=axes, left=column.id == TEXTS)
            if not here:
                empty(axes)
            elif column.id == IMAGES:
                _images(axes, here, looks, titles)
            else:
                _texts(axes, here, looks, titles, tasks)
        if points:
            there = {point["series"] for point in points}
            handles = [
                Line2D([], [], color=colour, ls="", marker=mark, ms=7, label=titles[name])
                for name, (colour, mark) in looks.items()
                if name in there
            ]
            figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False)
    return figure


Looks = Mapping[str, tuple[str, str]]


def _images(axes: Any, points: Sequence[Mapping[str, Any]], looks: Looks, titles: Mapping[str, str]) -> None:
    for point in points:
        colour, mark = looks[point["series"]]
        if point["seed"] is not None:
            axes.plot(point["x"], point["y"], mark, color=colour, ms=3.5, alpha=0.45, mew=0, zorder=3)
            continue
        axes.plot([point["x_low"], point["x_high"]], [point["y"]] * 2, color=colour, lw=1.1, zorder=2)
        axes.plot([point["x"]] * 2, [point["y_low"], point["y_high"]], color=colour, lw=1.1, zorder=2)
        axes.plot(point["x"], point["y"], mark, color=colour, ms=8, mec="white", mew=0.8, zorder=4)
        clean, robust = (
            number(point[axis], point[f"{axis}_low"], point[f"{axis}_high"], percent=True) for axis in "xy"
        )
        says = f"{titles[point['series']]}: clean {clean}, robust {robust}, {plural(point['seeds'], 'seed')}"
        axes.figure.mark(axes, point["x"], point["y"], point, says)
    axes.set(xlabel="Clean accuracy", ylabel="Robust accuracy")
    axes.margins(0.12)
    chance_line(axes, points, x=0)
    in_percent(axes.xaxis)
    in_percent(axes.yaxis)


def _texts(
    axes: Any,
    points: Sequence[Mapping[str, Any]],
    looks: Looks,
    titles: Mapping[str, str],
    tasks: Sequence[str],
) -> None:
    """Draw the tasks from top to bottom, with the methods of a task one below the other."""
    series = [name for name in looks if name != REFERENCE]
    for point in points:
        colour, mark = looks[point["series"]]
        y = tasks.index(point["place"]) + 0.2 * (series.index(point["series"]) - (len(series) - 1) / 2)
        inside = colour if point["counts"] else "white"
        if point["seed"] is not None:
            axes.plot(100 * point["x"], y, mark, color=colour, ms=3.2, alpha=0.45, mew=0, zorder=3)
            continue
        axes.plot([100 * point["x_low"], 100 * point["x_high"]], [y, y], color=colour, lw=1.1, zorder=2)
        edge = "white" if point["counts"] else colour
        axes.plot(100 * point["x"], y, mark, color=colour, mfc=inside, mec=edge, ms=7, mew=0.9, zorder=4)
        change = number(100 * point["x"], 100 * point["x_low"], 100 * point["x_high"])
        says = f"{titles[point['series']]}, {NAMES[point['place']]}: {change} points, {plural(point['seeds'], 'seed')}"
        axes.figure.mark(axes, 100 * point["x"], y, point, says)
    _absent(axes, {(point["place"], point["series"]) for point in points}, titles, tasks, series)
    axes.axvline(0, color=INK, lw=1, zorder=1)
    apart = {point["place"] for point in points if point["held_out"]}
    names = [NAMES[task] + ("" if task in apart or not apart else "\n(dev)") for task in tasks]
    axes.set_yticks(range(len(tasks)), names)
    axes.set_ylim(len(tasks) - 0.45, -0.55)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"{'Held-out' if apart else 'Dev'} score minus vanilla training's, in points")


def _absent(
    axes: Any,
    there: set[tuple[str, str]],
    titles: Mapping[str, str],
    tasks: Sequence[str],
    series: Sequence[str],
) -> None:
    """Name the methods not run on a task, at the right end of the task's line."""
    for at, task in enumerate(tasks):
        if gone := [titles[name] for name in series if (task, name) not in there]:
            place: Any = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "center"}
            axes.text(1.0, at + 0.38, f"not run: {', '.join(gone)}", color=MUTED, fontsize=SMALL, **place)
