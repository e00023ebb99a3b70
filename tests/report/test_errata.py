"""Formulas of the papers that do not hold as printed: the counter-example and the corrected form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from relearn.report import errata as errata_file

from .conftest import FOLDERS

numbers = st.floats(-3, 3, allow_nan=False, width=32)
poisons_and_target = st.integers(1, 5).flatmap(
    lambda k: st.tuples(arrays(np.float64, (k, 3), elements=numbers), arrays(np.float64, 3, elements=numbers))
)
TARGET, POISONS = np.zeros(2), np.array([[1.0, 0.0], [2.0, 0.0]])


def projection(poisons: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The nearest point of the poisons' hull, by non-negative least squares with a heavy sum-to-one row."""
    from scipy.optimize import nnls

    weight = 1e5
    left = np.vstack([poisons.T, weight * np.ones(len(poisons))])
    coefficients, _ = nnls(left, np.append(target, weight))
    return coefficients / coefficients.sum() @ poisons


def derivative(poisons: np.ndarray, target: np.ndarray, j: int) -> float:
    """g'(0+) of g(eta) = |u + eta (p_j - u) - t|^2 / 2."""
    u = projection(poisons, target)
    return float((u - target) @ (poisons[j] - u))


def test_z1_derivative_at_the_projection_is_not_zero():
    assert derivative(POISONS, TARGET, 1) == pytest.approx(1.0)


@given(poisons_and_target)
def test_z1_one_sided_derivative_is_never_negative(case):
    poisons, target = case
    for j in range(len(poisons)):
        assert derivative(poisons, target, j) >= -1e-6


def separator(poisons: np.ndarray, target: np.ndarray, shifted: bool):
    """The proof's function f(z) = (u - t) (z - u), with half the squared distance added if ``shifted``."""
    u = projection(poisons, target)
    offset = (u - target) @ (u - target) / 2 if shifted else 0.0
    return lambda z: (u - target) @ (z - u) + offset


def test_z2_a_poison_lies_on_the_printed_hyperplane():
    printed = separator(POISONS, TARGET, shifted=False)
    assert printed(POISONS[0]) == pytest.approx(0.0)  # neither side: the strict class rule fails
    corrected = separator(POISONS, TARGET, shifted=True)
    assert corrected(POISONS[0]) == pytest.approx(0.5)
    assert corrected(TARGET) == pytest.approx(-0.5)


@given(poisons_and_target)
def test_z2_shifted_hyperplane_separates_strictly(case):
    poisons, target = case
    if np.linalg.norm(projection(poisons, target) - target) < 1e-2:
        return  # the target lies in the hull: nothing separates it
    corrected = separator(poisons, target, shifted=True)
    assert corrected(target) < 0
    assert all(corrected(poison) > 0 for poison in poisons)


def collision_loss(poisons: np.ndarray, target: np.ndarray) -> float:
    """Equation 2.2 for one network: the sum of squared distances, relative to the target."""
    return float(((poisons - target) ** 2).sum() / (target**2).sum())


def mean_polytope_loss(poisons: np.ndarray, target: np.ndarray) -> float:
    """Equation 2.3 for one network with every coefficient 1/k."""
    return float(((poisons.mean(0) - target) ** 2).sum() / (2 * (target**2).sum()))


def test_z3_polytope_loss_can_vanish_where_collision_does_not():
    target, poisons = np.array([1.0, 0.0]), np.array([[1.0, 1.0], [1.0, -1.0]])
    assert (collision_loss(poisons, target), mean_polytope_loss(poisons, target)) == (2.0, 0.0)


@given(poisons_and_target)
def test_z3_polytope_loss_is_bounded_by_collision_loss(case):
    poisons, target = case
    if (target**2).sum() < 1e-2:
        return
    bound = collision_loss(poisons, target) / (2 * len(poisons))
    assert mean_polytope_loss(poisons, target) <= bound * (1 + 1e-9) + 1e-12
    same = np.repeat(poisons[:1], len(poisons), axis=0)
    equal = collision_loss(same, target) / (2 * len(same))
    assert mean_polytope_loss(same, target) == pytest.approx(equal, rel=1e-9)


def test_every_erratum_names_tests_that_exist():
    errata = errata_file.load(FOLDERS)
    assert {"Z1", "Z2", "Z3"} <= set(errata)
    for entry in errata.values():
        assert set(entry["tests"]) == {"counter_example", "corrected"}
        for test in entry["tests"].values():
            file, _, name = test.partition("::")
            assert f"def {name}(" in (Path(__file__).parents[2] / file).read_text()
