r"""Confidence intervals for rates and paired comparisons with clustered trials.

One target image is attacked on several victims, so its trials are not independent: the bootstrap resamples
targets, each with all its trials. Everything is deterministic, since the bootstrap uses a fixed seed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import NormalDist

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 10_000
SEED = 20_221
FEW = 6
"""So many clusters that all differ in one direction are the fewest that chance does not explain: 2⁻⁶ < 2.5% < 2⁻⁵."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95% interval; the ends are infinite if the data allow no interval (one cluster).

    ``freedom``, the degrees of freedom of its variance, ``trials`` and ``groups``, of a Clopper-Pearson interval (:func:`clustered_share`),
    and ``steps``, of a value out of a few (:func:`stepped`), say how wide it is at another confidence
    (:func:`relearn.report.verdicts.widened`).
    """

    estimate: float
    low: float
    high: float
    freedom: float = field(default=math.inf, compare=False)
    trials: float = field(default=0.0, compare=False)
    groups: int = field(default=0, compare=False)
    steps: tuple[tuple[float, float], ...] = field(default=(), compare=False)


def wilson(successes: float, n: int, confidence: float = CONFIDENCE) -> Interval:
    r"""Wilson's score interval of a rate.

    .. math:: \frac{\hat p + z^2/2n \pm z\sqrt{\hat p(1-\hat p)/n + z^2/4n^2}}{1 + z^2/n}

    ``successes`` may be fractional: the mean of n shares in [0, 1] has at most the variance of n binary
    trials, so the interval is then too wide rather than too narrow.

    Raises:
        ValueError: n below 1, or successes outside [0, n].
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"wilson: found {successes} of {n}, allowed: 0 <= successes <= n, n >= 1")
    z = _z(confidence)
    p = successes / n
    centre = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # at 0 and n one end is exactly the estimate; rounding must not push it past
    return Interval(p, min(p, max(0.0, (centre - half) / scale)), max(p, min(1.0, (centre + half) / scale)))


def clopper_pearson(successes: float, n: float, confidence: float = CONFIDENCE) -> Interval:
    r"""The exact interval of a rate: its ends solve :math:`P(X \ge x) = \alpha/2` and :math:`P(X \le x) = \alpha/2`.

    The ends are quantiles of the beta distribution, so ``successes`` and ``n`` may be fractional. Coverage is at least
    nominal even for few trials: for 3 successes in 3 trials the lower end is 0.29.

    Raises:
        ValueError: n not positive, or successes outside [0, n].
    """
    from scipy import special

    if not n > 0 or not 0 <= successes <= n:
        raise ValueError(f"clopper_pearson: found {successes} of {n}, allowed: 0 <= successes <= n, n > 0")
    tail, failures = (1 - confidence) / 2, n - successes
    low = float(special.betaincinv(successes, failures + 1, tail)) if successes else 0.0
    high = float(special.betaincinv(successes + 1, failures, 1 - tail)) if failures else 1.0
    p = successes / n
    ends = min(low, p), max(high, p)  # keeps the estimate inside for fewer than one trial
    return Interval(p, *ends, trials=n)


def clustered_share(shares: Sequence[float], clusters: Sequence[Hashable], units: float = 1.0) -> Interval:
    r"""Mean of clustered shares in [0, 1], with a Clopper-Pearson interval for the effective number of trials.

    .. math:: n^* = \min\Big(n u,\; \frac{p (1 - p)}{\widehat{\mathrm{Var}}(p)}
              \big(z_{1-\alpha/2} / t_{1-\alpha/2,\,G-1}\big)^2\Big), \qquad
              \widehat{\mathrm{Var}}(p) = \frac{G}{G-1} \sum_g \big(S_g - n_g p\big)^2 / n^2

    ======  ========================================================================
    symbol  meaning
    ======  ========================================================================
    p       mean of all n shares
    S_g     sum of the n_g shares of cluster g
    G       number of clusters
    u       ``units``: number of outcomes behind one share (1: a single binary outcome)
    ======  ========================================================================

    Korn and Graubard 1998 (Survey Methodology 24, 193-201). The interval has a positive width even if all trials agree:
    G trials then count, because the trials of one cluster may go together. The more the clusters differ, the fewer trials count.
    A failure never narrows the interval: a lone one makes clusters look independent, so its lower end is at most that of G successes in
    G trials, and likewise above. Clusters with a single binary outcome are independent trials. A single cluster with a mean between 0 and
    1 gives [0, 1].

    Raises:
        ValueError: no shares, lengths that differ, a share outside [0, 1], or units that are not positive.
    """
    p, trials = effective_trials(shares, clusters, units)
    if trials == 0:
        return Interval(p, 0.0, 1.0)
    return share_of(p, trials, len(set(clusters)))


def share_of(p: float, trials: float, groups: int, confidence: float = CONFIDENCE) -> Interval:
    """The interval of :func:`clustered_share` for a mean p of ``trials`` effective trials in so many clusters."""
    found = clopper_pearson(p * trials, trials, confidence)
    agree = clopper_pearson(groups, groups, confidence).low
    return replace(found, low=min(found.low, agree), high=max(found.high, 1 - agree), groups=groups)


def effective_trials(
    shares: Sequence[float], clusters: Sequence[Hashable], units: float = 1.0
) -> tuple[float, float]:
    """The mean p and the effective number of trials n* of :func:`clustered_share`; n* is 0 if no interval can be given."""
    values = np.asarray(shares, dtype=float)
    if not units > 0 or not ((values >= 0) & (values <= 1)).all():
        found = f"shares {list(shares)}, units {units}"
        raise ValueError(f"clustered_share: found {found}, allowed: shares in [0, 1], units above 0")
    sums, counts = _per_cluster(values[:, None], clusters)
    n, groups = counts.sum(), len(counts)
    p = min(1.0, float(sums.sum() / n))
    if groups < 2 and 0 < p < 1:
        return p, 0.0
    variance = float(((sums[:, 0] - counts * p) ** 2).sum()) / n**2 * groups / max(groups - 1, 1)
    trials = float(n * units)
    # one binary outcome per cluster; of several that all agree within each cluster, the clusters decide
    independent = groups == len(values) and units == 1 and bool(np.isin(values, (0, 1)).all())
    if not 0 < p < 1:
        trials = float(groups)
    elif variance > 1e-18 and not independent:
        few = _z(CONFIDENCE) / t_quantile(0.5 + CONFIDENCE / 2, groups - 1)
        trials = min(trials, p * (1 - p) / variance * few**2)
    return p, trials


def mean_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and standard deviation (with n - 1 in the denominator); no standard deviation for a single value."""
    array = np.asarray(values, dtype=float)
    return float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else None


def median_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Median (the mean of the middle two for an even number) and standard deviation as in :func:`mean_spread`."""
    return float(np.median(np.asarray(values, dtype=float))), mean_spread(values)[1]


def student_mean(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    r"""Mean of a few independent values, :math:`\bar x \pm t_{n-1} s/\sqrt n`; infinite ends for a single value.

    Used for seeds: a bootstrap of three values has at most ten different means, whereas Student's t gives a valid
    interval if the values are normal. Two equal values also have infinite ends unless both are 0: two accuracies on a small test
    set agree by chance too often to say that seeds do not differ. More than two equal values give an interval without width.

    Raises:
        ValueError: no values.
    """
    if len(values) == 0:
        raise ValueError("student_mean: found no values, allowed: at least 1")
    mean, spread = mean_spread(values)
    if spread is None:
        return Interval(mean, -math.inf, math.inf)
    freedom = len(values) - 1
    if np.ptp(values) <= 1e-12:  # rounding errors must not make equal values differ, nor differ from 0
        mean = round(mean, 12)
        ends = (-math.inf, math.inf) if len(values) == 2 and mean else (mean, mean)
        return Interval(mean, *ends, freedom)
    half = t_quantile(0.5 + confidence / 2, freedom) * spread / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half, freedom)


def student_mean_of_table(table: Sequence[Sequence[float]]) -> Interval:
    r"""Mean of a complete table of n seeds (rows) by m samples (columns), both of which are drawn.

    The half-width is :math:`t_\nu \sqrt{A + B}`, where A is the variance of the row means over n and B the variance of the
    column means over m. :math:`\nu = (A + B)^2 / (A^2/(n-1) + B^2/(m-1))` (Satterthwaite 1946, doi 10.2307/3002019). The noise
    of single values is in A and in B, so the interval is slightly too wide. With one row A is 0: the interval is for that
    seed. Equal rows also give A = 0, and then the result is :func:`student_mean` of one row.

    Raises:
        ValueError: no values, or rows of different lengths.
    """
    if len(table) == 0 or len({len(row) for row in table}) > 1 or len(table[0]) == 0:
        found = f"rows of {sorted({len(row) for row in table})} values"
        raise ValueError(f"student_mean_of_table: found {found}, allowed: equal lengths, at least 1")
    values = np.asarray(table, dtype=float)
    columns = values.mean(axis=0)
    if len(values) == 1 or np.ptp(values.mean(axis=1)) <= 1e-12:
        return student_mean(list(columns))
    mean = float(values.mean())
    if values.shape[1] == 1:
        return Interval(mean, -math.inf, math.inf)
    parts = [one.var(ddof=1) / len(one) for one in (values.mean(axis=1), columns)]
    freedom = sum(parts) ** 2 / sum(part**2 / (n - 1) for part, n in zip(parts, values.shape))
    half = t_quantile(0.5 + CONFIDENCE / 2, freedom) * math.sqrt(sum(parts))
    return Interval(mean, mean - half, mean + half, freedom)


def log_slope(line: Mapping[int, float]) -> float:
    """Least-squares slope of a straight line through the points (ln x, y); ``line`` maps x to y.

    Raises:
        ValueError: fewer than two different x.
    """
    if len(line) < 2:
        raise ValueError(f"log_slope: found {len(line)} points, allowed: at least 2")
    xs = np.log(np.asarray(list(line), dtype=float))
    across = xs - xs.mean()
    return float(across @ np.asarray(list(line.values()), dtype=float) / (across @ across))


def clustered_mean(
    values: Sequence[float],
    clusters: Sequence[Hashable],
    bounds: tuple[float, float] | None = None,
    resamples: int = RESAMPLES,
) -> Interval:
    """Mean of ``values`` with a bootstrap interval that resamples whole clusters.

    The percentile levels are expanded for few clusters (normal to Student t, and n to n - 1), as the plain
    percentile interval is too narrow there (Hesterberg 2015, doi 10.1080/00031305.2015.1089789, section 5.3).

    Args:
        values: one value per trial.
        clusters: the cluster of each trial.
        bounds: the least and the greatest possible value of a trial. If all clusters agree, the bootstrap shows no
            spread; with bounds, the interval then contains what the clusters cannot exclude: at most a share
            z²/(G + z²) of clusters (Wilson, none of G) might be at either bound. A cluster that differs never narrows it: while fewer
            than :data:`FEW` clusters differ from the commonest value, it also contains the interval of G clusters with that value.

    Raises:
        ValueError: no trials, or lengths that differ.
    """
    sums, counts = _per_cluster(np.asarray(values, dtype=float)[:, None], clusters)
    estimate = float(sums.sum() / counts.sum())
    groups = len(counts)
    if groups < 2:
        return Interval(estimate, -math.inf, math.inf)
    means = np.round(sums[:, 0] / counts, 12)  # rounding errors must not make equal clusters differ
    common, times = max(zip(*np.unique(means, return_counts=True)), key=lambda one: one[1])
    low = high = estimate
    if times < groups:
        draws = _draws(groups, resamples)
        drawn = (draws @ sums[:, 0]) / (draws @ counts)
        level = expanded_level(groups)
        ends = np.quantile(drawn, [level, 1 - level])
        low, high = min(float(ends[0]), estimate), max(float(ends[1]), estimate)
    if bounds is not None and groups - times < FEW:
        share = _z(CONFIDENCE) ** 2 / (groups + _z(CONFIDENCE) ** 2)
        low = min(low, float(common - share * (common - bounds[0])))
        high = max(high, float(common + share * (bounds[1] - common)))
    return Interval(estimate, low, high, groups - 1)


def crossed_mean(values: Sequence[float], rows: Sequence[Hashable], columns: Sequence[Hashable]) -> Interval:
    """Mean of ``values`` over trials that are pairs of two factors (targets and victims), both of which are resampled.

    The bootstrap draws the members of each factor independently with replacement, and the weight of a trial is the product
    of the counts of its row and column (Owen 2007, doi 10.1214/07-AOAS122; conservative). Unlike
    :func:`clustered_mean`, it shows how the mean would vary with other victims.

    Raises:
        ValueError: no trials, or lengths that differ.
    """
    array = np.asarray(values, dtype=float)
    drawn = _crossed_means(array[:, None], rows, columns, RESAMPLES)[:, 0]
    few = min(len(set(rows)), len(set(columns)))
    estimate = float(array.mean())
    if few < 2:
        return Interval(estimate, -math.inf, math.inf)
    level = expanded_level(few)
    low, high = np.quantile(drawn, [level, 1 - level])
    return Interval(estimate, min(float(low), estimate), max(float(high), estimate), few - 1)


def clustered_argmax(
    values: np.ndarray,
    clusters: Sequence[Hashable],
    resamples: int = RESAMPLES,
    crossed: Sequence[Hashable] | None = None,
) -> tuple[int, np.ndarray]:
    """The column with the greatest mean, and the share of bootstrap draws in which each column has the greatest mean.

    Args:
        values: (trials, columns); every trial has all columns.
        clusters: the cluster of each trial.
        crossed: a second factor of each trial that is also resampled, as in :func:`crossed_mean`.

    Returns:
        the column (the first if means are equal) and the shares (columns,), which sum to 1.
    """
    array = np.asarray(values, dtype=float)
    sums, counts = _per_cluster(array, clusters)
    if crossed is None:
        drawn = _draws(len(counts), resamples)
        means = (drawn @ sums) / (drawn @ counts)[:, None]
    else:
        means = _crossed_means(array, clusters, crossed, resamples)
    # rounding must not break ties: the first column within 1e-12 of the greatest mean wins
    best = np.argmax(means >= means.max(axis=1, keepdims=True) - 1e-12, axis=1)
    total = sums.sum(axis=0) / counts.sum()
    first = int(np.argmax(total >= total.max() - 1e-12))
    return first, np.bincount(best, minlength=sums.shape[1]) / len(means)


def stepped(
    estimate: float, steps: Sequence[tuple[float, float]], freedom: float, confidence: float = CONFIDENCE
) -> Interval:
    """The percentile interval of a statistic that takes only a few values, such as the place of a maximum.

    Args:
        steps: each value in ascending order, with the share of bootstrap draws up to and including it.
        freedom: number of clusters less 1, for the expanded percentiles; with none the interval has no ends.
    """
    if freedom < 1:
        return Interval(estimate, -math.inf, math.inf, freedom, steps=tuple(steps))
    tail = expanded_level(int(freedom) + 1, confidence)
    low, high = (
        next((value for value, reach in steps if reach >= level - 1e-12), steps[-1][0])
        for level in (tail, 1 - tail)
    )
    return Interval(estimate, min(low, estimate), max(high, estimate), freedom, steps=tuple(steps))


def expanded_level(groups: int, confidence: float = CONFIDENCE) -> float:
    r"""The lower percentile level for G clusters: :math:`\Phi(\sqrt{G/(G-1)}\; t_{\alpha/2, G-1})`."""
    from scipy import special

    quantile = t_quantile((1 - confidence) / 2, groups - 1)
    return float(special.ndtr(math.sqrt(groups / (groups - 1)) * quantile))


def _per_cluster(values: np.ndarray, clusters: Sequence[Hashable]) -> tuple[np.ndarray, np.ndarray]:
    """Sum of the values (G, columns) and number of trials (G,) of each cluster."""
    if len(values) == 0 or len(values) != len(clusters):
        found = f"{len(values)} values, {len(clusters)} clusters"
        raise ValueError(f"bootstrap: found {found}, allowed: as many of both, at least 1")
    order = {name: rank for rank, name in enumerate(dict.fromkeys(clusters))}
    index = np.array([order[name] for name in clusters])
    sums = np.zeros((len(order), values.shape[1]))
    np.add.at(sums, index, values)
    return sums, np.bincount(index, minlength=len(order)).astype(float)


def _crossed_means(
    values: np.ndarray, rows: Sequence[Hashable], columns: Sequence[Hashable], resamples: int
) -> np.ndarray:
    """Means (draws, columns of values) with both factors resampled; draws without any trial are left out."""
    weights = np.ones((1, 1))
    for seed, factor in ((SEED, rows), (SEED + 1, columns)):
        order = {name: rank for rank, name in enumerate(dict.fromkeys(factor))}
        if len(values) == 0 or len(factor) != len(values):
            found = f"{len(values)} values, {len(factor)} members"
            raise ValueError(f"bootstrap: found {found}, allowed: as many of both, at least 1")
        weights = weights * _draws(len(order), resamples, seed)[:, [order[name] for name in factor]]
    totals = weights.sum(1)
    hit = totals > 0
    return (weights[hit] @ values) / totals[hit, None]


@lru_cache(maxsize=16)
def _draws(groups: int, resamples: int, seed: int = SEED) -> np.ndarray:
    """The number of times each cluster is drawn, (resamples, groups); read-only, because calls share it."""
    generator = np.random.default_rng(seed)
    drawn = generator.multinomial(groups, np.full(groups, 1 / groups), size=resamples).astype(float)
    drawn.flags.writeable = False
    return drawn


def t_quantile(level: float, freedom: float) -> float:
    """The quantile of Student's distribution; with infinitely many degrees of freedom that of the normal distribution."""
    if math.isinf(freedom):
        return NormalDist().inv_cdf(level)
    from scipy import special

    return float(special.stdtrit(freedom, level))


def _z(confidence: float) -> float:
    return t_quantile(0.5 + confidence / 2, math.inf)
