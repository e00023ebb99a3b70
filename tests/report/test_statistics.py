"""Intervals against slow truths: defining equation, enumeration, Student's t, simulated coverage."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from relearn.report.statistics import (
    Interval,
    clopper_pearson,
    clustered_argmax,
    clustered_mean,
    clustered_share,
    crossed_mean,
    expanded_level,
    mean_spread,
    stepped,
    student_mean,
    student_mean_of_table,
    wilson,
)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_ends_solve_the_score_equation(counts):
    successes, n = counts
    found = wilson(successes, n)
    z = stats.norm.ppf(0.975)

    def score(p):  # (p_hat - p)^2 = z^2 p (1 - p) / n at both ends
        return (successes / n - p) ** 2 - z * z * p * (1 - p) / n

    assert score(found.low) == pytest.approx(0, abs=1e-12)
    assert score(found.high) == pytest.approx(0, abs=1e-12)
    assert 0 <= found.low <= found.estimate <= found.high <= 1


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (3, 10), (10, 10), (96, 102)])
def test_wilson_agrees_with_scipy(successes, n):
    truth = stats.binomtest(successes, n).proportion_ci(method="wilson")
    found = wilson(successes, n)
    assert (found.low, found.high) == pytest.approx((truth.low, truth.high), abs=1e-12)


def test_wilson_is_not_the_normal_approximation():
    z = stats.norm.ppf(0.975)
    naive = 0.1 - z * math.sqrt(0.1 * 0.9 / 20)
    assert naive < 0 < wilson(2, 20).low


@pytest.mark.parametrize(("successes", "n"), [(1, 0), (-1, 5), (6, 5)])
def test_wilson_refuses_impossible_counts(successes, n):
    with pytest.raises(ValueError, match="allowed: 0 <= successes <= n"):
        wilson(successes, n)


def test_mean_spread_by_hand():
    assert mean_spread([1.0, 2.0, 6.0]) == pytest.approx((3.0, math.sqrt((4 + 1 + 9) / 2)))
    assert mean_spread([5.0]) == (5.0, None)


def test_expanded_level_is_below_the_nominal_one_and_reaches_it_with_many_clusters():
    levels = [expanded_level(groups) for groups in (2, 5, 20, 100, 100_000)]
    assert levels == sorted(levels)
    assert levels[-1] == pytest.approx(0.025, abs=1e-5)
    assert levels[2] < 0.02


@pytest.mark.parametrize("groups", [8, 12, 40])
def test_interval_of_independent_trials_is_students_t(groups):
    values = 2.0 + stats.norm.ppf((np.arange(groups) + 0.5) / groups)  # as normal as so few points can be
    found = clustered_mean(values, range(groups), resamples=50_000)
    half = stats.t.ppf(0.975, groups - 1) * values.std(ddof=1) / math.sqrt(groups)
    assert found.estimate == pytest.approx(values.mean())
    # the plain percentile interval is 22, 15 and 4 percent too narrow
    assert found.low == pytest.approx(values.mean() - half, abs=0.035 * half)
    assert found.high == pytest.approx(values.mean() + half, abs=0.035 * half)


def test_repeating_the_trials_of_a_cluster_adds_no_knowledge():
    values = np.random.default_rng(2).normal(size=12)
    clusters = list(range(12))
    once = clustered_mean(values, clusters)
    again = clustered_mean(np.repeat(values, 7), np.repeat(clusters, 7))
    assert (again.low, again.estimate, again.high) == pytest.approx((once.low, once.estimate, once.high))
    taken_as_independent = clustered_mean(np.repeat(values, 7), range(84))
    assert taken_as_independent.high - taken_as_independent.low < 0.5 * (once.high - once.low)


def test_clusters_of_unequal_size_weigh_by_their_trials():
    sizes, sums = np.array([1, 2, 9, 2, 1, 5]), np.array([0.0, 1.0, 2.0, 1.6, 1.0, 1.5])
    values = [total / size for total, size in zip(sums, sizes) for _ in range(size)]
    found = clustered_mean(values, np.repeat(range(6), sizes), resamples=200_000)
    every = np.array(list(itertools.product(range(6), repeat=6)))
    drawn, level = sums[every].sum(1) / sizes[every].sum(1), expanded_level(6)
    assert found.estimate == pytest.approx(sums.sum() / 20)
    assert found.low == pytest.approx(np.quantile(drawn, level), abs=0.01)
    assert found.high == pytest.approx(np.quantile(drawn, 1 - level), abs=0.01)


def test_agreeing_clusters_say_what_they_exclude_only_with_bounds():
    same = [0.0] * 60, np.repeat(range(20), 3)
    bare = clustered_mean(*same)
    assert (bare.low, bare.high) == (0.0, 0.0)
    bounded = clustered_mean(*same, bounds=(-1.0, 1.0))
    assert bounded.high == pytest.approx(wilson(0, 20).high)  # twenty clusters, not sixty trials
    assert bounded.low == pytest.approx(-wilson(0, 20).high)
    full = clustered_mean([1.0] * 20, range(20), bounds=(0.0, 1.0))
    assert (full.low, full.high) == pytest.approx((wilson(20, 20).low, 1.0))


@pytest.mark.parametrize("targets", [20, 50])
def test_a_lone_target_that_differs_never_narrows_a_paired_difference(targets):
    """Below six targets of one direction the sign test does not exclude chance: 2^-5 > 2.5%. Six decide, 2^-6 < 2.5%."""
    none = clustered_mean([0.0] * targets, range(targets), (-1.0, 1.0))
    for count in range(targets + 1):
        values = [1.0] * count + [0.0] * (targets - count)
        found = clustered_mean(values, range(targets), (-1.0, 1.0))
        assert (found.low > 0) == (count >= 6)
        assert count >= 6 or count >= targets / 2 or (found.low <= none.low and found.high >= none.high)
    assert clustered_mean([1.0] + [0.0] * (targets - 1), range(targets)).low == 0.0  # a mean without bounds


def test_rare_contrary_outcomes_are_seldom_taken_for_a_lead():
    """Mean 0: each of 20 targets gains 1/4 with probability 0.2 and loses 1 with 0.05. Without the floor a fifth show a lead."""
    rng = np.random.default_rng(11)
    drawn = rng.choice([0.25, -1.0, 0.0], p=[0.2, 0.05, 0.75], size=(1500, 20))
    leads = [clustered_mean(one, range(20), (-1.0, 1.0), resamples=500).low > 0 for one in drawn]
    plain = [clustered_mean(one, range(20), resamples=500).low > 0 for one in drawn]
    assert np.mean(leads) < 0.5 * np.mean(plain) and np.mean(plain) > 0.15


def test_one_cluster_gives_no_interval():
    found = clustered_mean([0.0, 1.0], ["a", "a"])
    assert (found.estimate, found.low, found.high) == (0.5, -math.inf, math.inf)


def test_equal_data_give_equal_intervals():
    values = np.random.default_rng(3).normal(size=30)
    clusters = [index % 6 for index in range(30)]
    assert clustered_mean(values, clusters) == clustered_mean(values, clusters)


def test_the_interval_covers_the_truth_and_the_unclustered_one_does_not():
    generator = np.random.default_rng(4)
    clusters = np.repeat(range(20), 4)
    covered = naive = 0
    for _ in range(300):
        values = np.repeat(generator.normal(size=20), 4) + 0.3 * generator.normal(size=80)
        right = clustered_mean(values, clusters, resamples=1000)
        wrong = clustered_mean(values, range(80), resamples=1000)
        covered += right.low <= 0 <= right.high
        naive += wrong.low <= 0 <= wrong.high
    assert covered / 300 >= 0.91  # 0.95 less three standard errors of 300 trials
    assert naive / 300 <= 0.80


def test_no_trials_is_an_error():
    with pytest.raises(ValueError, match="found 0 values"):
        clustered_mean([], [])
    with pytest.raises(ValueError, match="found 2 values, 1 clusters"):
        clustered_mean([1.0, 2.0], ["a"])


def test_argmax_shares_against_all_draws_of_three_clusters():
    values = np.array([[1.0, 0.0, 0.4], [0.0, 1.0, 0.4], [0.2, 0.1, 0.9]])
    best, shares = clustered_argmax(values, "abc", resamples=200_000)
    truth = np.zeros(3)
    for drawn in itertools.product(range(3), repeat=3):
        truth[np.argmax(values[list(drawn)].mean(0))] += 1 / 27
    assert best == int(np.argmax(values.mean(0)))
    assert shares == pytest.approx(truth, abs=0.005)
    assert shares.sum() == pytest.approx(1)


def test_argmax_weighs_clusters_of_unequal_size_by_their_trials():
    """Nine trials of one target prefer the first column, one trial each of two targets the second."""
    values = np.array([[1.0, 0.0]] * 9 + [[0.0, 1.0]] * 2)
    clusters = [0] * 9 + [1, 2]
    best, shares = clustered_argmax(values, clusters, resamples=200_000)
    truth = np.zeros(2)
    for drawn in itertools.product(range(3), repeat=3):
        truth[np.argmax(np.concatenate([values[np.equal(clusters, one)] for one in drawn]).mean(0))] += 1 / 27
    assert best == 0 and shares == pytest.approx(truth, abs=0.005)


def test_argmax_of_a_dominant_column_is_certain_and_of_equal_columns_the_first():
    lead = np.array([[0.1, 0.5], [0.2, 0.9]])
    assert clustered_argmax(lead, "ab")[1].tolist() == [0.0, 1.0]
    best, shares = clustered_argmax(np.full((6, 3), 0.1), "aabbcc")
    assert (best, shares.tolist()) == (0, [1.0, 0.0, 0.0])


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_clopper_pearson_ends_leave_half_the_error_on_each_side(counts):
    successes, n = counts
    found = clopper_pearson(successes, n)
    if successes:
        assert stats.binom.sf(successes - 1, n, found.low) == pytest.approx(0.025, abs=1e-9)
    if successes < n:
        assert stats.binom.cdf(successes, n, found.high) == pytest.approx(0.025, abs=1e-9)
    assert 0 <= found.low <= found.estimate <= found.high <= 1 and found.low < found.high
    with pytest.raises(ValueError, match="allowed: 0 <= successes <= n"):
        clopper_pearson(n + 1, n)


def test_equal_shares_are_no_certainty():
    three = clustered_share([1.0] * 3, range(3))
    assert (three.estimate, three.high) == (1.0, 1.0) and three.low == pytest.approx(0.025 ** (1 / 3))
    none = clustered_share([0.0] * 80, [index // 4 for index in range(80)])
    assert (none.low, none.high) == (
        0.0,
        pytest.approx(1 - 0.025 ** (1 / 20)),
    )  # twenty targets, not 80 trials
    together = [1.0] * 10 + [0.0] * 6  # five layers of 16 networks that fall in ten and rise in six
    layers, networks = (clustered_share(together, range(16), units=units) for units in (5, 1))
    assert (
        layers.low < networks.low and layers.high > networks.high
    )  # five layers that go together are one outcome
    layers = clustered_share([1.0] * 3, range(3), units=37)
    assert layers == three  # whether the layers of a network go together cannot be seen if all agree


def test_victims_of_one_target_that_fall_together_count_once():
    together = np.repeat([1.0] * 5 + [0.0] * 15, 4)
    targets = np.repeat(range(20), 4)
    found = clustered_share(together, targets)
    few = 20 * (19 / 20) * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 19)) ** 2
    assert (found.low, found.high) == pytest.approx(
        (clopper_pearson(0.25 * few, few).low, clopper_pearson(0.25 * few, few).high)
    )
    spread = clustered_share(np.tile([1.0, 0.0, 0.0, 0.0], 20), targets)  # one of four at every target
    assert spread.high - spread.low == pytest.approx(
        clopper_pearson(20, 80).high - clopper_pearson(20, 80).low
    )


@pytest.mark.parametrize(("targets", "attacks"), [(16, 10), (50, 4), (20, 1)])
def test_a_failure_never_narrows_the_interval(targets, attacks):
    """Nor does a success among failures. A lone failure shows no agreement within its target, and without the limit it would."""
    clusters = np.repeat(range(targets), attacks)
    outcomes = np.ones(targets * attacks)
    before = clustered_share(outcomes, clusters)
    for failed in range(1, targets // 2):
        outcomes[(failed - 1) * attacks] = 0.0
        after = clustered_share(outcomes, clusters)
        other = clustered_share(1 - outcomes, clusters)
        assert after.low <= before.low and (other.low, other.high) == pytest.approx(
            (1 - after.high, 1 - after.low)
        )
        before = after
    lone = clopper_pearson(targets * attacks - 1, targets * attacks).low
    assert (lone > 0.025 ** (1 / targets)) == (attacks > 1)


def test_the_interval_of_clustered_shares_covers_the_truth():
    generator = np.random.default_rng(6)
    clusters = np.repeat(range(20), 4)
    covered = 0
    for _ in range(400):
        rates = generator.beta(0.4, 3.6, size=20)  # mean 0.1, targets that differ much
        found = clustered_share(generator.binomial(1, np.repeat(rates, 4)), clusters)
        covered += found.low <= 0.1 <= found.high
    assert covered / 400 >= 0.93


def test_one_cluster_of_different_shares_and_impossible_ones():
    assert clustered_share([0.0, 1.0], "aa") == Interval(0.5, 0.0, 1.0)
    for shares in ([1.2], [-0.1]):
        with pytest.raises(ValueError, match="clustered_share: found shares"):
            clustered_share(shares, ["a"])


def test_members_of_both_factors_are_drawn():
    """Four columns that differ and rows that do not: only drawing columns shows the spread."""
    rows, columns = np.repeat(range(20), 4), np.tile(range(4), 20)
    values = np.tile([0.0, 0.1, 0.2, 0.3], 20)
    fixed, crossed = clustered_mean(values, rows), crossed_mean(values, rows, columns)
    assert fixed.high - fixed.low == 0.0
    half = stats.t.ppf(0.975, 3) * np.std([0.0, 0.1, 0.2, 0.3], ddof=1) / 2
    assert crossed.estimate == pytest.approx(0.15)
    assert crossed.high - 0.15 == pytest.approx(half, rel=0.35) and crossed.high > 0.25
    assert crossed_mean(values, rows, ["one"] * 80).high == math.inf
    assert (
        crossed.freedom == min(len(set(rows)), len(set(columns))) - 1
    )  # a correction for several comparisons needs it
    assert clustered_mean([0.1] * 6, "aabbcc", (-1.0, 1.0)).freedom == 2
    with pytest.raises(ValueError, match="found 2 values, 1 members"):
        crossed_mean([1.0, 2.0], "ab", "a")


def test_the_two_factors_are_drawn_independently():
    """As many rows as columns, each value their difference: with the same draw for both, every mean would be 0."""
    effects = stats.norm.ppf((np.arange(20) + 0.5) / 20)
    rows, columns = np.repeat(range(20), 20), np.tile(range(20), 20)
    found = crossed_mean(effects[rows] - effects[columns], rows, columns)
    half = stats.t.ppf(0.975, 19) * math.sqrt(2 / 20) * effects.std(ddof=1)
    assert found.estimate == pytest.approx(0.0, abs=1e-12)
    assert (found.high, -found.low) == pytest.approx((half, half), rel=0.06)


def test_an_interval_over_seeds_and_samples_covers_what_one_over_samples_misses():
    generator = np.random.default_rng(7)
    hits = {"both": 0, "samples": 0}
    for _ in range(400):
        table = (
            generator.normal(0, 0.03, (5, 1))
            + generator.normal(0, 0.2, 300)
            + generator.normal(0, 0.3, (5, 300))
        )
        both, samples = student_mean_of_table(table), student_mean(list(table.mean(axis=0)))
        assert both.estimate == pytest.approx(samples.estimate)
        hits["both"] += both.low <= 0 <= both.high
        hits["samples"] += samples.low <= 0 <= samples.high
    assert 0.93 <= hits["both"] / 400 <= 0.99 and hits["samples"] / 400 < 0.9


def test_tables_of_one_seed_of_equal_seeds_and_of_one_sample():
    row = [0.0, 1.0, 0.0, 0.0]
    assert student_mean_of_table([row]) == student_mean_of_table([row] * 3) == student_mean(row)
    assert student_mean_of_table([[0.0], [1.0]]).high == math.inf
    # equal samples: all the variance is that of the seeds, and so are its degrees of freedom
    seeds = [0.1, 0.4, 0.3]
    both, alone = student_mean_of_table([[one] * 50 for one in seeds]), student_mean(seeds)
    assert (both.low, both.high, both.freedom) == pytest.approx((alone.low, alone.high, alone.freedom))
    for table in ([], [[]], [[1.0], [1.0, 2.0]]):
        with pytest.raises(ValueError, match="student_mean_of_table: found rows of"):
            student_mean_of_table(table)


def test_argmax_with_columns_that_disagree():
    values = np.array([[0.4, 0.3], [0.4, 0.3], [0.4, 0.3], [0.1, 0.5]] * 20)  # victim 3 prefers the second
    targets, victims = np.repeat(range(20), 4), np.tile(range(4), 20)
    best, certain = clustered_argmax(values, targets)
    assert (best, certain.tolist()) == (1, [0.0, 1.0])
    _, shares = clustered_argmax(values, targets, crossed=victims)
    assert shares.sum() == pytest.approx(1)
    assert shares[0] == pytest.approx(0.75**4, abs=0.02)  # victim 3 is not drawn: the first is ahead


def test_a_single_cluster_leaves_the_interval_open():
    found = stepped(0.4, [(0.2, 0.5), (0.4, 1.0)], 0)
    assert (found.estimate, found.low, found.high) == (0.4, -math.inf, math.inf)
