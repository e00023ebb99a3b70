"""kim2020, figures 4, 9 and 11: NLL of the language models during training; one panel per attention, one line per depth."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from relearn.report import published
from relearn.report.artefacts import Artefact, Row
from relearn.report.figures.over_seeds import bands, by_place, numbers, spread
from relearn.report.figures.panels import panels, runs_of
from relearn.report.figures.style import MUTED, SMALL, apply_style, band, empty_figure, number, sequential
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, select
from relearn.report.views.names import plural
from relearn.studies.l2_attention.claims import recipes

FIELDS = ("panel", "series", "step", "nll", "low", "high", "seeds", "diverged", "recipe", "runs")
BARS = bands
#: reference lines in every panel: cross entropies from the record of the text, by metric name without "_nats", with dash patterns
FLOORS = {"unigram": (0, (6, 3)), "bigram": (0, (1.5, 2))}
PAPER = "paper"
TOP = 1.3  # upper end of the axis as a multiple of the highest reference line, if there is one
MARKERS = "osD^v"  # used in turn, because the colours of neighbouring depths are similar
FEW = 12  # up to this number of evaluations, each has a marker


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per attention, depth and step with the mean over seeds for the recipe that counts, then reference and printed values.

    A run that diverged before its first evaluation has one row without a number, so that the figure can name it.
    """
    found = []
    for row in artefact.rows:
        by_depth: dict[int, list[Run]] = defaultdict(list)
        for column in artefact.columns:
            if row.applies(column.id):
                for run in runs_of(artefact, row, column, evidence, "history.csv"):
                    by_depth[int(run.labels["layers"])].append(run)
        for depth, runs in sorted(by_depth.items()):
            found += _line(artefact, row, depth, *recipes.best(runs))
    if found:
        found += _floors(evidence)
    return found + _printed(artefact)


def _line(artefact: Artefact, row: Row, depth: int, recipe: str, runs: list[Run]) -> list[dict[str, Any]]:
    value = artefact.columns[0].panel["value"]
    by_step = by_place(runs, "history.csv", "step", value, lambda _: True, finite=False)
    lost, folders = sum(run.diverged for run in runs), " ".join(run.folder for run in runs)
    lines: list[tuple[Any, ...]] = [(step, *spread(values)) for step, values in by_step.items()]
    return [
        dict(zip(FIELDS, (row.id, depth, *line, lost, recipe, folders)))
        for line in lines or [(None,) * 4 + (0,)]
    ]


def _floors(evidence: Evidence) -> list[dict[str, Any]]:
    found = []
    for run in select(evidence.runs, {"step": "prepare_ptb_lines"}):
        for name in FLOORS:
            value = run.metrics.get(f"{name}_nats")
            if value is not None:
                found.append(
                    dict(zip(FIELDS, ("", name, None, value, value, value, None, 0, "", run.folder)))
                )
    return found


def _printed(artefact: Artefact) -> list[dict[str, Any]]:
    """The published values, one row each, assigned to a row of the artefact."""
    found = []
    for line in artefact.stated:
        source = artefact.published["paper"]
        title = next(row.published or row.title for row in artefact.rows if row.id == line["row"])
        values = source.values()
        value = published.find(values, row=title, metric=line["metric"])
        if value is not None and value.value is not None:
            found.append(
                dict(zip(FIELDS, (line["row"], PAPER, None, value.value, None, None, None, None, "", None)))
            )
    return found


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Draw all panels with a shared NLL axis; diverged depths are named above the panel, where no curve covers the text."""
    from matplotlib.lines import Line2D

    curves = [point for point in points if isinstance(point["series"], int)]
    floors = {point["series"]: point["nll"] for point in points if point["series"] in FLOORS}
    colours = sequential(sorted({point["series"] for point in curves}))
    with apply_style():
        figure = empty_figure(3.6)
        grid = figure.subplots(1, len(artefact.rows), squeeze=False, sharey=True)[0]
        printed = {p["panel"]: p["nll"] for p in points if p["series"] == PAPER}
        # the line of a panel without curves does not stretch the axis of the others
        beside = [value for panel, value in printed.items() if any(p["panel"] == panel for p in curves)]
        limits = _limits(curves, list(floors.values()), beside)
        marks = {depth: MARKERS[at % len(MARKERS)] for at, depth in enumerate(colours)}
        room = (
            "\n" if any(_lost([p for p in curves if p["panel"] == row.id]) for row in artefact.rows) else ""
        )
        for axes, row, here in panels(grid, artefact.rows, curves, "Training step", lambda one: one + room):
            axes.text(
                0, 1.02, _lost(here), transform=axes.transAxes, fontsize=SMALL, color=MUTED, va="bottom"
            )
            for depth, colour in colours.items():
                line = [p for p in here if p["series"] == depth and p["step"] is not None]
                _curve(axes, line, colour, marks[depth], row.title)
            for name, value in floors.items():
                axes.axhline(value, color=MUTED, lw=1, ls=FLOORS[name], zorder=2)
            axes.set_ylim(limits)
            axes.xaxis.get_major_locator().set_params(integer=True, nbins=4)
        for axes, row in zip(grid, artefact.rows):  # also where nothing ran
            if row.id in printed:
                axes.axhline(printed[row.id], color=MUTED, lw=1, zorder=2)
        of_test = str(artefact.columns[0].panel["value"]).startswith("test")
        grid[0].set_ylabel(f"{'Test' if of_test else 'Training'} NLL, nats per character")
        few = len({point["step"] for point in curves}) <= FEW
        counts = numbers(curves)
        handles = [
            Line2D(
                [],
                [],
                color=colour,
                lw=2,
                marker=marks[depth] if few else None,
                ms=4,
                label=f"{depth}{counts[depth]}",
            )
            for depth, colour in colours.items()
        ]
        if handles:
            figure.legend(handles=handles, loc="outside center right", title="Layers", frameon=False)
        handles = [
            Line2D([], [], color=MUTED, lw=1, ls=FLOORS[name], label=name.capitalize()) for name in floors
        ]
        for stated in artefact.stated if curves and printed else ():
            hidden = printed[stated["row"]] < limits[0]
            label = stated["words"] + (", below the axis" if hidden else "")
            handles.append(Line2D([], [], color=MUTED, lw=1, ls="" if hidden else "-", label=label))
        if handles:
            figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False)
    return figure


def _limits(curves: list[dict[str, Any]], floors: list[float], printed: list[float]) -> tuple[float, float]:
    """Axis limits for the curves without diverged runs and for the reference lines, so that exploding curves do not hide the rest.

    The limits include a printed value unless that would leave most of the axis empty.
    """
    drawn = [p for p in curves if p["step"] is not None]
    sound = [p for p in drawn if not p["diverged"]] or drawn
    low = min([p["low"] for p in sound] + floors, default=0.0)
    high = max([p["high"] for p in sound] + floors, default=1.0)
    low = min([low, *(value for value in printed if low - value < high - low)])
    if floors:
        high = min(high, TOP * max(floors))
    edge = 0.06 * (high - low) or 0.1
    return low - edge, high + edge


def _curve(axes: Any, points: list[dict[str, Any]], colour: Any, marker: str, title: str) -> None:
    steps, values = ([p[name] for p in points] for name in ("step", "nll"))
    band(axes, points, "step", colour, 0.2)
    shown = marker if len(points) <= FEW else None
    axes.plot(steps, values, color=colour, lw=1.4, marker=shown, ms=3.5, zorder=3)
    for last in points[-1:]:
        value = number(last["nll"], last["low"], last["high"])
        says = (
            f"{title}, {plural(last['series'], 'layer')}: {value} nats after {plural(last['step'], 'step')}"
        )
        axes.figure.mark(axes, last["step"], last["nll"], last, f"{says}, {plural(last['seeds'], 'seed')}")


def _lost(points: list[dict[str, Any]]) -> str:
    """The diverged depths, e.g. ``12, 14 layers diverged``; "" if there are none."""
    lost = [
        depth
        for depth in dict.fromkeys(p["series"] for p in points)
        if any(p["diverged"] for p in points if p["series"] == depth)
    ]
    if not lost:
        return ""
    return f"{', '.join(map(str, lost))} layer{'s' if lost != [1] else ''} diverged"
