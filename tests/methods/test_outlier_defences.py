"""L2 outliers: against the definition in float64, rounding, ties, independence of the classes.

One-class SVM filter: scikit-learn class by class, the degenerate classes, parameters.

Random eviction: how many, who (everybody alike), and that nothing but the seed decides.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.svm import OneClassSVM

from relearn.methods.l2_outliers import L2Outliers, distances_to_centroid
from relearn.methods.one_class_svm import OneClassSVMFilter
from relearn.methods.random_eviction import RandomEviction


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 60),
    hundredths=st.integers(0, 99),
    rounding=st.sampled_from(["floor", "ceil"]),
)
def test_equals_the_definition(seed, n, hundredths, rounding):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 4)), rng.integers(0, 4, n)
    kept = L2Outliers(hundredths / 100, rounding).fit_predict(X, y)
    for label in np.unique(y):
        own = X[y == label]
        far = np.linalg.norm(own - own.mean(0), axis=1)
        share = hundredths * len(own)
        dropped = share // 100 if rounding == "floor" else -(-share // 100)
        assert (kept[y == label] == -1).sum() == dropped
        if 0 < dropped < len(own):
            assert far[kept[y == label] == -1].min() > far[kept[y == label] == 1].max() * (1 - 1e-12)


def test_the_distance_is_that_to_the_mean_and_float32_features_lose_nothing():
    X = torch.randn(30, 5, generator=torch.Generator().manual_seed(0)) + 1000
    wide = X.double().numpy()
    np.testing.assert_allclose(distances_to_centroid(X), ((wide - wide.mean(0)) ** 2).sum(1), rtol=1e-10)


def test_the_far_point_is_removed_and_none_at_fraction_zero():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), np.repeat([0, 1], 10)
    X[4] += 50
    kept = L2Outliers(0.1).fit_predict(X, y)
    assert kept[4] == -1 and (kept[:10] == -1).sum() == 1 and (kept[10:] == -1).sum() == 1
    assert (L2Outliers(0.0).fit_predict(X, y) == 1).all()


def test_a_class_knows_nothing_of_the_others():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 3)), np.repeat([0, 1], 20)
    before = L2Outliers(0.25).fit_predict(X, y)
    X[y == 1] *= 1000
    np.testing.assert_array_equal(L2Outliers(0.25).fit_predict(X, y)[:20], before[:20])
    assert (before[:20] == -1).sum() == 5


def test_of_equally_far_points_the_larger_index_goes_first():
    X = np.array([[-1.0], [1.0], [-1.0], [1.0], [0.0]])
    np.testing.assert_array_equal(L2Outliers(0.4).fit_predict(X, [0] * 5), [1, 1, -1, -1, 1])
    for seed in range(20):  # two points are equally far from their mean, whatever rounding makes of it
        pair = np.random.default_rng(seed).normal(size=(2, 5)) + 10.0**seed
        np.testing.assert_array_equal(L2Outliers(0.5).fit_predict(pair, [0, 0]), [1, -1])
    for corners in range(3, 30):  # nor do the corners of a regular polygon differ
        turn = 2 * np.pi * np.arange(corners) / corners
        polygon = np.stack([np.cos(turn), np.sin(turn)], 1) + 0.3
        kept = L2Outliers(0.5).fit_predict(polygon, np.zeros(corners))
        np.testing.assert_array_equal(kept, np.where(np.arange(corners) < -(-corners // 2), 1, -1))
    np.testing.assert_array_equal(L2Outliers(0.5).fit_predict(np.full((4, 2), 0.3), [7] * 4), [1, 1, -1, -1])


def test_a_class_of_one_point_stays_unless_rounded_up():
    X, y = np.random.default_rng(0).normal(size=(11, 2)), np.array([0] * 10 + [1])
    assert L2Outliers(0.9).fit_predict(X, y)[-1] == 1
    assert L2Outliers(0.01, "ceil").fit_predict(X, y)[-1] == -1
    assert L2Outliers(0.0, "ceil").fit_predict(X, y)[-1] == 1


@pytest.mark.parametrize("fraction", [1.0, -0.1, 1.5, math.nan])
def test_l2_outliers_fractions_outside_the_range_are_refused(fraction):
    for n in (0, 6):
        with pytest.raises(ValueError, match="allowed: 0 <= fraction < 1"):
            L2Outliers(fraction).fit_predict(np.zeros((n, 2)), np.zeros(n))
    with pytest.raises(ValueError, match="rounding is 'up'; allowed: floor, ceil"):
        L2Outliers(0.1, "up").fit_predict(np.zeros((0, 2)), np.zeros(0))


@pytest.mark.parametrize("nu", [0.01, 0.2, 0.9])
@pytest.mark.parametrize("gamma", ["scale", "auto", 0.3])
def test_is_scikit_learns_svm_on_each_class_alone(nu, gamma):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 5)), rng.integers(0, 3, 90)
    kept = OneClassSVMFilter(nu, gamma).fit_predict(X, y)
    for label in range(3):
        own = X[y == label]
        np.testing.assert_array_equal(kept[y == label], OneClassSVM(nu=nu, gamma=gamma).fit(own).predict(own))


def decision_by_definition(X, nu, gamma):
    """The dual by projected gradient: min a'Ka/2 over 0 <= a <= 1/(nu n), sum a = 1; decision Ka - rho."""
    K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(-1))
    largest = np.linalg.norm(K, 2)
    top = 1 / (nu * len(X))
    alpha = np.full(len(X), 1 / len(X))
    for _ in range(2_000):
        step = alpha - K @ alpha / largest
        low, high = step.min() - top, step.max()
        for _ in range(60):  # the shift that makes the clipped weights sum to 1
            middle = (low + high) / 2
            low, high = (middle, high) if np.clip(step - middle, 0, top).sum() > 1 else (low, middle)
        alpha = np.clip(step - middle, 0, top)
    margin = (alpha > 1e-6 * top) & (alpha < (1 - 1e-6) * top)
    return K @ alpha - (K @ alpha)[margin].mean(), margin


def test_decides_as_the_dual_problem_does():
    X = np.random.default_rng(2).normal(size=(30, 2))
    decision, on_the_boundary = decision_by_definition(X, nu=0.3, gamma=0.5)
    kept = OneClassSVMFilter(0.3, 0.5).fit_predict(X, np.zeros(30))
    clear = ~on_the_boundary
    np.testing.assert_array_equal(kept[clear] == 1, decision[clear] > 0)
    assert (decision[clear] < 0).sum() >= 3 and clear.sum() > 20


def test_the_far_point_goes_and_its_class_alone_decides():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.repeat([0, 1], 30)
    X[4] += 20
    kept = OneClassSVMFilter(0.1).fit_predict(X, y)
    assert kept[4] == -1
    X[y == 1] *= 100
    np.testing.assert_array_equal(OneClassSVMFilter(0.1).fit_predict(X, y)[:30], kept[:30])
    relabelled = np.where(np.arange(60) == 4, 2, y)  # alone in its class it stays
    assert OneClassSVMFilter(0.1).fit_predict(X, relabelled)[4] == 1


def test_a_class_whose_points_coincide_is_kept():
    X = np.concatenate([np.full((10, 3), 0.1), np.random.default_rng(0).normal(size=(10, 3))])
    assert (OneClassSVMFilter(0.5).fit_predict(X, np.repeat([0, 1], 10))[:10] == 1).all()


@pytest.mark.parametrize(
    ("detector", "match"),
    [
        (OneClassSVMFilter(nu=0), "nu is 0; allowed: 0 < nu < 1"),
        (OneClassSVMFilter(nu=1.0), r"nu is 1\.0"),
        (OneClassSVMFilter(nu=float("nan")), "nu is nan"),
        (OneClassSVMFilter(gamma=0.0), r"gamma is 0\.0; allowed: scale, auto or a number > 0"),
        (OneClassSVMFilter(gamma="wide"), "gamma is 'wide'"),
    ],
)
def test_wrong_parameters_are_refused_even_for_an_empty_set(detector, match):
    for n in (0, 5):
        with pytest.raises(ValueError, match=match):
            detector.fit_predict(np.arange(2.0 * n).reshape(n, 2), np.zeros(n))


@settings(max_examples=40)
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
def test_random_eviction_fractions_outside_the_range_are_refused(fraction):
    with pytest.raises(ValueError, match="allowed: 0 <= fraction < 1"):
        RandomEviction(fraction, 0).fit_predict(np.zeros((0, 1)), np.zeros(0))
