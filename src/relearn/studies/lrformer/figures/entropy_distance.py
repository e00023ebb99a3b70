"""ye2023, our addition: predictive entropy along rays that leave the data; one panel per space and depth, one line per variant."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from relearn.report.artefacts import Artefact, Column, Row
from relearn.report.figures.over_seeds import hatched_bands, numbers, spread
from relearn.report.figures.panels import by_column, in_lines, panels, runs_of, with_points
from relearn.report.figures.style import HATCH, SMALL, apply_style, band, empty_figure, in_percent
from relearn.report.quantities import Evidence
from relearn.studies.lrformer.figures.heads import stroke

FIELDS = ("panel", "series", "distance", "entropy_share", "low", "high", "variance", "seeds", "runs")
BARS = hatched_bands


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per panel, variant and distance: entropy relative to its maximum, mean and interval (or range) over seeds; mean variance."""
    return by_column(_line, artefact, evidence)


def _line(artefact: Artefact, row: Row, column: Column, evidence: Evidence) -> list[dict[str, Any]]:
    runs = [run for run in runs_of(artefact, row, column, evidence, "distance.csv") if not run.diverged]
    shares: dict[float, list[float]] = defaultdict(list)
    spreads: dict[float, list[float]] = defaultdict(list)
    for run in runs:
        for line in run.rows("distance.csv"):
            if line["space"] == column.panel["space"]:
                shares[float(line["distance"])].append(float(line["entropy_max_share"]))
                if line["variance"] is not None:
                    spreads[float(line["distance"])].append(float(line["variance"]))
    folders = " ".join(run.folder for run in runs)
    return [
        dict(
            zip(
                FIELDS,
                (
                    *(column.id, row.id, distance, *spread(values, 0.0, 1.0)[:3]),
                    *(_mean(spreads[distance]), len(values), folders),
                ),
            )
        )
        for distance, values in sorted(shares.items())
    ]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """All panels share one axis, from 0 to the entropy of a uniform prediction; distances are on a log axis that includes 0."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import NullLocator

    columns = with_points(artefact.columns, points)
    with apply_style():
        figure = empty_figure(3.5)
        grid = figure.subplots(1, len(columns), squeeze=False, sharey=True)[0]
        for axes in grid:
            axes.set_ylim(-0.03, 1.03)
            in_percent(axes.yaxis)
        for axes, _, here in panels(grid, columns, points, "", in_lines):
            for row in artefact.rows:
                line = [point for point in here if point["series"] == row.id]
                xs, ys = ([p[k] for p in line] for k in ("distance", "entropy_share"))
                look = stroke(row.id)
                hatch = "" if look["ls"] == "-" else HATCH
                band(axes, line, "distance", look["color"], zorder=1, hatch=hatch)
                axes.plot(xs, ys, zorder=3, clip_on=False, **look)
            distances = sorted({point["distance"] for point in here})
            nearest = next((value for value in distances if value > 0), 1.0)
            # a symmetric log axis: linear from 0 to the first other distance, where it sets 0 apart
            axes.set_xlabel(f"Distance, σ (log scale\nfrom {nearest:g} on, 0 set apart)")
            axes.set_xscale("symlog", base=2, linthresh=nearest, linscale=0.7)
            axes.set_xticks(distances, [f"{value:g}" for value in distances], fontsize=SMALL)
            axes.xaxis.set_minor_locator(NullLocator())
        grid[0].set_ylabel("Entropy, share of its maximum")
        there = {point["series"] for point in points}
        rows = [row for row in artefact.rows if row.id in there]
        counts = numbers(points)
        handles = [Line2D([], [], label=row.title + counts[row.id], **stroke(row.id)) for row in rows]
        if handles:
            figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False)
    return figure
