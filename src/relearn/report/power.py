r"""Sample sizes that decide a claim: power for a paired mean, for equivalence and for a share, at 95% confidence.

A comparison is decided in favour of the claim if its whole interval is on the claimed side. With the true effect at distance
:math:`\delta` from the claimed bound and a standard deviation :math:`\sigma` of one unit's value, this has
probability

.. math:: P\big(T_{n-1}(\delta\sqrt n/\sigma) > t_{0.975,\,n-1}\big)

where :math:`T_\nu(\lambda)` has the noncentral t distribution. A median of normal values needs :math:`\pi/2` times as
many units. If a claim requires several comparisons, all of them must be decided (:func:`together`). All computations are deterministic
and in float64; the tests compare them with simulations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from relearn.report.comparisons import Units
from relearn.report.statistics import CONFIDENCE

POWER = 0.8
MOST = 1_000_000
"""Units beyond which no number is looked for."""
MEDIAN = math.pi / 2
"""Variance of a median of normal values relative to that of their mean, for many of them."""


@dataclass(frozen=True)
class Crossed(Units):
    """Units that are all measured at the same few seeds, as test samples are: more of them leave the spread between the seeds as it is.

    Args:
        fixed: variance of the estimate that comes from the seeds.
        freedom: its degrees of freedom, the number of seeds less 1.
    """

    fixed: float = 0.0
    freedom: int = 1


def of_mean(
    n: float, distance: float, sd: float, fixed: float = 0.0, freedom: float = math.inf, own: int = 1
) -> float:
    r"""Power of Student's interval over n paired values to exclude the bound.

    With ``fixed`` the interval is that of :func:`relearn.report.statistics.student_mean_of_table`: its variance is
    :math:`V = \sigma^2/n + F`, and :math:`\nu = V^2 / ((\sigma^2/n)^2/(n-1) + F^2/f)` (Satterthwaite 1946, doi 10.2307/3002019).

    Args:
        n: number of values, at least 2; may be fractional.
        distance: distance of the true effect from the bound, on the claimed side, in units of the effect.
        sd: standard deviation of one value, above 0.
        fixed: F, a part of the mean's variance that does not fall with n.
        freedom: f, its degrees of freedom.
        own: number of candidates of which the claim's own side is the best; the end of the interval is corrected for them.
    """
    from scipy import stats

    falling = sd**2 / n
    variance = falling + fixed
    degrees = variance**2 / (falling**2 / (n - 1) + fixed**2 / freedom)
    critical = stats.t.isf((1 - CONFIDENCE) / 2 / own, degrees)
    return float(stats.nct.sf(critical, degrees, distance / math.sqrt(variance)))


def of_equivalence(n: float, margin: float, sd: float) -> float:
    r"""Probability that the whole interval is inside :math:`\pm` margin around the true effect.

    .. math:: \int P(|\bar x| + t\, s/\sqrt n \le m \mid s)\, p(s)\, ds
    """
    from scipy import integrate, stats

    freedom = n - 1
    critical = float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom))
    error = sd / math.sqrt(n)

    def inside(chi_square: float) -> float:
        half = critical * error * math.sqrt(chi_square / freedom)
        room = (margin - half) / error
        within = 2 * stats.norm.cdf(room) - 1 if room > 0 else 0.0
        return float(within * stats.chi2.pdf(chi_square, freedom))

    most = (
        freedom * (margin / (critical * error)) ** 2
    )  # beyond this, the interval alone is wider than the range
    top = min(most, float(stats.chi2.ppf(1 - 1e-12, freedom)))
    middle = [float(stats.chi2.ppf(level, freedom)) for level in (1e-9, 0.5)]
    points = [point for point in middle if point < top]
    return float(integrate.quad(inside, 0.0, top, points=points or None, limit=200)[0])


def of_shares(n: np.ndarray, share: float, bound: float) -> np.ndarray:
    """Power of the Clopper-Pearson interval to exclude a bound other than the true share, for each number of trials."""
    from scipy import stats

    if share < bound:
        share, bound = 1 - share, 1 - bound
    # fewest successes whose lower end reaches the bound: P(X >= k | bound) <= half of (1 - CONFIDENCE)
    fewest = stats.binom.isf((1 - CONFIDENCE) / 2, n, bound) + 1
    return np.asarray(stats.binom.sf(fewest - 1, n, share))


def units_for_mean(
    distance: float, sd: float, fixed: float = 0.0, freedom: float = math.inf, own: int = 1
) -> int | None:
    """Fewest values (at least 2) with the power :data:`POWER` for a mean; None beyond MOST or if the distance is not above 0."""
    return _fewest(lambda n: of_mean(n, distance, sd, fixed, freedom, own)) if distance > 0 else None


def units_for_equivalence(margin: float, sd: float) -> int | None:
    """Fewest values with the power :data:`POWER` for equivalence; None beyond MOST or if the margin is not above 0."""
    return _fewest(lambda n: of_equivalence(n, margin, sd)) if margin > 0 else None


def trials_for_share(share: float, bound: float, most: int = 100_000) -> int | None:
    """Fewest trials from which on the power for a share stays at or above :data:`POWER`; None beyond ``most``.

    Counts are whole, so power rises in a saw-tooth; every n from the answer up to at least twice the answer has this power.
    """
    if share == bound:
        return None
    top = 64
    while top <= most:
        counts = np.arange(2, top + 1)
        short = counts[of_shares(counts, share, bound) < POWER]
        last = int(short[-1]) if len(short) else 1
        if last < top // 2:
            return last + 1
        top *= 2
    return None


def units_without_exception(share: float, bound: float) -> int:
    """Fewest units, all of which agree with ``share``, whose Clopper-Pearson interval lies on its side of the bound."""
    agree = bound if share > bound else 1 - bound
    return math.ceil(math.log((1 - CONFIDENCE) / 2) / math.log(agree))


def together(powers: Sequence[Callable[[int], float]], least: int = 2) -> int | None:
    r"""Fewest units, from ``least`` on, with which several comparisons are all decided with the power :data:`POWER`; None beyond MOST.

    The chance that all are is at least :math:`1 - \sum_i (1 - P_i(n))`, however they depend on each other (Bonferroni's inequality).

    Args:
        powers: the power P_i of each comparison alone, by the number of units.
    """
    return _fewest(lambda n: 1 - sum(1 - power_at(n) for power_at in powers), least)


def _fewest(power_at: Callable[[int], float], least: int = 2) -> int | None:
    """Smallest n from ``least`` with the power :data:`POWER`, by doubling and bisection; assumes that power grows with n."""
    low, high = least - 1, least
    while power_at(high) < POWER:
        low, high = high, 2 * high
        if high > MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_at(middle) >= POWER else (middle, high)
    return high
