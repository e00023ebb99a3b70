r"""Comparisons of medians over seeds, for papers that print medians: a bootstrap over seeds.

The bootstrap resamples whole seeds, with their runs of all methods and tasks, because these share data order and initial weights.
The percentile levels are expanded for few clusters, as in :func:`relearn.report.statistics.clustered_mean`. With fewer than 6 seeds
no bootstrap of a median reaches 95% coverage: the range of n values covers their median with probability :math:`1 - 2^{1-n}`
(75% at n = 3, 94% at n = 5). In that case the interval is widened to Student's interval of the mean. The same is done if scores are
so coarse that the bootstrap shows no spread although the seeds differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from relearn.report.comparisons import Comparison, Units
from relearn.report.power import MEDIAN
from relearn.report.seeds import Sample, comparison
from relearn.report.statistics import RESAMPLES, SEED, Interval, expanded_level, student_mean
from relearn.report.verdicts import Above, Side, widened

ENOUGH = 6  # smallest number of seeds whose range covers the median with probability above 95%
METHOD = "bootstrap over seeds, widened to Student's t below 6 seeds"
COARSE = "scores too coarse for a bootstrap of medians: widened to Student's t of the paired differences"


def difference(
    name: str,
    left: Sample,
    right: Sample,
    claimed: Side,
    *,
    unit: str = "fraction",
    role: str = "",
    decides: bool = True,
    notes: Sequence[str] = (),
    among: int = 1,
    own: int = 1,
) -> Comparison | None:
    """median(left) - median(right) over the shared seeds; None without a shared seed. ``among`` and ``own``: as in :func:`comparison`."""
    seeds = sorted(left.values.keys() & right.values.keys())
    if not seeds:
        return None
    values = np.array([[left.values[seed], right.values[seed]] for seed in seeds])
    interval, coarse = _interval(values)
    method = f"difference of medians; {METHOD}"
    apart = values[:, 0] - values[:, 1]
    notes = [*notes, paired_note(apart, unit), *[COARSE] * coarse]
    units = Units("seeds", tuple(map(float, apart)), inflation=_inflation(values))
    both = (left, right)
    return comparison(
        name, interval, claimed, unit, method, both, seeds, role, decides, notes, units, among, own
    )


def _inflation(values: np.ndarray) -> float:
    r"""Variance of a difference of medians relative to that of the mean of the paired differences, for normal values.

    .. math:: \big(\tfrac\pi2 (s_1^2 + s_2^2) - 2 s_1 s_2 \arcsin r\big) / s_{1-2}^2

    It grows with the correlation r of the two sides (seeds, columns), because medians take little from the pairing.
    """
    apart = float(np.var(values[:, 0] - values[:, 1], ddof=1)) if len(values) > 2 else 0.0
    both = values.std(axis=0, ddof=1) if apart else np.zeros(2)
    if not both.all():
        return MEDIAN
    r = float(np.clip((both @ both - apart) / (2 * both.prod()), -1, 1))
    return float(MEDIAN * (both @ both) - 2 * both.prod() * np.arcsin(r)) / apart


def paired_note(apart: np.ndarray, unit: str) -> str:
    """Summary of the paired differences, with the sign test that seeds are as often above as below, equal ones left out:
    ``paired by seed: mean -0.34 points, higher in 2 of 5, lower in 3 (two-sided sign test: p = 1)``. It decides nothing.
    """
    factor, word = (100.0, " points") if unit == "fraction" else (1.0, f" {unit}")
    higher, lower = int((apart > 0).sum()), int((apart < 0).sum())
    if not higher + lower:
        return f"identical in {len(apart)} of {len(apart)} seeds"
    mean = f"{factor * float(apart.mean()):+.3g}{word}"
    differing = higher + lower
    below = sum(math.comb(differing, count) for count in range(min(higher, lower) + 1))
    share = min(1.0, 2 * below / 2**differing)
    return (
        f"paired by seed: mean {mean}, higher in {higher} of {len(apart)}, lower in {lower}"
        f" (two-sided sign test: p = {share:.2g})"
    )


def better(samples: Sequence[Sample]) -> int:
    """The place of the sample with the best median over the seeds that all share; the first of equals, or if they share none."""
    seeds = set.intersection(*(set(one.values) for one in samples))
    return (
        int(np.argmax([np.median([one.values[seed] for seed in seeds]) for one in samples])) if seeds else 0
    )


def best(name: str, samples: Sequence[Sample]) -> Sample:
    """The sample with the best median over the seeds that all share, at these seeds; with the runs of all.

    The better one is chosen once, not for each seed: the maximum of two equally good methods at each seed is better than either of
    them by half of a seed's spread, and would contradict any claim to match both.
    """
    seeds = sorted(set.intersection(*(set(one.values) for one in samples)))
    chosen = samples[better(samples)].values
    values = {seed: chosen[seed] for seed in seeds}
    return Sample(name, values, tuple(run for one in samples for run in one.runs))


def ordinal(rank: int) -> str:
    """``1st``, ``2nd``, ``11th``."""
    tens = 10 <= rank % 100 < 20
    return f"{rank}{'th' if tens else {1: 'st', 2: 'nd', 3: 'rd'}.get(rank % 10, 'th')}"


def most(
    name: str,
    pairs: Mapping[str, tuple[Sample, Sample]],
    claimed: Above,
    *,
    unit: str = "fraction",
    role: str = "",
    decides: bool = True,
    notes: Sequence[str] = (),
    among: int = 1,
) -> Comparison | None:
    r"""The r-th largest of T values, :math:`r = \lfloor T/2 \rfloor + 1`: for each task, median(left) - median(right) over seeds.

    This statistic reaches a threshold if and only if more than half of the tasks do. The noise of the tasks biases it (the smaller of
    two equal tasks falls below both), and a bootstrap repeats the bias. So its interval is made of the tasks' own intervals:

    .. math:: \big[l_{(r)}(\tfrac{\alpha/2}{T - r + 1}),\; u_{(r)}(\tfrac{\alpha/2}{r})\big]

    the r-th largest of their lower and of their upper ends, each at this one-sided level. The lower end is above a threshold if at least
    r tasks lie wholly above it, and the upper one below it if at least T - r + 1 lie wholly below. If no majority of the tasks leads, a
    false majority includes at least one of T - r + 1 tasks without a lead (Bonferroni); if one does, at least one of r tasks must fall
    below by chance. This is the test of a partial conjunction (Benjamini and Heller 2008, doi 10.1111/j.1541-0420.2007.00984.x).

    It uses the seeds that all samples share; the result is None if there are none. ``among`` is the number of rivals of which the right
    side is the best; the verdict widens the upper arm again for them, which is a little stricter than a level divided by r times ``among``.
    """
    samples = [one for pair in pairs.values() for one in pair]
    seeds = sorted(set.intersection(*(set(one.values) for one in samples))) if samples else []
    if not seeds:
        return None
    values = np.array([[[one.values[seed] for one in pair] for seed in seeds] for pair in pairs.values()])
    paired = values[:, :, 0] - values[:, :, 1]  # (tasks, seeds)
    count, rank = len(pairs), len(pairs) // 2 + 1
    tasks, coarse = zip(*map(_interval, values))
    lows = [widened(one, count - rank + 1).low for one in tasks]
    highs = [widened(one, rank).high for one in tasks]
    estimates = [one.estimate for one in tasks]
    low, estimate, high = (sorted(ends)[-rank] for ends in (lows, estimates, highs))
    interval = Interval(estimate, low, high, tasks[0].freedom)
    method = "difference of medians"
    if count > 1:
        ordered = f", of which the {ordinal(rank)} largest of {count} counts"
        method += f" on each task{ordered}; each task's ends corrected for the number of tasks"
    method += f"; {METHOD}"
    lead = (f"{task}: " if count > 1 else "" for task in pairs)
    notes = [*notes, *(f"{task}{paired_note(column, unit)}" for task, column in zip(lead, paired))]
    notes += [f"{task}: {COARSE}" for task, one in zip(pairs, coarse) if one]
    # the decisive task, whose difference is the reported statistic, determines how many more seeds are needed
    decisive = np.argsort(estimates)[-rank]
    units = Units("seeds", tuple(map(float, paired[decisive])), inflation=_inflation(values[decisive]))
    return comparison(
        name, interval, claimed, unit, method, samples, seeds, role, decides, notes, units, among
    )


def _interval(values: np.ndarray) -> tuple[Interval, bool]:
    """median(left) - median(right) of ``values`` (seeds, 2) with its interval, and whether the scores are too coarse for a bootstrap.

    The bootstrap of medians of coarse scores may have an end at the estimate, although the seeds differ. Then, and with fewer than
    :data:`ENOUGH` seeds, the interval is widened to Student's of the paired differences.
    """
    count, estimate = len(values), float(np.subtract(*np.median(values, axis=0)))
    student = student_mean(values[:, 0] - values[:, 1])
    low, high, coarse = student.low, student.high, False
    if count > 1:
        drawn = np.median(values[np.random.default_rng(SEED).integers(0, count, (RESAMPLES, count))], axis=1)
        level = expanded_level(count)
        ends = [float(end) for end in np.quantile(drawn[:, 0] - drawn[:, 1], [level, 1 - level])]
        stuck = min(estimate - ends[0], ends[1] - estimate) <= 1e-12
        coarse = stuck and count >= ENOUGH and student.high - student.low > 1e-12
        low, high = (min(low, ends[0]), max(high, ends[1])) if count < ENOUGH or stuck else ends
    return Interval(estimate, min(low, estimate), max(high, estimate), student.freedom), coarse
