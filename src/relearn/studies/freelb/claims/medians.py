r"""Comparisons of medians over seeds, for papers that print medians: a bootstrap over seeds.

The bootstrap resamples whole seeds, with their runs of all methods and tasks, because these share data order and initial weights.
The percentile levels are expanded for few clusters, as in :func:`relearn.report.statistics.clustered_mean`. With fewer than 6 seeds
no bootstrap of a median reaches 95% coverage: the range of n values covers their median with probability :math:`1 - 2^{1-n}`
(75% at n = 3, 94% at n = 5). In that case the interval is widened to Student's interval of the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from relearn.report.comparisons import Comparison, Units
from relearn.report.power import MEDIAN
from relearn.report.seeds import Sample, comparison
from relearn.report.statistics import RESAMPLES, SEED, Interval, expanded_level, student_mean
from relearn.report.verdicts import Side

ENOUGH = 6  # smallest number of seeds whose range covers the median with probability above 95%
METHOD = "bootstrap over seeds, widened to Student's t below 6 seeds"
Statistic = Callable[[np.ndarray], np.ndarray]  # (draws, seeds, columns) → (draws,)


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
) -> Comparison | None:
    """median(left) - median(right) over the shared seeds; None without a shared seed."""
    seeds = sorted(left.values.keys() & right.values.keys())
    if not seeds:
        return None
    values = np.array([[left.values[seed], right.values[seed]] for seed in seeds])
    paired = [student_mean(values[:, 0] - values[:, 1])]
    interval = _order_interval(
        values, lambda drawn: np.subtract(*np.moveaxis(np.median(drawn, axis=1), -1, 0)), paired, 1
    )
    method = f"difference of medians; {METHOD}"
    apart = values[:, 0] - values[:, 1]
    notes = [*notes, paired_note(apart, unit)]
    units = Units("seeds", tuple(map(float, apart)), inflation=_inflation(values))
    both = (left, right)
    return comparison(name, interval, claimed, unit, method, both, seeds, role, decides, notes, units)


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
    """Summary of the paired differences, e.g. ``paired by seed: mean -0.34 points, higher in 2 of 5, lower in 3``."""
    factor, word = (100.0, " points") if unit == "fraction" else (1.0, f" {unit}")
    higher, lower = int((apart > 0).sum()), int((apart < 0).sum())
    if not higher + lower:
        return f"identical in {len(apart)} of {len(apart)} seeds"
    mean = f"{factor * float(apart.mean()):+.3g}{word}"
    return f"paired by seed: mean {mean}, higher in {higher} of {len(apart)}, lower in {lower}"


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


def most(
    name: str,
    pairs: Mapping[str, tuple[Sample, Sample]],
    claimed: Side,
    *,
    unit: str = "fraction",
    role: str = "",
    decides: bool = True,
    notes: Sequence[str] = (),
    among: int = 1,
) -> Comparison | None:
    r"""The :math:`(\lfloor T/2 \rfloor + 1)`-th largest of T values: for each task, median(left) - median(right) over seeds.

    This statistic reaches a threshold if and only if more than half of the tasks do. It uses the seeds that all
    samples share; the result is None if there are none. ``among`` is the number of rivals of which the right side is the best.
    """
    samples = [one for pair in pairs.values() for one in pair]
    seeds = sorted(set.intersection(*(set(one.values) for one in samples))) if samples else []
    if not seeds:
        return None
    values = np.array([[one.values[seed] for one in samples] for seed in seeds])
    paired = values[:, ::2] - values[:, 1::2]
    rank = len(pairs) // 2 + 1

    def apart(drawn: np.ndarray) -> np.ndarray:
        medians = np.median(drawn, axis=-2)
        return medians[..., ::2] - medians[..., 1::2]

    def statistic(drawn: np.ndarray) -> np.ndarray:
        return np.sort(apart(drawn), axis=-1)[:, -rank]

    interval = _order_interval(values, statistic, [student_mean(column) for column in paired.T], rank)
    method = f"difference of medians, the {rank}. largest of {len(pairs)}; {METHOD}"
    notes = [*notes, *(f"{task}: {paired_note(column, unit)}" for task, column in zip(pairs, paired.T))]
    # the decisive task, whose difference is the reported statistic, determines how many more seeds are needed
    decisive = np.argsort(apart(values))[-rank]
    inflation = _inflation(values[:, 2 * decisive : 2 * decisive + 2])
    units = Units("seeds", tuple(map(float, paired[:, decisive])), inflation=inflation)
    return comparison(
        name, interval, claimed, unit, method, samples, seeds, role, decides, notes, units, among
    )


def _order_interval(
    values: np.ndarray, statistic: Statistic, wider: Sequence[Interval], rank: int
) -> Interval:
    """Bootstrap interval of a statistic of ``values`` (seeds, columns).

    With fewer than :data:`ENOUGH` seeds it is widened to the ``rank``-th largest ends of the intervals ``wider``.
    """
    count = len(values)
    estimate = float(statistic(values[None])[0])
    low, high = (
        sorted((getattr(one, end) for one in wider), reverse=True)[rank - 1] for end in ("low", "high")
    )
    if count > 1:
        drawn = statistic(values[np.random.default_rng(SEED).integers(0, count, (RESAMPLES, count))])
        level = expanded_level(count)
        ends = [float(end) for end in np.quantile(drawn, [level, 1 - level])]
        low, high = (min(low, ends[0]), max(high, ends[1])) if count < ENOUGH else ends
    return Interval(estimate, min(low, estimate), max(high, estimate), count - 1)
