"""Position of an effect relative to its claim, in units of the claimed effect: 0 is the claim's bound, 1 the claimed effect.

This puts effects of all units on one axis. Ratios are taken on the log scale. For a claimed range, the distance is measured
from its nearer end, and 1 is its middle; an interval that contains the middle is therefore folded at 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from relearn.report.comparisons import Comparison
from relearn.report.designs import Measure
from relearn.report.verdicts import Above, Within


@dataclass(frozen=True)
class Scale:
    """The axis of one comparison: its bound, the direction of the claim, and the length of one claimed effect."""

    bound: float
    sign: float
    unit: float
    logarithm: bool = False
    middle: float | None = None

    def of(self, value: float) -> float:
        """The distance of a value."""
        if self.middle is not None:
            return (self.unit - abs(value - self.middle)) / self.unit
        moved = _log(value) if self.logarithm else value
        return self.sign * (moved - self.bound) / self.unit

    def interval(self, low: float, high: float) -> tuple[float, float]:
        """The smallest and the greatest distance over the values between two ends."""
        ends = sorted((self.of(low), self.of(high)))
        if self.middle is not None and low <= self.middle <= high:
            ends[1] = 1.0
        return ends[0], ends[1]


def scale(part: Comparison, measure: Measure | None) -> Scale | None:
    """The axis of a comparison; None for a counted number, a range without width, or if no source or design states an effect.

    Raises:
        ValueError: the claimed value is not on the claimed side of the bound.
    """
    side = part.claimed
    if isinstance(side, Within):
        half = (side.high - side.low) / 2
        return Scale(side.low, 1.0, half, middle=(side.low + side.high) / 2) if 0 < half < math.inf else None
    if part.units is None or measure is None or measure.claimed is None:  # a counted number has no effect
        return None
    logarithm = part.unit == "ratio"
    bound, claimed = (_log(one) if logarithm else one for one in (side.threshold, measure.claimed))
    sign = 1.0 if isinstance(side, Above) else -1.0
    if not sign * (claimed - bound) > 0:
        raise ValueError(
            f"{part.name}: found a claimed value of {measure.claimed:g}, allowed: {side}, not the bound"
        )
    return Scale(bound, sign, abs(claimed - bound), logarithm)


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
