"""Maps an effect and its interval to a verdict, by the definitions of docs/verdicts.md.

============  =====================================  =============================================
verdict       claim "above (below) a threshold"      claim "within a margin"
============  =====================================  =============================================
reproduced    interval wholly on the claimed side    interval wholly inside the margin
direction     estimate on it, interval crosses       estimate inside, interval reaches out
inconclusive  estimate not on it, interval crosses   estimate outside, interval reaches in
contradicted  interval wholly on the other side      interval wholly outside, on one side
============  =====================================  =============================================

For ``contradicted`` the interval is :func:`widened` for the number of comparisons that the claim requires.

If all runs of both sides give the same numbers, the difference is exactly 0 (or the ratio exactly 1) with an interval of no
width. Such runs do not differ in what is compared, so the verdict is ``identical``, whatever is claimed. Intervals over seeds have no
width only if the values paired by seed are equal; a bootstrap of coarse scores must be widened before it is judged here.

A claim based on too few trials or too weak models is ``underpowered``, whatever its numbers say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from relearn.report.statistics import CONFIDENCE, Interval, clopper_pearson, share_of, stepped, t_quantile
from relearn.report.views.names import plural

#: from weak to strong; a claim about several comparisons gets its weakest verdict
ORDER = ("contradicted", "inconclusive", "identical", "direction", "reproduced")

MIN_TARGETS = 20
MIN_VICTIMS = 4
MIN_VICTIM_ACCURACY = 0.60


@dataclass(frozen=True)
class Above:
    """Claim: the effect is greater than a threshold (``strict``), or at least as great."""

    threshold: float = 0.0
    strict: bool = True

    def holds(self, value: float) -> bool:
        return value > self.threshold if self.strict else value >= self.threshold

    def wholly(self, interval: Interval) -> bool:
        return self.holds(interval.low)

    def misses(self, interval: Interval) -> bool:
        return interval.high < self.threshold

    def times(self, factor: float) -> Above:
        return Above(self.threshold * factor, self.strict)

    def __str__(self) -> str:
        return f"{'>' if self.strict else '>='} {self.threshold:g}"


@dataclass(frozen=True)
class Below:
    """Claim: the effect is smaller than a threshold."""

    threshold: float = 0.0

    def holds(self, value: float) -> bool:
        return value < self.threshold

    def wholly(self, interval: Interval) -> bool:
        return self.holds(interval.high)

    def misses(self, interval: Interval) -> bool:
        return interval.low > self.threshold

    def times(self, factor: float) -> Below:
        return Below(self.threshold * factor)

    def __str__(self) -> str:
        return f"< {self.threshold:g}"


@dataclass(frozen=True)
class Within:
    """Claim: the effect is within a closed range (equivalence, which is more than "no significant difference")."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    def wholly(self, interval: Interval) -> bool:
        return self.low <= interval.low and interval.high <= self.high

    def misses(self, interval: Interval) -> bool:
        return interval.high < self.low or interval.low > self.high

    def times(self, factor: float) -> Within:
        return Within(self.low * factor, self.high * factor)

    def __str__(self) -> str:
        return f"in [{self.low:g}, {self.high:g}]"


Side = Above | Below | Within


def widened(interval: Interval, among: int, ratio: bool = False) -> Interval:
    r"""The interval whose confidence is 95% for ``among`` comparisons together (Bonferroni).

    Both arms, of a ratio those of its logarithm, are multiplied by :math:`t_{1 - 0.025/m,\nu} / t_{0.975,\nu}` for m comparisons, where
    :math:`\nu` are the interval's degrees of freedom: for eight 1.40 if there are many, 1.89 for five seeds. An exact interval of a share
    is computed anew, and that of a value out of a few: its ends can only step, so a factor would not move an end that is the estimate.

    Raises:
        ValueError: ``among`` below 1.
    """
    if among < 1:
        raise ValueError(f"among: found {among}, allowed: 1 or more comparisons")
    if among == 1:
        return interval
    tail, middle = (1 - CONFIDENCE) / 2, interval.estimate
    if interval.steps:
        return stepped(middle, interval.steps, interval.freedom, 1 - 2 * tail / among)
    if interval.trials:
        wider = 1 - 2 * tail / among
        if interval.groups:
            found = share_of(middle, interval.trials, interval.groups, wider)
        else:
            found = clopper_pearson(middle * interval.trials, interval.trials, wider)
        return replace(found, low=min(found.low, interval.low), high=max(found.high, interval.high))
    factor = t_quantile(1 - tail / among, interval.freedom) / t_quantile(1 - tail, interval.freedom)
    if (
        ratio
    ):  # exp and log of floats raise at 0 and beyond the largest number, those of arrays give the limits
        with np.errstate(divide="ignore", over="ignore"):
            middle, *ends = np.log([middle, interval.low, interval.high])
            low, high = np.exp([middle + factor * (end - middle) for end in ends])
        return Interval(interval.estimate, float(low), float(high), interval.freedom)
    low, high = (middle + factor * (end - middle) for end in (interval.low, interval.high))
    return Interval(middle, low, high, interval.freedom)


def verdict(claimed: Side, interval: Interval, same: float | None = None, among: int = 1) -> str:
    """One of ORDER, by the table above.

    Args:
        claimed: the claimed range.
        interval: the effect with its interval.
        same: the effect if the two sides are equal (0 for a difference, 1 for a ratio); None if nothing is compared.
        among: how many comparisons the claim requires; one that fails by chance must not contradict it.
    """
    if interval.low == interval.high == same:
        return "identical"
    if claimed.wholly(interval):
        return "reproduced"
    if claimed.misses(interval) and claimed.misses(widened(interval, among, ratio=same == 1.0)):
        return "contradicted"
    return "direction" if claimed.holds(interval.estimate) else "inconclusive"


def weakest(verdicts: Iterable[str]) -> str:
    """The verdict of a claim that requires all of several comparisons, each at 95%.

    ``reproduced`` needs no correction for their number, because all of them must hold; for ``contradicted`` see :func:`verdict`.
    """
    return min(verdicts, key=ORDER.index)


def alike(reasons: Iterable[str]) -> list[str]:
    """The reasons, with those that differ in their first number alone as one: ``SENet18 fits 89.9 to 90.0% of its set, needs 98%``."""
    found: dict[tuple[str, str], list[str]] = {}
    for reason in reasons:
        before, number, after = [*re.split(r"(?<![\w.-])(\d+(?:\.\d+)?)", reason, maxsplit=1), "", ""][:3]
        found.setdefault((before, after), []).append(number)
    ends = {key: sorted(set(numbers), key=lambda text: float(text or 0)) for key, numbers in found.items()}
    return [
        f"{before}{' to '.join(dict.fromkeys((few[0], few[-1])))}{after}"
        for (before, after), few in ends.items()
    ]


def too_few(count: int, one: str, needed: int) -> list[str]:
    """The reason ``1 seed, needs 3`` if there are fewer than needed. ``relearn power`` reads it (`undecided.COUNTS`)."""
    return [] if count >= needed else [f"{plural(count, one)}, needs {needed}"]


def shortcomings(
    pairs: Iterable[tuple[str, int]],
    accuracies: Mapping[str, float | None],
    victims_needed: int = MIN_VICTIMS,
) -> list[str]:
    """Why a comparison is underpowered; empty if it is not.

    "20 targets x 4 victims" means at least 20 targets, at least 4 victims, and at least 80 different pairs
    of them. A claim that is stated for fewer victims (the two black-box claims) needs 80 pairs of those.
    Seeds repeat a pair and do not count.

    Args:
        pairs: (victim, target) of every trial.
        accuracies: test accuracy of each victim before fine-tuning, None if it was not measured.
        victims_needed: at most MIN_VICTIMS.
    """
    distinct = set(pairs)
    victims = sorted({victim for victim, _ in distinct})
    targets = {target for _, target in distinct}
    reasons = too_few(len(targets), "target", MIN_TARGETS) + too_few(len(victims), "victim", victims_needed)
    if len(distinct) < MIN_TARGETS * MIN_VICTIMS:
        reasons.append(f"{len(distinct)} pairs of target and victim, needs {MIN_TARGETS * MIN_VICTIMS}")
    for victim in victims:
        accuracy = accuracies.get(victim)
        if accuracy is None:
            reasons.append(f"accuracy of {victim} not measured")
        elif accuracy < MIN_VICTIM_ACCURACY:
            reasons.append(
                f"{victim} at {100 * accuracy:.1f}% accuracy, needs {100 * MIN_VICTIM_ACCURACY:.0f}%"
            )
    return reasons
