"""ye2023, our addition: accuracy against confidence; one panel per depth, one line per variant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from relearn.report.artefacts import Artefact, Column, Row
from relearn.report.classified import guess
from relearn.report.figures.over_seeds import INTERVAL, LEAST, spread
from relearn.report.figures.panels import by_column, panels, runs_of, with_points
from relearn.report.figures.style import MUTED, apply_style, chance_line, empty_figure, in_percent, number
from relearn.report.quantities import Evidence
from relearn.report.statistics import wilson
from relearn.report.views.names import plural
from relearn.studies.lrformer.figures.heads import stroke

FIELDS = (
    *("panel", "series", "bin", "confidence", "accuracy", "low", "high", "samples", "share", "chance"),
    *("interval", "seeds", "runs"),
)
NOTE = "area of a marker: its bin's share of the samples; lines side by side, each a little shifted"
APART = 0.011  # distance between two lines, in units of the confidence
STUDENT, WILSON = "student", "wilson"
DIAGONAL = (0, (6, 3))
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
SMALLEST = 0.005  # share of all samples; smaller bins are not drawn, because their accuracy is too noisy


def bars(_: Artefact, points: Sequence[Mapping[str, Any]]) -> str:
    """The seeds share their test images, so only their spread says how accurate their mean is; one seed's images say less."""
    words = {STUDENT: INTERVAL, WILSON: "Wilson's 95% interval over one seed's images of a bin"}
    drawn = [point["interval"] for point in points if point["share"] >= SMALLEST]
    return (
        f"bars: {', with fewer seeds or equal accuracies '.join(words[one] for one in words if one in drawn)}"
    )


BARS = bars


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per panel, variant and non-empty bin: means over the seeds with samples in it; ``share`` is its share of all samples."""
    return by_column(_line, artefact, evidence)


def _line(artefact: Artefact, row: Row, column: Column, evidence: Evidence) -> list[dict[str, Any]]:
    runs = [run for run in runs_of(artefact, row, column, evidence, "calibration.csv") if not run.diverged]
    bins: dict[int, list[tuple[float, ...]]] = defaultdict(list)
    for run in runs:
        for line in run.rows("calibration.csv"):
            if line["samples"]:
                values = (line[name] for name in ("samples", "confidence", "accuracy"))
                bins[line["bin"]].append(tuple(map(float, values)))
    total, folders = sum(one[0] for of in bins.values() for one in of), " ".join(run.folder for run in runs)
    level = guess(evidence)
    found = []
    for at, of in sorted(bins.items()):
        samples, confidences, accuracies = zip(*of)
        count, confidence = sum(samples), sum(confidences) / len(of)
        accuracy, low, high, seeds = spread(accuracies, 0.0, 1.0)
        kind = STUDENT if seeds >= LEAST and low < high else WILSON
        if kind == WILSON:
            each = max(1, round(count / seeds))
            rate = wilson(accuracy * each, each)
            low, high = rate.low, rate.high
        ends = (confidence, accuracy, low, high, int(count), count / total, level, kind, seeds)
        found.append(dict(zip(FIELDS, (column.id, row.id, at, *ends, folders))))
    return found


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """A network is calibrated on the diagonal and overconfident below it. The area of a point shows its bin's share of the samples."""
    from matplotlib.lines import Line2D

    columns = with_points(artefact.columns, points)
    with apply_style():
        figure = empty_figure(4.3)
        grid = figure.subplots(1, len(columns), squeeze=False, sharey=True)[0]
        drawn = [point for point in points if point["share"] >= SMALLEST]
        there = {point["series"] for point in points}
        rows = [row for row in artefact.rows if row.id in there]
        for axes, column, here in panels(grid, columns, drawn, "Confidence of the prediction"):
            axes.plot([0, 1], [0, 1], color=MUTED, lw=1, ls=DIAGONAL, zorder=2)
            for rank, row in enumerate(rows):
                line = [p for p in here if p["series"] == row.id]
                look = stroke(row.id)
                shift = APART * (rank - (len(rows) - 1) / 2)
                xs, ys = [p["confidence"] + shift for p in line], [p["accuracy"] for p in line]
                axes.plot(xs, ys, color=look["color"], lw=1.2, ls=look["ls"], zorder=3)
                axes.vlines(
                    xs,
                    [p["low"] for p in line],
                    [p["high"] for p in line],
                    color=look["color"],
                    lw=0.8,
                    alpha=0.6,
                )
                areas = [10 + 140 * p["share"] for p in line]
                face = look.get("mfc", look["color"])
                axes.scatter(
                    xs,
                    ys,
                    areas,
                    marker=look["marker"],
                    facecolor=face,
                    edgecolor=look["color"],
                    lw=1.2,
                    zorder=4,
                )
                for x, point in zip(xs, line):
                    value = number(point["accuracy"], point["low"], point["high"], percent=True)
                    sure = number(point["confidence"], percent=True)
                    says = f"{row.title}, {column.title}: accuracy {value} at confidence {sure}"
                    axes.figure.mark(
                        axes,
                        x,
                        point["accuracy"],
                        point,
                        f"{says}, {plural(point['samples'], 'sample')}",
                    )
            axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xticks=TICKS)
            chance_line(axes, here)
            in_percent(axes.xaxis)
            in_percent(axes.yaxis)
        grid[0].set_ylabel("Accuracy")
        handles = [Line2D([], [], label=row.title, **stroke(row.id)) for row in rows]
        handles.append(Line2D([], [], color=MUTED, lw=1, ls=DIAGONAL, label="Calibrated"))
        figure.legend(handles=handles, loc="outside upper left", ncols=5, frameon=False)
    return figure
