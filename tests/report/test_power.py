"""Power and numbers of units, against simulations of the intervals that the claims use and against known values."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import stats

from relearn.report import power
from relearn.report.statistics import (
    clopper_pearson,
    clustered_share,
    expanded_level,
    student_mean,
    student_mean_of_table,
)
from relearn.report.verdicts import widened

DRAWS = 20_000


def intervals(n: int, mean: float, sd: float) -> tuple[np.ndarray, np.ndarray]:
    """Student's 95% intervals of many samples of n normal values, in float64."""
    values = np.random.default_rng(5).normal(mean, sd, (DRAWS, n))
    half = stats.t.ppf(0.975, n - 1) * values.std(axis=1, ddof=1) / np.sqrt(n)
    return values.mean(axis=1) - half, values.mean(axis=1) + half


def test_the_simulated_interval_is_the_one_of_the_claims() -> None:
    values = np.random.default_rng(5).normal(0.3, 2.0, (DRAWS, 7))[11]
    ours = student_mean(list(values))
    low, high = (ends[11] for ends in intervals(7, 0.3, 2.0))
    assert (ours.low, ours.high) == pytest.approx((low, high))


@pytest.mark.parametrize(("n", "distance", "sd"), [(3, 1.0, 0.5), (8, 0.7, 1.0), (25, 0.45, 0.7)])
def test_power_of_a_mean_is_the_share_of_intervals_beyond_the_bound(
    n: int, distance: float, sd: float
) -> None:
    low, _ = intervals(n, 10.0 + distance, sd)  # the bound is 10
    assert power.of_mean(n, distance, sd) == pytest.approx((low > 10.0).mean(), abs=0.012)


@pytest.mark.parametrize("own", [2, 6])
def test_power_of_the_best_of_several_is_that_of_the_corrected_interval(own: int) -> None:
    n, distance, sd = 12, 0.8, 1.0
    values = np.random.default_rng(5).normal(distance, sd, (2000, n))
    wide = [widened(student_mean(list(row)), own).low > 0 for row in values]
    found = power.of_mean(n, distance, sd, own=own)
    assert found == pytest.approx(np.mean(wide), abs=0.03)
    assert found < power.of_mean(n, distance, sd) - 0.05
    assert (power.units_for_mean(distance, sd, own=own) or 0) > (power.units_for_mean(distance, sd) or 0)


@pytest.mark.parametrize(
    ("n", "margin", "sd"), [(4, 1.0, 0.4), (5, 0.02, 0.016), (12, 0.5, 0.5), (30, 0.5, 0.9)]
)
def test_power_of_equivalence_is_the_share_of_intervals_inside(n: int, margin: float, sd: float) -> None:
    low, high = intervals(n, 0.0, sd)
    inside = ((low > -margin) & (high < margin)).mean()
    assert power.of_equivalence(n, margin, sd) == pytest.approx(inside, abs=0.012)


@pytest.mark.parametrize(("n", "share", "bound"), [(72, 1.0, 0.95), (200, 0.99, 0.97), (50, 0.2, 0.4)])
def test_power_of_a_share_is_the_sum_over_counts(n: int, share: float, bound: float) -> None:
    chances = stats.binom.pmf(np.arange(n + 1), n, share)
    above = share > bound
    excluded = [
        (ends.low >= bound if above else ends.high <= bound)
        for ends in (clopper_pearson(count, n) for count in range(n + 1))
    ]
    (found,) = power.of_shares(np.array([n]), share, bound)
    assert found == pytest.approx(float(chances[excluded].sum()), abs=1e-12)


def test_samples_do_not_remove_the_spread_between_a_few_seeds() -> None:
    """The interval of a table of seeds by samples, whose three standard deviations are known."""
    seeds, of_samples, noise, distance = 5, 0.7, 0.4, 0.2
    sd = math.sqrt(of_samples**2 + 2 * noise**2 / seeds)
    rng = np.random.default_rng(11)

    def share(samples: int, of_seeds: float) -> float:
        """How often the interval is above 0."""
        tables = distance + noise * rng.normal(size=(1_000, seeds, samples))
        tables += of_seeds * rng.normal(size=(1_000, seeds, 1)) + of_samples * rng.normal(
            size=(1_000, 1, samples)
        )
        return float(np.mean([student_mean_of_table(one).low > 0 for one in tables]))

    for samples, of_seeds in ((50, 0.1), (400, 0.1), (400, 0.2)):
        found = power.of_mean(samples, distance, sd, of_seeds**2 / seeds, seeds - 1)
        assert found == pytest.approx(share(samples, of_seeds), abs=0.04)
    alone = power.units_for_mean(distance, sd)
    assert alone == 111 and share(alone, 0.2) < 0.5  # the samples alone promise too much
    assert power.units_for_mean(distance, sd, 0.2**2 / seeds, seeds - 1) is None
    few = power.units_for_mean(distance, sd, 0.05**2 / seeds, seeds - 1)
    assert few is not None and share(few, 0.05) == pytest.approx(power.POWER, abs=0.04)


def test_several_comparisons_are_decided_together() -> None:
    """Twelve comparisons over the same seeds: independent, and all alike."""
    powers = [partial(power.of_mean, distance=1.0, sd=sd) for sd in [0.58] * 4 + [0.25] * 8]
    alone, n = power.units_for_mean(1.0, 0.58), power.together(powers)
    assert (alone, n, power.together(powers[:1])) == (5, 7, 5)
    rng = np.random.default_rng(2)

    def share(units: int) -> float:
        """How often all twelve intervals are above 0."""
        sds = np.array([0.58] * 4 + [0.25] * 8)
        values = rng.normal(1.0, sds[:, None], (5_000, 12, units))
        half = stats.t.ppf(0.975, units - 1) * values.std(axis=2, ddof=1) / math.sqrt(units)
        return float((values.mean(axis=2) > half).all(axis=1).mean())

    assert share(5) < 0.55  # the greatest number of one comparison alone is no number for all
    assert share(7) >= power.POWER > share(6)
    low, _ = intervals(7, 1.0, 0.58)  # if all are alike, one decides all, and the bound is on the safe side
    assert (low > 0).mean() >= power.POWER
    assert power.together([lambda n: 0.9] * 3) is None


def test_always_takes_72_trainings_without_an_exception() -> None:
    assert power.trials_for_share(1.0, 0.95) == 72


def test_the_fewest_units_have_the_power_and_one_less_has_not() -> None:
    for distance, sd in ((0.1, 0.162), (1.0, 1.0), (5.0, 0.1)):
        n = power.units_for_mean(distance, sd)
        assert n is not None and power.of_mean(n, distance, sd) >= power.POWER
        assert n == 2 or power.of_mean(n - 1, distance, sd) < power.POWER
    n = power.units_for_equivalence(0.02, 0.016)
    assert n is not None and power.of_equivalence(n, 0.02, 0.016) >= power.POWER > power.of_equivalence(
        n - 1, 0.02, 0.016
    )


def test_textbook_number_for_a_paired_t_test() -> None:
    # d = 0.5, two-sided 5%, 80% power: 34 pairs in every table of the paired t test
    assert power.units_for_mean(0.5, 1.0) == 34


def test_no_number_where_there_is_no_distance_or_too_many_are_needed() -> None:
    assert power.units_for_mean(0.0, 1.0) is None
    assert power.units_for_mean(1e-6, 1.0) is None
    assert power.trials_for_share(0.9500001, 0.95, most=2_000) is None
    assert power.trials_for_share(0.95, 0.95) is None


def test_a_median_needs_about_half_as_many_again() -> None:
    # the interval of medians in the claims: percentiles of a bootstrap over seeds, at expanded levels
    n, distance, sd = 25, 0.5, 0.7
    rng = np.random.default_rng(3)
    picks = rng.integers(0, n, (1_000, n))
    level = expanded_level(n)
    hits = [np.quantile(np.median(rng.normal(distance, sd, n)[picks], axis=1), level) > 0 for _ in range(300)]
    assert power.of_mean(n / power.MEDIAN, distance, sd) == pytest.approx(np.mean(hits), abs=0.08)


@pytest.mark.parametrize(("share", "bound"), [(0.9, 0.8), (0.2, 0.35)])
def test_clusters_need_as_many_times_more_as_the_design_effect(share: float, bound: float) -> None:
    size, correlation = 4, 0.3  # trials of a target, and how much they go together
    effect = 1 + (size - 1) * correlation
    trials = power.trials_for_share(share, bound)
    assert trials is not None
    clusters = math.ceil(trials * effect / size)
    rng = np.random.default_rng(7)
    scale = (1 - correlation) / correlation
    hits = []
    for _ in range(400):
        chances = rng.beta(share * scale, (1 - share) * scale, clusters)
        found = clustered_share(list(rng.binomial(size, chances) / size), list(range(clusters)), units=size)
        hits.append(found.low >= bound if share > bound else found.high <= bound)
    assert np.mean(hits) == pytest.approx(power.POWER, abs=0.08)
