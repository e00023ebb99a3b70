"""zhu2022, figure 4.3: BLEU by peak learning rate and beta2, one map per initialisation; measured values above, printed values below.

Both numbers are read from the name of the recipe (``adam_lr0.0002_b0.98``), so the figure also works for a scale whose rates differ
from the paper's.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from relearn.report import published
from relearn.report.artefacts import Artefact
from relearn.report.figures.style import INK, SHADE, apply_style, empty_figure, not_run
from relearn.report.quantities import Evidence, quantity
from relearn.report.runs import Run
from relearn.report.views.names import plural

FIELDS = ("source", "series", "lr", "beta2", "bleu", "seeds", "diverged", "runs")
NOTE = "numbers: BLEU; upper and lower maps have different colour scales"
RECIPE = re.compile(r"adam_lr(?P<lr>[0-9.e-]+)_b(?P<beta2>[0-9.]+)")
TOP = 40.0  # upper end of the colour scale of the printed maps; measured maps end at their largest value


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per source (measured or printed), initialisation, rate and beta2; measured values are means over seeds."""
    return _measured_cells(artefact, evidence) + _printed(artefact)


def _measured_cells(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    name = artefact.columns[0].quantity
    metric = str(quantity(name).metric)
    found = []
    for row in artefact.rows:
        cells: dict[tuple[float, float], list[Run]] = defaultdict(list)
        for run in evidence.of(name, row.where):
            parts = RECIPE.fullmatch(run.labels["recipe"])
            if parts:
                cells[float(parts["lr"]), float(parts["beta2"])].append(run)
        for (lr, beta2), runs in sorted(cells.items()):
            values = [float(v) for run in runs if (v := run.metrics.get(metric)) is not None]
            mean = sum(values) / len(values) if values else None
            lost, folders = sum(run.diverged for run in runs), " ".join(run.folder for run in runs)
            found.append(dict(zip(FIELDS, ("measured", row.id, lr, beta2, mean, len(runs), lost, folders))))
    return found


def _printed(artefact: Artefact) -> list[dict[str, Any]]:
    source = artefact.published["paper"]
    values = source.values()
    found = []
    for row in artefact.rows:
        for column in artefact.columns:
            value = published.find(
                values,
                row=row.published or row.title,
                metric=str(column.published_metric),
                column=column.published_column,
            )
            if value is not None and value.value is not None:
                place = (column.panel["lr"], column.panel["beta2"])
                found.append(
                    dict(zip(FIELDS, ("paper", row.id, *place, value.value, value.n_runs, None, None)))
                )
    return found


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """One row of maps per source, with the value in every cell."""
    with apply_style():
        figure = empty_figure(4.8)
        grid = figure.subplots(2, len(artefact.rows), squeeze=False)
        for line, source, words in ((grid[0], "measured", "here"), (grid[1], "paper", "as printed")):
            mine = [point for point in points if point["source"] == source]
            known = [point["bleu"] for point in mine if point["bleu"] is not None]
            top = TOP if source == "paper" else max([1.0, *known])
            for axes, row in zip(line, artefact.rows):
                axes.set_title(f"{row.title}, {words}")
                axes.grid(visible=False)
                here = [point for point in mine if point["series"] == row.id]
                if not here:
                    axes.set(xticks=[], yticks=[], frame_on=False)
                    not_run(axes)
                    continue
                rates, betas = (sorted({p[name] for p in mine}) for name in ("lr", "beta2"))
                _map(axes, f"{row.title}, {words}", here, rates, betas, top)
            line[0].set_ylabel("Largest learning rate")
        for axes in grid.flat:
            axes.set_xlabel("β₂")
    return figure


def _map(
    axes: Any, title: str, points: list[dict[str, Any]], rates: list[float], betas: list[float], top: float
) -> None:
    from matplotlib.patches import Rectangle
    from seaborn import color_palette

    colours = color_palette("crest", as_cmap=True)
    found = {(point["lr"], point["beta2"]): point for point in points}
    for y, rate in enumerate(rates):
        for x, beta in enumerate(betas):
            point = found.get((rate, beta))
            share = None if point is None or point["bleu"] is None else point["bleu"] / top
            face = SHADE if share is None else colours(share)
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=face, edgecolor="white", lw=1.5))
            ink = "white" if share is not None and share > 0.45 else INK
            axes.text(x, y, _words(point), ha="center", va="center", color=ink)
            if point is not None:
                bleu = _words(point).replace("\n", ", ")
                seeds = plural(point["seeds"], "run") if point["seeds"] else ""
                words = f"{title}, rate {_rate(rate)}, β₂ {beta:g}: BLEU {bleu}"
                axes.figure.mark(axes, x, y, point, ", ".join(filter(None, (words, seeds))))
    axes.set(xlim=(-0.5, len(betas) - 0.5), ylim=(len(rates) - 0.5, -0.5))
    axes.set_xticks(range(len(betas)), [f"{beta:g}" for beta in betas])
    axes.set_yticks(range(len(rates)), [_rate(rate) for rate in rates])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _rate(value: float) -> str:
    mantissa, _, exponent = f"{value:.6e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def _words(point: dict[str, Any] | None) -> str:
    if point is None:
        return "not run"
    lost = f"\n{point['diverged']} diverged" if point["diverged"] else ""
    return f"{point['bleu']:.1f}{lost}" if point["bleu"] is not None else lost.strip() or "no value"
