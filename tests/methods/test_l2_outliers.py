"""L2 outliers: against the definition in float64, rounding, ties, independence of the classes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.methods.l2_outliers import L2Outliers, distances_to_centroid


@settings(deadline=None, max_examples=40)
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
def test_fractions_outside_the_range_are_refused(fraction):
    for n in (0, 6):
        with pytest.raises(ValueError, match="allowed: 0 <= fraction < 1"):
            L2Outliers(fraction).fit_predict(np.zeros((n, 2)), np.zeros(n))
    with pytest.raises(ValueError, match="rounding is 'up'; allowed: floor, ceil"):
        L2Outliers(0.1, "up").fit_predict(np.zeros((0, 2)), np.zeros(0))
