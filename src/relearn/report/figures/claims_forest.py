"""Forest plot of all claims at one scale, grouped by study: verdict, effect and interval on one axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from relearn.report import claims_formats as formats
from relearn.report import distance, figures
from relearn.report import verdict_words as words
from relearn.report.claims import Claim
from relearn.report.comparisons import Comparison
from relearn.report.designs import Design
from relearn.report.figures import style

NAME = "claims_forest"
FIELDS = (
    *(
        "study",
        "claim",
        "kind",
        "verdict",
        "provisional",
        "corrected",
        "comparison",
        "effect",
        "low",
        "high",
        "unit",
        "bound",
        "claimed",
    ),
    *("distance", "distance_low", "distance_high", "shown"),
)
CAPTION = (
    "Every claim with its verdict. The axis is the distance of the effect from the claim's bound, divided by the effect that the "
    "source states or, where it states none, by the smallest effect of interest of the claim's design: 0 is the bound, 1 the claimed "
    "effect. An interval wholly right of 0 reproduces the claim, unless the claim is underpowered. A ratio is taken by its logarithm; "
    "of a claimed range 1 is the middle and 0 its ends. Bars are 95% intervals of the comparison that decides; arrows lead out of the "
    "picture; a single seed has no "
    "interval. Exact claims, and claims without a stated effect or without a run, show the verdict "
    "alone. A half-filled mark is provisional. Checks of theorems have a mark of their own and are not among the claims."
)
AXIS = "distance from the claim's threshold, in claimed effects"
REACH = 3.0
"""The axis ends at so many claimed effects on both sides."""
MARKS = {
    "reproduced": ("o", True),
    "direction": (">", True),
    "inconclusive": ("D", True),
    "identical": ("s", False),
    "contradicted": ("X", True),
    "partial": ("h", False),
    "underpowered": ("v", False),
    "not_run": ("_", True),
}
"""Marker and filling of each verdict, whose colour is in :data:`relearn.report.verdict_words.COLOURS`: each has a marker of its own."""
PROVISIONAL_MEANS = "some runs, trials or model quality are missing, or it holds for these victims only"
CHECK = ("P", True)
CHECK_MEANS = "a theorem, so only an error in the code can make it fail; not among the claims"
LINE = 0.185  # inches


def write(claims: Sequence[Claim], designs: Mapping[str, Mapping[str, Design]], folder: Path) -> list[Path]:
    """Draw the claims of one scale into ``claims_forest.{csv,png,pdf}`` in a folder."""
    plotted = points(claims, designs)
    return figures.write(draw(plotted), plotted, FIELDS, folder / NAME)


def points(claims: Iterable[Claim], designs: Mapping[str, Mapping[str, Design]]) -> list[dict[str, Any]]:
    """One point per claim with the keys FIELDS; values are None if there is no effect, or no axis for it."""
    return [_point(claim, designs.get(claim.section, {}).get(claim.id)) for claim in claims]


def _point(claim: Claim, design: Design | None) -> dict[str, Any]:
    main = claim.main
    found: dict[str, Any] = dict.fromkeys(FIELDS)
    named = {"study": claim.section, "claim": claim.id, "kind": claim.kind, "verdict": claim.verdict}
    found |= named
    found |= {"provisional": int(claim.provisional), "corrected": claim.corrected}
    found["shown"] = formats.effect(main) or words.label(claim.verdict)
    if not isinstance(main, Comparison):
        return found
    measure = design.measure(main.name, main.unit) if design else None
    ends = main.interval
    found |= {"comparison": main.name, "effect": ends.estimate, "unit": main.unit, "bound": str(main.claimed)}
    found |= {
        "low": _finite(ends.low),
        "high": _finite(ends.high),
        "claimed": measure.claimed if measure else None,
    }
    axis = distance.scale(main, measure)
    if axis:
        low, high = axis.interval(ends.low, ends.high)
        found |= {
            "distance": axis.of(ends.estimate),
            "distance_low": _finite(low),
            "distance_high": _finite(high),
        }
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def draw(plotted: Sequence[Mapping[str, Any]]) -> Any:
    """The figure: one line per claim, under the name of its study."""
    studies = list(dict.fromkeys(point["study"] for point in plotted))
    lines = len(plotted) + len(studies)
    with style.apply_style():
        figure = style.empty_figure(2.5 + LINE * lines)
        axes = figure.subplots()
        axes.axvline(0.0, color=style.INK, linewidth=0.9)
        axes.axvline(1.0, color=style.INK, linewidth=0.9, linestyle=(0, (4, 3)))
        labels: list[str] = []
        for study in studies:
            labels.append(study)
            for point in (point for point in plotted if point["study"] == study):
                _line(axes, len(labels), point)
                labels.append(point["claim"])
        axes.set(xlim=(-REACH, REACH), ylim=(lines - 0.4, -0.6), xlabel=AXIS)
        axes.set_yticks(range(lines), labels, fontsize=style.SMALL)
        for label in axes.get_yticklabels():
            label.set_fontweight("bold" if label.get_text() in studies else "normal")
        axes.tick_params(axis="y", length=0, pad=22)
        axes.grid(axis="y", visible=False)
        for x, side, words_there in (
            (-0.1, "right", "against the claim ◄"),
            (0.1, "left", "► for the claim"),
        ):
            above = axes.get_xaxis_transform()
            axes.text(x, 1.005, words_there, transform=above, ha=side, va="bottom")
        axes.text(
            1.03,
            1.005,
            "effect [95% interval]",
            transform=axes.transAxes,
            va="bottom",
            fontsize=style.SMALL,
            color=style.MUTED,
        )
        entries = _entries(plotted)
        figure.legend(handles=entries, loc="outside lower center", frameon=False, fontsize=style.SMALL)
    return figure


def _line(axes: Any, at: int, point: Mapping[str, Any]) -> None:
    mark = _mark(point["verdict"], point["kind"] == "check", bool(point["provisional"]))
    beside = axes.get_yaxis_transform()
    axes.plot([-0.04], [at], transform=beside, clip_on=False, linestyle="", markersize=5, **mark)
    axes.text(1.03, at, _said(point), transform=beside, va="center", fontsize=style.SMALL, color=style.MUTED)
    if point["distance"] is None:
        return
    colour = mark["color"]
    ends = [
        infinite if point[name] is None else point[name]
        for name, infinite in (("distance_low", -math.inf), ("distance_high", math.inf))
    ]
    beyond = [point["distance"]]
    if any(map(math.isfinite, ends)):
        low, high = (min(max(end, -REACH), REACH) for end in ends)
        axes.plot([low, high], [at, at], color=colour, linewidth=1.6, solid_capstyle="butt")
        beyond += ends
    for edge, arrow in ((-REACH, "<"), (REACH, ">")):
        if any(value / edge > 1 for value in beyond):
            axes.plot([edge], [at], marker=arrow, color=colour, markersize=4.5, clip_on=False)
    says = f"{point['claim']}: {point['verdict'].replace('_', ' ')}, {_said(point)}"
    axes.figure.mark(axes, min(max(point["distance"], -REACH), REACH), at, point, says)
    if abs(point["distance"]) <= REACH:
        axes.plot([point["distance"]], [at], linestyle="", markersize=5, clip_on=False, **mark)


def _said(point: Mapping[str, Any]) -> str:
    """The text beside a claim: effect or verdict, and in which form it was judged or that it is provisional."""
    corrected = point["corrected"] and point["verdict"] in words.HOLDS
    marks = [f"as corrected, {point['corrected']}"] * bool(corrected)
    marks += [words.PROVISIONAL] * bool(point["provisional"])
    return point["shown"] + (f" ({'; '.join(marks)})" if marks else "")


def _entries(plotted: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The legend: each verdict with its marker, the number of claims, and its meaning; then what is provisional, and the checks."""
    from matplotlib.lines import Line2D

    def entry(text: str, mark: Mapping[str, Any]) -> Line2D:
        return Line2D([], [], linestyle="", markersize=6, label=text, **mark)

    claims = [point for point in plotted if point["kind"] != "check"]
    entries = []
    for verdict, meaning in words.MEANINGS.items():
        if own := [point for point in claims if point["verdict"] == verdict]:
            corrected = sum(bool(point["corrected"]) for point in own) if verdict in words.HOLDS else 0
            some = f", {corrected} as corrected" * bool(corrected)
            entries.append(entry(f"{words.label(verdict)} ({len(own)}{some}): {meaning}", _mark(verdict)))
    if some := sum(point["provisional"] for point in claims):
        half = {**_mark("reproduced", provisional=True), "color": style.INK, "markerfacecolor": style.INK}
        entries.append(entry(f"{words.PROVISIONAL} ({some}), half-filled: {PROVISIONAL_MEANS}", half))
    checked = [point["verdict"] for point in plotted if point["kind"] == "check"]
    for verdict in dict.fromkeys(checked):
        text = f"check: {formats.CHECKED.get(verdict, words.label(verdict))} ({checked.count(verdict)})"
        entries.append(entry(f"{text}: {CHECK_MEANS}", _mark(verdict, check=True)))
    return entries


def _mark(verdict: str, check: bool = False, provisional: bool = False) -> dict[str, Any]:
    marker, filled = CHECK if check else MARKS[verdict]
    colour = words.COLOURS[verdict]
    half = {"fillstyle": "left", "markerfacecoloralt": "white"} if provisional else {}
    return {
        "marker": marker,
        "color": colour,
        "markerfacecolor": colour if filled or provisional else "white",
        "markeredgewidth": 1.2,
        **half,
    }
