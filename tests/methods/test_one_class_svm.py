"""One-class SVM filter: scikit-learn class by class, the degenerate classes, parameters."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import OneClassSVM

from relearn.methods.one_class_svm import OneClassSVMFilter


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
