"""Intervals: Wilson by its equation and exact coverage, the bootstrap by normal theory and by clusters."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from relearn.measures.intervals import (
    Interval,
    bootstrap_mean,
    equivalent,
    expanded_level,
    paired_difference,
    wilson,
)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 300), st.floats(0, 1), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_solves_its_equation_and_is_scipys(n, share, confidence):
    successes = round(share * n)
    found = wilson(successes, n, confidence=confidence)
    theirs = stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    assert (found.low, found.high) == pytest.approx(tuple(theirs), abs=1e-12)
    assert (found.estimate, found.n) == (
        successes / n,
        n,
    ) and 0 <= found.low <= found.estimate <= found.high <= 1
    z = stats.norm.ppf((1 + confidence) / 2)
    for end in (found.low, found.high):
        if 0 < end < 1:
            assert abs(found.estimate - end) == pytest.approx(z * math.sqrt(end * (1 - end) / n))


def coverage(n, rates, interval):
    """The probability, summed over all outcomes, that the interval of an outcome holds the true rate."""
    low, high = np.array([interval(x, n) for x in range(n + 1)]).T
    return np.array([stats.binom.pmf(np.arange(n + 1), n, p)[(low <= p) & (p <= high)].sum() for p in rates])


@pytest.mark.parametrize("n", [20, 50, 160])
def test_wilson_covers_what_it_says_where_the_simple_interval_does_not(n):
    def simple(x, n):
        half = 1.96 * math.sqrt(x / n * (1 - x / n) / n)
        return x / n - half, x / n + half

    rates = np.linspace(0.01, 0.99, 197)
    ours, theirs = coverage(n, rates, lambda x, n: wilson(x, n)[1:3]), coverage(n, rates, simple)
    assert abs(ours.mean() - 0.95) < 0.01 and ours.min() > 0.83
    assert theirs.mean() < ours.mean() - 0.01 and theirs.min() < 0.8


def test_wilson_without_trials_knows_nothing_and_never_leaves_the_unit_interval():
    nothing = wilson(0, 0)
    assert math.isnan(nothing.estimate) and nothing[1:] == (0.0, 1.0, 0)
    assert wilson(0, 20).low == 0 and wilson(20, 20).high == 1
    assert wilson(0, 20).high == pytest.approx(1 - wilson(20, 20).low)
    assert 0.1 < wilson(0, 20).high < 0.2  # no success in 20 does not mean never


@pytest.mark.parametrize(("successes", "trials"), [(3, 2), (-1, 5), (0.5, 5), (0, -1)])
def test_counts_that_cannot_be_are_refused(successes, trials):
    with pytest.raises(ValueError, match="allowed: whole, 0 <= successes <= trials"):
        wilson(successes, trials)


@pytest.mark.parametrize("n", [10, 40, 200])
def test_the_bootstrap_of_a_normal_mean_is_students_interval(n):
    values = np.random.default_rng(n).normal(2, 3, n)
    found = bootstrap_mean(values, resamples=40_000)
    half = stats.t.ppf(0.975, n - 1) * values.std(ddof=1) / math.sqrt(n)
    assert found.estimate == pytest.approx(values.mean()) and found.n == n
    assert (found.low, found.high) == pytest.approx(
        (values.mean() - half, values.mean() + half), abs=0.12 * half
    )


def test_the_level_is_wider_for_few_clusters_and_plain_for_many():
    levels = [expanded_level(g, 0.95) for g in (3, 5, 20, 100_000)]
    assert levels == sorted(levels) and levels[0] < 0.001 and levels[-1] == pytest.approx(0.025, abs=1e-5)


def clustered(rng, targets, victims):
    """Rates in which the target matters: hard for all victims or easy for all."""
    hard = rng.random(targets) < 0.5
    values = rng.random((targets, victims)) < np.where(hard, 0.05, 0.9)[:, None]
    return values.ravel().astype(float), np.repeat(np.arange(targets), victims)


def test_the_bootstrap_covers_where_trials_come_in_clusters_and_fails_where_they_are_ignored():
    rng = np.random.default_rng(0)
    covered = {True: 0, False: 0}
    for repetition in range(200):
        values, clusters = clustered(rng, 20, 8)
        for known in covered:
            found = bootstrap_mean(values, clusters if known else None, resamples=400, seed=repetition)
            covered[known] += found.low <= 0.475 <= found.high
    # of 200 repetitions at 95% fewer than 178 would come once in ten thousand
    assert covered[True] >= 178 and covered[False] < 150


def test_copies_of_a_trial_in_its_cluster_teach_nothing():
    values = np.random.default_rng(0).normal(size=15)
    alone = bootstrap_mean(values)
    copied = bootstrap_mean(np.repeat(values, 6), np.repeat(np.arange(15), 6))
    assert copied == pytest.approx(alone)
    ignored = bootstrap_mean(np.repeat(values, 6))
    assert ignored.high - ignored.low < 0.6 * (alone.high - alone.low)


def test_clusters_of_unequal_size_weigh_by_their_trials():
    values, clusters = np.array([1.0, 1, 1, 0, 0.5]), np.array(["a", "a", "a", "b", "c"])
    found = bootstrap_mean(values, clusters)
    assert found.estimate == pytest.approx(0.7) and found.n == 3
    assert 0 <= found.low < 0.7 < found.high <= 1


def test_the_bootstrap_approaches_the_enumeration_of_all_resamples():
    """Four clusters of very different size: 4^4 resamples, each the mean of all its trials."""
    groups = [np.array([0.0]), np.array([1.0, 3.0]), np.linspace(5, 7, 12), np.array([2.0, 2.5, 4.0])]
    means = [np.concatenate([groups[i] for i in drawn]).mean() for drawn in product(range(4), repeat=4)]
    level = expanded_level(4, 0.5)
    found = bootstrap_mean(
        np.concatenate(groups), np.repeat(range(4), [1, 2, 12, 3]), confidence=0.5, resamples=100_000
    )
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(means, [level, 1 - level])), abs=0.05)


def test_pairs_share_what_they_share():
    """Two attacks on targets of very different difficulty: the difference is sure though each rate is not."""
    rng = np.random.default_rng(1)
    difficulty = np.repeat(rng.normal(0, 10, 20), 4)
    ours, others = difficulty + rng.normal(1, 0.1, 80), difficulty + rng.normal(0, 0.1, 80)
    clusters = np.repeat(np.arange(20), 4)
    found = paired_difference(ours, others, clusters, seed=3)
    assert found == bootstrap_mean(ours - others, clusters, seed=3)
    assert found.low > 0.9 and found.high < 1.1
    swapped = paired_difference(others, ours, clusters, seed=3)
    assert swapped[:3] == pytest.approx((-found.estimate, -found.high, -found.low), abs=0.01)
    unpaired = bootstrap_mean(ours, clusters)
    assert unpaired.high - unpaired.low > 5


def test_the_seed_decides_and_the_order_of_trials_does_not():
    values, clusters = clustered(np.random.default_rng(4), 20, 3)
    values = values + np.random.default_rng(5).normal(size=60)
    found = bootstrap_mean(values, clusters, seed=9)
    assert bootstrap_mean(values, clusters, seed=9) == found != bootstrap_mean(values, clusters, seed=10)
    order = np.random.default_rng(6).permutation(60)
    assert bootstrap_mean(values[order], clusters[order], seed=9) == pytest.approx(found)
    state = np.random.get_state()[1].copy()
    bootstrap_mean(values, clusters)
    assert (np.random.get_state()[1] == state).all()


def test_a_large_bootstrap_is_drawn_in_batches():
    values = np.random.default_rng(0).normal(size=300_000)
    found = bootstrap_mean(values, resamples=40)
    assert found.low < values.mean() < found.high and found.high - found.low < 0.05


def test_where_there_is_no_spread_to_see():
    assert bootstrap_mean([0.3] * 5)[:3] == pytest.approx((0.3, 0.3, 0.3))
    assert bootstrap_mean([1.0, 2.0], ["a", "a"]) == Interval(1.5, -math.inf, math.inf, 1)
    nothing = bootstrap_mean([])
    assert math.isnan(nothing.estimate) and nothing[1:] == (-math.inf, math.inf, 0)


def test_equivalence_needs_the_whole_interval():
    assert equivalent(Interval(0.001, -0.004, 0.006, 20), 0.01)
    assert not equivalent(Interval(0.0, -0.02, 0.02, 20), 0.01)  # no difference found, but too little known
    assert not equivalent(Interval(0.0, -0.002, 0.01, 20), 0.01)  # an end on the margin is not within
    assert not equivalent(Interval(0.5, 0.4, 0.6, 20), 0.01)
    assert not equivalent(bootstrap_mean([0.0]), 0.01) and not equivalent(bootstrap_mean([]), 0.01)
    with pytest.raises(ValueError, match="margin is 0; allowed: above 0"):
        equivalent(Interval(0.0, 0.0, 0.0, 1), 0)


def test_equivalence_is_two_one_sided_tests():
    """Both one-sided t tests at 2.5% reject exactly when the 95% interval lies within the margins."""
    decided = set()
    for seed in range(40):
        values = np.random.default_rng(seed).normal(0.3, 1, 60)
        below = stats.ttest_1samp(values, -0.6, alternative="greater").pvalue
        above = stats.ttest_1samp(values, 0.6, alternative="less").pvalue
        worst = max(below, above)
        if 0.015 < worst < 0.04:  # too close for a bootstrap to call
            continue
        assert equivalent(bootstrap_mean(values), 0.6) == (worst < 0.025)
        decided.add(worst < 0.025)
    assert decided == {True, False}


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: bootstrap_mean([1.0, 2.0], [0]), r"values are \(2,\), clusters \(1,\)"),
        (lambda: bootstrap_mean([[1.0]]), r"allowed: \(trials,\)"),
        (lambda: bootstrap_mean([1.0, math.nan]), r"values\[1\] is not finite"),
        (lambda: bootstrap_mean([1.0, 2.0], resamples=0), "resamples is 0"),
        (lambda: bootstrap_mean([1.0, 2.0], confidence=1.0), r"confidence is 1\.0"),
        (lambda: wilson(1, 2, confidence=95), "confidence is 95"),
        (lambda: paired_difference([1.0], [1.0, 2.0]), r"ours has shape \(1,\), others \(2,\)"),
    ],
)
def test_what_is_refused(call, match):
    with pytest.raises(ValueError, match=match):
        call()
