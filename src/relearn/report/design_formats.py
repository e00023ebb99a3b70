"""Format a claim's design and its outcome: planned and achieved half-width, and the settings that deviate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from relearn.report import distance, power
from relearn.report.claims import Claim
from relearn.report.claims_formats import shown_in, three
from relearn.report.comparisons import Comparison
from relearn.report.designs import Design, Measure, planned_half_width
from relearn.report.verdicts import Within
from relearn.report.views.names import plural


def half_width(part: Comparison) -> float | None:
    """Half the width of a comparison's interval, for a ratio on the log scale; None if an end is infinite."""
    low, high = part.interval.low, part.interval.high
    if part.unit == "ratio" and part.difference:
        low, high = (math.log(end) if 0 < end < math.inf else math.inf for end in (low, high))
    half = (high - low) / 2
    return half if math.isfinite(half) else None


def widths(design: Design, claim: Claim) -> list[tuple[Comparison, Measure, float | None, float | None]]:
    """Each deciding comparison with its measure, planned and achieved half-width; a counted number has none."""
    found = []
    for part in claim.parts:
        if not isinstance(part, Comparison) or not part.decides:
            continue
        counted = part.units is None and part.interval.low == part.interval.high
        if not counted and (measure := design.measure(part.name, part.unit)):
            found.append((part, measure, planned_half_width(measure, design.n, part.own), half_width(part)))
    return found


def deviations(design: Design, values: Mapping[str, Any]) -> list[str]:
    """``gradinit.seeds: [0, 1], designed [0, 1, 2, 3]`` for each setting that differs from the design."""
    found = []
    for key, designed in design.settings.items():
        value = value_at(values, key)
        if value != designed:
            found.append(f"{key}: {value}, designed {designed}")
    return found


def value_at(values: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key path.

    Raises:
        KeyError: no such path.
    """
    value: Any = values
    for name in key.split("."):
        if not isinstance(value, Mapping) or name not in value:
            raise KeyError(key)
        value = value[name]
    return value


def lines(design: Design, claim: Claim, values: Mapping[str, Any]) -> list[str]:
    """The design as text lines."""
    size = plural(design.n, design.unit.removesuffix("s"))
    found = [
        f"design: {design.compares} {size}, {three(design.cost_cpu_h)} CPU h ({design.cost_from})",
        f"free settings: {design.chosen}",
    ]
    for part, measure, planned, achieved in widths(design, claim):
        axis = distance.scale(part, measure)
        wide = ""
        if axis and (planned or 0.0) > axis.unit:
            wide = " (wider than the distance from the claimed value to the bound: hardly enough to decide)"
        elif axis and measure.trials and measure.claimed is not None and not isinstance(part.claimed, Within):
            least = power.units_without_exception(measure.claimed, part.claimed.threshold)
            if (measure.n or design.n) < least:
                wide = f" (even without an exception it takes {least}: hardly enough to decide)"
        found.append(
            f"half-width of {part.name}: planned {_number(planned, part)}{wide}; achieved {_number(achieved, part)}"
        )
    found += [f"deviates from the design: {line}" for line in deviations(design, values)]
    found += [f"rule changed after runs had been seen: {line}" for line in design.changed]
    found += [f"the design needs: {line}" for line in design.needs]
    return found


def _number(value: float | None, part: Comparison) -> str:
    """A half-width in the unit in which the effect is shown; of a ratio, the factor by which its interval reaches up and down."""
    if value is None:
        return "not known"
    if part.unit == "ratio" and part.difference:
        return f"a factor of {math.exp(value):.3g}"
    if part.unit == "fraction":  # of a share in %, too
        return f"{100 * value:.3g} points"
    return f"{value:.3g} {shown_in(part)}".rstrip()


def to_dict(design: Design, claim: Claim, values: Mapping[str, Any]) -> dict[str, Any]:
    """The design as plain values for claims.json; its words are in claims.md and in designs.yaml."""
    return {
        "scale": design.scale,
        "unit": design.unit,
        "n": design.n,
        "cost_cpu_h": design.cost_cpu_h,
        "half_widths": [
            {"comparison": part.name, "planned": planned, "achieved": achieved}
            for part, _, planned, achieved in widths(design, claim)
        ],
        "deviates": deviations(design, values),
        "needs": list(design.needs),
        "undecidable": design.undecidable,
        "changed": list(design.changed),
    }
