"""Random eviction: how many, who (everybody alike), and that nothing but the seed decides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from relearn.methods.random_eviction import RandomEviction


@settings(deadline=None, max_examples=40)
@given(n=st.integers(0, 300), hundredths=st.integers(0, 99), seed=st.integers(0, 2**40))
def test_evicts_the_floor_of_its_share(n, hundredths, seed):
    kept = RandomEviction(hundredths / 100, seed).fit_predict(np.zeros((n, 1)), np.zeros(n))
    assert (kept == -1).sum() == hundredths * n // 100


def test_every_point_and_every_pair_is_evicted_equally_often():
    """Two of five, 4,000 draws: each of the 10 pairs with probability 1/10."""
    draws = 4000
    X, y = np.zeros((draws, 5, 1)), np.zeros(5)
    evicted = RandomEviction(0.4, 3).fit_predict(X, y) == -1
    for i in range(5):
        for j in range(i):
            together = int((evicted[:, i] & evicted[:, j]).sum())
            assert binomtest(together, draws, 0.1).pvalue > 1e-6


def test_only_the_seed_decides():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.integers(0, 2, 50)
    kept = RandomEviction(0.2, 7).fit_predict(X, y)
    np.testing.assert_array_equal(RandomEviction(0.2, 7).fit_predict(100 * X, np.zeros(50)), kept)
    assert (RandomEviction(0.2, 8).fit_predict(X, y) != kept).any()


def test_the_sets_of_a_stack_have_independent_draws():
    kept = RandomEviction(0.5, 1).fit_predict(np.zeros((6, 40, 1)), np.zeros(40))
    assert len({tuple(row) for row in kept}) == 6
    np.testing.assert_array_equal(
        kept[0], RandomEviction(0.5, 1).fit_predict(np.zeros((40, 1)), np.zeros(40))
    )
    np.testing.assert_array_equal(
        kept[:2], RandomEviction(0.5, 1).fit_predict(np.zeros((2, 40, 1)), np.zeros(40))
    )


@pytest.mark.parametrize("seed", [-1, 1.5, "0", True, None])
def test_seeds_that_are_none_are_refused(seed):
    with pytest.raises(ValueError, match="allowed: an integer >= 0"):
        RandomEviction(0.1, seed).fit_predict(np.zeros((0, 1)), np.zeros(0))


@pytest.mark.parametrize("fraction", [1.0, -0.1, float("nan")])
def test_fractions_outside_the_range_are_refused(fraction):
    with pytest.raises(ValueError, match="allowed: 0 <= fraction < 1"):
        RandomEviction(fraction, 0).fit_predict(np.zeros((0, 1)), np.zeros(0))
