"""The iteration against closed forms of linear maps; samples on their own; the number of updates that surely suffices."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.maths import fixed_point
from relearn.maths.fixed_point import solve, updates_for

rates = st.floats(0.01, 0.95)


def test_a_multiple_of_the_identity_goes_as_the_powers_of_its_rate():
    """x + c a x = y: x_k - x = (-c a)^k (y - x), to the last digit; the residual is (1 + c a) times that."""
    y = torch.tensor([[3.0, -1.0], [0.5, 8.0]], dtype=torch.float64)
    truth = y / (1 + 0.9 * 0.5)
    found = solve(lambda x: 0.5 * x, y, c=0.9, iterations=12, truth=truth)
    first = (y - truth).abs().amax(1)
    for k in range(13):
        torch.testing.assert_close(found.errors[k], 0.45**k * first, rtol=1e-9, atol=1e-14)
        torch.testing.assert_close(found.residuals[k], 1.45 * 0.45**k * first, rtol=1e-9, atol=1e-14)
    assert found.updates.tolist() == [12, 12] and not found.converged.any()


def test_every_sample_stops_by_itself_and_is_the_one_it_would_be_alone():
    rate = torch.tensor([0.0, 0.1, 0.5, 0.9], dtype=torch.float64)[:, None]
    y = torch.tensor([[1.0, 2.0]] * 4, dtype=torch.float64)
    found = solve(lambda x: rate * x, y, iterations=400, tolerance=1e-6)
    expected = [math.ceil(math.log(1e-6 / (2 * a)) / math.log(a)) if a else 1 for a in (0.0, 0.1, 0.5, 0.9)]
    expected[0] = 0  # f = 0: y is its own inverse, residual 0 at once
    assert found.updates.tolist() == expected and found.converged.all()
    for i in range(4):
        alone = solve(lambda x, i=i: rate[i] * x, y[i : i + 1], iterations=400, tolerance=1e-6)
        assert torch.equal(alone.x[0], found.x[i])
        assert torch.equal(alone.residuals[-1], found.residuals[-1, i : i + 1])


def test_a_sample_that_overflows_keeps_its_last_finite_iterate_and_harms_no_other():
    factor = torch.tensor([0.5, 1e200], dtype=torch.float64)[:, None]
    y = torch.ones(2, 3, dtype=torch.float64)
    found = solve(lambda x: factor * x, y, iterations=60, truth=y / (1 + factor))
    assert found.x.isfinite().all()
    assert found.residuals[-1, 1] == math.inf and found.residuals[-1, 0] < 1e-15
    assert found.errors[:, 1].isfinite().all()


@given(rates, st.floats(1e-9, 0.5), st.floats(0.0, 1e6))
@settings(max_examples=60)
def test_the_number_of_updates_is_the_least_that_suffices(rate, tolerance, first):
    k = updates_for(rate, tolerance, first)
    assert rate**k * first / (1 - rate) <= tolerance * (1 + 1e-9)
    assert k == 0 or rate ** (k - 1) * first / (1 - rate) > tolerance * (1 - 1e-9)


def test_a_map_without_slope_needs_one_update_and_a_fixed_point_none():
    assert updates_for(0.0, 1e-6, 5.0) == 1 and updates_for(0.5, 1e-6, 0.0) == 0


def test_norms_of_a_sample():
    x = torch.tensor([[[3.0, -4.0]], [[0.0, 1.0]]])
    assert fixed_point.sizes(x, "inf").tolist() == [4, 1]
    assert fixed_point.sizes(x, "two").tolist() == [5, 1]
    assert fixed_point.sizes(x, "one").tolist() == [7, 1]
    assert float(fixed_point.sizes(x, "one", batched=False)) == 8


def half(x: torch.Tensor) -> torch.Tensor:
    return x / 2


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: solve(half, torch.tensor([[1.0, math.nan]])), "y: holds NaN or infinity"),
        (lambda: solve(half, torch.tensor([[math.inf]])), "y: holds NaN or infinity"),
        (lambda: solve(half, torch.ones(0, 2)), r"y: shape \(0, 2\)"),
        (lambda: solve(half, torch.ones(2, 2, dtype=torch.long)), "y: dtype torch.int64"),
        (lambda: solve(half, torch.ones(2), start=torch.ones(3)), r"start: shape \(3,\)"),
        (lambda: solve(half, torch.ones(2), truth=torch.full((2,), math.nan)), "truth: holds NaN"),
        (lambda: solve(lambda x: x[:1], torch.ones(2, 2)), r"f\(x\): shape \(1, 2\)"),
        (lambda: solve(half, torch.ones(2), norm="three"), "norm: 'three' .allowed: inf, two, one"),
        (lambda: solve(half, torch.ones(2), iterations=-1), "iterations: -1"),
        (lambda: solve(half, torch.ones(2), tolerance=-0.1), "tolerance: -0.1"),
        (lambda: solve(half, torch.ones(2), c=math.nan), "c: nan"),
        (lambda: updates_for(1.0, 1e-3), "Lipschitz constant: 1 "),
        (lambda: updates_for(math.nan, 1e-3), "Lipschitz constant: nan"),
        (lambda: updates_for(-0.1, 1e-3), "Lipschitz constant: -0.1"),
        (lambda: updates_for(0.5, 0.0), "tolerance: 0.0"),
        (lambda: updates_for(0.5, 1e-3, math.inf), "first: inf"),
    ],
)
def test_wrong_arguments_are_refused(call, match):
    with pytest.raises(ValueError, match=match):
        call()
