"""Lambert's W inside the bounds of L2 attention: the inverse, analytic values, and the optimum that it gives."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

from relearn.maths.lambert import covariance_bound, phi, phi_inverse


@given(st.floats(0, 1e12))
def test_phi_undoes_its_inverse(y: float) -> None:
    assert phi(phi_inverse(y)) == pytest.approx(y, rel=1e-12, abs=1e-300)


@given(st.floats(0, 600))
def test_the_inverse_undoes_phi(c: float) -> None:
    assert phi_inverse(phi(c)) == pytest.approx(c, rel=1e-12, abs=1e-300)


@given(st.floats(0, 1e6))
def test_the_inverse_is_the_root_that_bisection_finds(y: float) -> None:
    root = scipy.optimize.brentq(lambda c: c * math.exp(c) * math.e - y, 0, 20, xtol=1e-13)
    assert phi_inverse(y) == pytest.approx(root, abs=1e-11)


@pytest.mark.parametrize(
    ("length", "value"), [(1, 0.0), (2, 0.278465), (3, 0.463056), (10, 1.101003), (100, 2.628650)]
)
def test_analytic_values(length: int, value: float) -> None:
    assert covariance_bound(length) == pytest.approx(value, abs=5e-7)
    assert phi_inverse(length - 1) == covariance_bound(length)


def test_omega_and_other_closed_forms() -> None:
    assert phi_inverse(math.e) == pytest.approx(0.5671432904097838, abs=1e-15)  # the omega constant, W(1)
    assert phi_inverse(math.e**2) == pytest.approx(1.0, abs=1e-15)  # φ(1) = e²
    assert phi(1.0) == pytest.approx(math.e**2) and phi(0.0) == 0.0


@given(st.integers(1, 10**9))
def test_never_above_the_logarithm_and_growing(length: int) -> None:
    c = covariance_bound(length)
    assert 0 <= c <= math.log(length)
    assert covariance_bound(length + 1) > c


def weighted_square(z: np.ndarray) -> float:
    """Σ P_j z_j² of a row that sees itself, where z = 0, and keys at distances z."""
    weights = np.exp(-np.square(z))
    return float((np.square(z) * weights).sum() / (1 + weights.sum()))


@pytest.mark.parametrize("length", [2, 3, 10, 30])
def test_it_is_the_maximum_over_all_distances(length: int) -> None:
    c = covariance_bound(length)
    assert weighted_square(np.full(length - 1, math.sqrt(1 + c))) == pytest.approx(c, rel=1e-12)
    best = 0.0
    for seed in range(8):
        start = np.random.default_rng(seed).uniform(0, 3, length - 1)
        found = scipy.optimize.minimize(lambda z: -weighted_square(z), start, method="BFGS")
        best = max(best, -found.fun)
        assert -found.fun <= c + 1e-12
    assert best == pytest.approx(c, rel=1e-6)


def test_a_row_that_does_not_see_itself_has_no_maximum() -> None:
    """Control: without the term 1 of its own key, one far key alone contributes its own square."""
    far = np.array([20.0])
    assert weighted_square(far) < 1e-150
    assert float((far**2 * np.exp(-(far**2))).sum() / np.exp(-(far**2)).sum()) == pytest.approx(400)


@pytest.mark.parametrize("length", [0, -1, 1.5, True])
def test_a_length_that_is_none_is_refused(length) -> None:
    with pytest.raises(ValueError, match=f"length is {length}: a whole number of tokens"):
        covariance_bound(length)


@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf])
def test_only_finite_numbers_from_zero_have_an_inverse(value: float) -> None:
    with pytest.raises(ValueError, match="y is "):
        phi_inverse(value)
    with pytest.raises(ValueError, match="c is "):
        phi(value)
