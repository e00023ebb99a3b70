"""zhu2022, figure 5.3: ratio of the norms of window keys to compressed keys by layer, and validation loss during training.

Each stream has one colour. Solid lines and filled markers: with DualLN; dashed lines and hollow markers: without. Ratios of the values
are dotted with square markers, filled or hollow in the same way.
"""

from __future__ import annotations

from typing import Any

from relearn.report.artefacts import Artefact, Row
from relearn.report.figures.over_seeds import by_place, hatched_bands, numbers, spread
from relearn.report.figures.panels import empty
from relearn.report.figures.style import COLOURS, HATCH, MUTED, apply_style, band, empty_figure, number
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, select
from relearn.report.views.names import plural

FIELDS = ("panel", "series", "of", "place", "value", "low", "high", "seeds", "diverged", "runs")
BARS = hatched_bands
RATIOS, LOSS = "ratios", "loss"
KEYS, VALUES = "keys", "values"
RATIO_OF = {KEYS: "ratio", VALUES: "value_ratio"}
COLOUR = dict(
    zip(
        ("enwik8", "text8", "imagenet", "warandpeace", "pydoc_topics", "own_text"),
        (
            COLOURS[name]
            for name in ("start", "gradinit", "bullseye_polytope", "gradient_matching", "multi_layer")
        ),
    )
)
DASHED, DOTTED = (0, (4, 2)), ":"
HATCHES = {
    DASHED: HATCH,
    DOTTED: HATCH.replace("/", "\\"),
}  # keys without DualLN and values lie on each other
FEW = 20  # lines with at most this many points get markers


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per panel, model and layer or step: mean and interval (or range) over seeds.

    Steps are counted across phases. Each diverged run gets its own line.
    """
    found: list[dict[str, Any]] = []
    for row in artefact.rows:
        runs = select(evidence.runs, artefact.common, row.where)
        if row.applies(RATIOS):
            for of, name in RATIO_OF.items():
                values = by_place(runs, "norms.csv", "layer", name, lambda one: one["moment"] == "start")
                found += _rows((RATIOS, row.id, of), values, runs, 0)
        if row.applies(LOSS):
            lost = [run for run in runs if run.diverged]
            for line in ([run for run in runs if not run.diverged], *([run] for run in lost)):
                values = by_place(line, "history.csv", "step", "valid_bits", lambda _: True)
                found += _rows((LOSS, row.id, ""), values, line, int(any(run.diverged for run in line)))
    return found


def _rows(
    named: tuple[str, str, str], values: dict[float, list[float]], runs: list[Run], lost: int
) -> list[dict[str, Any]]:
    folders = " ".join(run.folder for run in runs)
    return [
        dict(zip(FIELDS, (*named, place, *spread(several), lost, folders)))
        for place, several in values.items()
    ]


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Draw ratios on the left and the loss on the right; the legend lists the models that were run."""
    from matplotlib.lines import Line2D
    from seaborn import despine

    there = {point["series"] for point in points}
    rows = [row for row in artefact.rows if row.id in there]
    with apply_style():
        figure = empty_figure(4.1)
        figure.get_layout_engine().set(w_pad=0.09)
        for axes, column in zip(figure.subplots(1, len(artefact.columns)), artefact.columns):
            here = [point for point in points if point["panel"] == column.id]
            axes.set_title(column.title)
            despine(ax=axes, left=True)
            axes.set_xlabel("Layer" if column.id == RATIOS else "Step")
            if not here:
                empty(axes)
                continue
            if column.id == RATIOS:
                axes.axhline(1.0, color=MUTED, lw=0.8, zorder=1)
                axes.set_ylabel("Ratio of norms")
            else:
                axes.set_ylabel("Bits per character")
            for row in rows:
                _curves(axes, row, [point for point in here if point["series"] == row.id])
            axes.xaxis.get_major_locator().set_params(integer=True, nbins=8)
        # the legend is filled column by column: each model's keys next to its values
        counts = numbers(point for point in points if not point["diverged"])
        handles = [Line2D([], [], **_stroke(row), label=_label(row, points) + counts[row.id]) for row in rows]
        handles += [
            Line2D([], [], **_stroke(row, VALUES), label=f"{row.title}: values")
            for row in rows
            if _has_values(row, points)
        ]
        if handles:
            figure.legend(handles=handles, loc="outside upper left", ncols=2, frameon=False, handlelength=2.8)
    return figure


def _has_values(row: Row, points: list[dict[str, Any]]) -> bool:
    return any(point["of"] == VALUES and point["series"] == row.id for point in points)


def _label(row: Row, points: list[dict[str, Any]]) -> str:
    """Legend label of a line that is not dotted: keys in the left panel, loss in the right one."""
    parts = [name for name, panel in (("keys", RATIOS), ("loss", LOSS)) if _in(row, panel, points)]
    return f"{row.title}: {', '.join(parts)}"


def _in(row: Row, panel: str, points: list[dict[str, Any]]) -> bool:
    return any(point["panel"] == panel and point["series"] == row.id for point in points)


def _stroke(row: Row, of: str = KEYS) -> dict[str, Any]:
    dataset, _, variant = row.id.partition("/")
    plain = variant == "no_dual_norm"
    look = {"color": COLOUR.get(dataset, MUTED), "lw": 1.5, "ms": 4.2, "marker": "o"}
    look["mfc"] = "white" if plain else look["color"]
    if of == VALUES:
        return {**look, "ls": DOTTED, "lw": 1.2, "marker": "s"}
    return {**look, "ls": DASHED if plain else "-"}


def _curves(axes: Any, row: Row, points: list[dict[str, Any]]) -> None:
    for of, runs in dict.fromkeys((point["of"], point["runs"]) for point in points):
        line = [point for point in points if (point["of"], point["runs"]) == (of, runs)]
        places, values = ([p[name] for p in line] for name in ("place", "value"))
        stroke = _stroke(row, of)
        if len(line) > FEW:
            stroke["marker"] = None
        band(axes, line, "place", stroke["color"], hatch=HATCHES.get(stroke["ls"], ""))
        axes.plot(places, values, zorder=3, **stroke)
        for point in line if len(line) <= FEW else line[-1:]:
            value = number(point["value"], point["low"], point["high"])
            at = (
                f"{of}, layer {point['place']:g}: {value}" if of else f"step {point['place']:g}: {value} bits"
            )
            says = f"{row.title}, {at}, {plural(point['seeds'], 'seed')}"
            axes.figure.mark(axes, point["place"], point["value"], point, says)
        if line[0]["diverged"]:
            axes.plot(places[-1], values[-1], marker="X", ms=8, color=stroke["color"], zorder=4)
