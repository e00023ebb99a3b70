"""How sure a measured rate or difference is: Wilson's interval, a bootstrap over clusters, equivalence.

One target is attacked on several victims, so its trials are not independent: the bootstrap draws whole
clusters (targets), each with all its trials. Everything is deterministic for a given seed.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

BATCH = 1_000_000
"""Draws of clusters held at a time."""


class Interval(NamedTuple):
    """``estimate`` with its interval from ``low`` to ``high``; ``n`` independent units (trials, or
    clusters)."""

    estimate: float
    low: float
    high: float
    n: int


def wilson(successes: int, trials: int, *, confidence: float = 0.95) -> Interval:
    r"""Wilson's score interval of a rate: the p with :math:`|\hat p - p| \le z \sqrt{p (1 - p) / n}`.

    .. math:: \frac{\hat p + z^2 / 2n \pm z \sqrt{\hat p (1 - \hat p) / n + z^2 / 4n^2}}{1 + z^2 / n}

    Without trials the estimate is nan and the interval [0, 1]: nothing is known.

    Wilson 1927. For independent trials; see :func:`bootstrap_mean` for trials in clusters.

    Raises:
        ValueError: counts that are not whole or not 0 <= successes <= trials, confidence outside (0, 1).
    """
    if successes != int(successes) or trials != int(trials) or not 0 <= successes <= trials:
        raise ValueError(f"{successes} of {trials} trials; allowed: whole, 0 <= successes <= trials")
    z = NormalDist().inv_cdf((1 + _checked(confidence)) / 2)
    n = int(trials)
    if n == 0:
        return Interval(math.nan, 0.0, 1.0, 0)
    rate = successes / n
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    # the ends are exact where they should be: rounding would leave 1e-17 instead of 0
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == trials else centre + half
    return Interval(rate, low, high, n)


def bootstrap_mean(
    values: ArrayLike,
    clusters: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    r"""Mean of all trials with a percentile bootstrap over clusters.

    A resample draws G of the G clusters with replacement and takes the mean of all their trials. The
    percentile is widened for small G, where the plain one covers too little: level :math:`\Phi(t_{\alpha/2,
    G-1} \sqrt{G/(G-1)})` instead of :math:`\alpha/2` (Hesterberg 2015, arXiv 1411.5279).

    With one cluster the spread is unknown and the interval is (-inf, inf). Where all clusters have the same
    mean the interval has no width: the bootstrap cannot see beyond the trials it has (use :func:`wilson` for
    0 of n).

    Args:
        values: (trials,) numbers.
        clusters: (trials,) the cluster of each trial, any labels; None = every trial on its own.
        confidence: of the two-sided interval.
        resamples: draws.
        seed: of the draws.

    Returns:
        Interval with n = G. For no trials: estimate nan, (-inf, inf), 0.

    Raises:
        ValueError: shapes that differ, values that are not finite, confidence outside (0, 1), resamples < 1.
    """
    trials = np.asarray(values, dtype=np.float64)
    groups = np.arange(len(trials)) if clusters is None else np.asarray(clusters)
    if trials.ndim != 1 or groups.shape != trials.shape:
        raise ValueError(f"values are {trials.shape}, clusters {groups.shape}; allowed: (trials,) for both")
    if not np.isfinite(trials).all():
        raise ValueError(f"values[{np.flatnonzero(~np.isfinite(trials))[0]}] is not finite; all must be")
    if resamples < 1:
        raise ValueError(f"resamples is {resamples}; allowed: at least 1")
    _checked(confidence)
    if len(trials) == 0:
        return Interval(math.nan, -math.inf, math.inf, 0)
    member = np.unique(groups, return_inverse=True)[1]
    sums, counts = np.bincount(member, weights=trials).astype(np.float64), np.bincount(member)
    size, estimate = len(sums), float(trials.mean())
    if size == 1:
        return Interval(estimate, -math.inf, math.inf, 1)
    means = _resampled(sums, counts, resamples, np.random.default_rng(seed))
    level = expanded_level(size, confidence)
    low, high = np.quantile(means, [level, 1 - level])
    return Interval(estimate, float(low), float(high), size)


def paired_difference(
    ours: ArrayLike,
    others: ArrayLike,
    clusters: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Mean of ours - others over paired trials, by :func:`bootstrap_mean` (which says the arguments).

    Pairing means that trial i of both has the same target, victim and seed; what they share then drops out.
    """
    first, second = np.asarray(ours, dtype=np.float64), np.asarray(others, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"ours has shape {first.shape}, others {second.shape}; pairs need the same")
    return bootstrap_mean(first - second, clusters, confidence=confidence, resamples=resamples, seed=seed)


def equivalent(difference: Interval, margin: float) -> bool:
    """Whether the whole interval lies strictly within ±margin.

    With an interval of confidence 1 - 2α this is the test of two one-sided tests (TOST, Schuirmann 1987) at
    level α: a 95% interval tests at 2.5%. That no difference was found is not enough: a wide interval is not
    equivalent.

    Raises:
        ValueError: margin not above 0.
    """
    if not margin > 0:
        raise ValueError(f"margin is {margin}; allowed: above 0")
    return -margin < difference.low and difference.high < margin


def expanded_level(clusters: int, confidence: float) -> float:
    """The lower percentile of a bootstrap over so few clusters that covers what a t interval covers."""
    from scipy.stats import norm, t  # half a second to import

    alpha = (1 - confidence) / 2
    return float(norm.cdf(t.ppf(alpha, clusters - 1) * math.sqrt(clusters / (clusters - 1))))


def _resampled(
    sums: NDArray[np.float64], counts: NDArray[np.int64], resamples: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    size = len(sums)
    means = np.empty(resamples)
    step = max(1, BATCH // size)
    for start in range(0, resamples, step):
        drawn = rng.integers(size, size=(min(step, resamples - start), size))
        means[start : start + step] = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    return means


def _checked(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; allowed: between 0 and 1")
    return confidence
