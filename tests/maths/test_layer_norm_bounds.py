"""LayerNorm's constants: nothing found by search is above them, and inputs are known that reach them."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import layer_norm

from relearn.maths.layer_norm_bounds import bound_inf, bound_two, extremal_input, peak, row_sum_constant


def jacobian(x: Tensor, gamma: Tensor, eps: float) -> Tensor:
    return torch.func.jacrev(lambda z: layer_norm(z, z.shape, gamma, eps=eps))(x)


def row_sum(matrix: Tensor) -> float:
    return float(matrix.abs().sum(-1).max())


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(st.integers(0, 10_000), st.integers(1, 40), st.floats(-3, 3), st.floats(-4, 1))
@settings(max_examples=60, deadline=None)
def test_no_jacobian_exceeds_any_form(seed: int, n: int, spread: float, eps: float) -> None:
    gamma, eps = normal(seed, n), 10**eps
    found = jacobian(10**spread * normal(seed + 1, n) ** 3, gamma, eps)
    order = [
        row_sum(found),
        *(float(bound_inf(gamma, eps, form=f)) for f in ("exact", "corrected", "printed")),
    ]
    assert all(one <= other * (1 + 1e-9) for one, other in pairwise(order))
    order = [
        float(torch.linalg.matrix_norm(found, ord=2)),
        float(bound_two(gamma, eps)),
        float(bound_two(gamma, eps, form="largest")),
    ]
    assert all(one <= other * (1 + 1e-9) + 1e-12 for one, other in pairwise(order))


@pytest.mark.parametrize("n", [2, 3, 4, 9, 16, 17, 50, 200])
@pytest.mark.parametrize("eps", [1e-5, 1.0])
def test_the_constant_for_p_infinity_is_reached(n: int, eps: float) -> None:
    ones = torch.ones(n, dtype=torch.float64)
    x = extremal_input(n, eps)
    found = jacobian(x, ones, eps)[0].abs().sum()
    assert float(found) == pytest.approx(float(bound_inf(ones, eps)), rel=1e-9)
    for factor in (0.9, 1.1):  # the place along the ray is a maximum, where it is not the origin
        other = float(jacobian(factor * x, ones, eps)[0].abs().sum())
        assert other < float(found) or (not x.any() and other == pytest.approx(float(found)))


def test_ascent_does_not_pass_the_constant_and_comes_near() -> None:
    """Plain ascent on the row sum of the first number, which starts far out, as the origin is a local maximum.

    N = 96: from 58 on the constant is not that of the origin.
    """
    n = 96
    eye, x = torch.eye(n, dtype=torch.float64), normal(3, 10, n)
    x[:, 0] = 6.0
    x.requires_grad_()
    climb = torch.optim.Adam([x], lr=0.02)
    best = 0.0
    for _ in range(400):
        z = x - x.mean(-1, keepdim=True)
        v = z.square().mean(-1, keepdim=True) + 1.0
        row = (eye[0] - 1 / n - z[:, :1] * z / (n * v)) / v.sqrt()
        sums = row.abs().sum(-1)
        best = max(best, float(sums.detach().max()))
        climb.zero_grad()
        (-sums.sum()).backward()
        climb.step()
    assert row_sum_constant(n) > 2 * (n - 1) / n
    assert 0.999 * row_sum_constant(n) < best <= row_sum_constant(n) * (1 + 1e-12)


@pytest.mark.parametrize("n", [2, 5, 16])
def test_the_constant_for_p_2_is_reached_at_constant_inputs(n: int) -> None:
    gamma = normal(n, n)
    found = jacobian(torch.full((n,), 3.0, dtype=torch.float64), gamma, 0.01)
    assert float(torch.linalg.matrix_norm(found, ord=2)) == pytest.approx(
        float(bound_two(gamma, 0.01)), rel=1e-9
    )


def test_when_the_largest_scale_is_the_constant() -> None:
    """Two entries of the largest modulus suffice, of whatever sign; one does not."""
    for gamma, equal in (([1.0, 1, 0, 0], True), ([1.0, -1, 0.2, 0], True), ([1.0, 0, 0, 0], False)):
        one = torch.tensor(gamma, dtype=torch.float64)
        exact, largest = float(bound_two(one, 1.0)), float(bound_two(one, 1.0, form="largest"))
        assert (exact == pytest.approx(largest, rel=1e-12)) == equal
    assert exact == pytest.approx(math.sqrt(3 / 4))  # diag(e_1)(I - 11ᵀ/4) has the row e_1 - 1/4
    sixteen = torch.eye(16, dtype=torch.float64)[0]
    assert float(bound_two(sixteen, 1.0)) == pytest.approx(0.968246, abs=1e-6)


@pytest.mark.parametrize(
    ("n", "constant", "corrected"),
    [
        (1, 0, 0),
        (2, 1, 1),
        (3, 4 / 3, 4 / 3),
        (16, 1.875, 1.948557),
        (64, 2.031559, 2.631154),
        (768, 5.741024, 6.336176),
    ],
)
def test_values(n: int, constant: float, corrected: float) -> None:
    ones = torch.ones(n, dtype=torch.float64)
    assert float(bound_inf(ones, 1.0)) == pytest.approx(constant, abs=1e-6)
    assert float(bound_inf(ones, 1.0, form="corrected")) == pytest.approx(corrected, abs=1e-6)
    assert float(bound_inf(3 * ones, 0.25, form="printed")) == pytest.approx(6 * n)
    assert float(bound_inf(-3 * ones, 0.25)) == pytest.approx(6 * constant, abs=1e-5)


def test_constant_inputs_are_the_worst_up_to_57_numbers() -> None:
    assert all(row_sum_constant(n) == pytest.approx(2 * (n - 1) / n, rel=1e-12) for n in range(2, 58))
    assert row_sum_constant(58) > 2 * 57 / 58 + 5e-4


def test_the_constant_grows_like_the_root_of_n_over_27() -> None:
    assert row_sum_constant(10**5) / math.sqrt(10**5 / 27) == pytest.approx(1, rel=0.02)


@given(st.floats(0, 3), st.floats(0, 3))
@settings(max_examples=40, deadline=None)
def test_the_peak_is_the_largest_on_a_grid(a: float, b: float) -> None:
    t = torch.linspace(0, 1, 20_001, dtype=torch.float64)
    value, place = peak(a, b)
    assert value == pytest.approx(float(((1 - t).sqrt() * (a + t * b)).max()), abs=1e-6)
    assert value == pytest.approx(math.sqrt(1 - place) * (a + place * b), abs=1e-12)


def test_batches_gradients_and_types() -> None:
    gamma = normal(0, 3, 5).requires_grad_()
    both = bound_inf(gamma, 0.1).sum() + bound_two(gamma, 0.1).sum()
    assert bound_two(gamma, 0.1).shape == (3,)
    assert torch.isfinite(torch.autograd.grad(both, gamma)[0]).all()
    torch.testing.assert_close(bound_two(gamma, 0.1)[1], bound_two(gamma[1], 0.1))
    assert bound_inf(gamma.detach().bfloat16(), 0.1).dtype == torch.bfloat16
    assert bound_two(gamma.detach().bfloat16(), 0.1).dtype == torch.bfloat16


@pytest.mark.parametrize("bound", [bound_inf, bound_two])
def test_refusals(bound) -> None:
    ones = torch.ones(4)
    with pytest.raises(ValueError, match="eps: 0"):
        bound(ones, 0)
    with pytest.raises(ValueError, match="form: 'tight'"):
        bound(ones, 1.0, form="tight")
    with pytest.raises(ValueError, match="gamma: shape"):
        bound(torch.ones(2, 0), 1.0)
