"""Eq. 2.3: the loss as printed, the solved coefficients, the gradient of the minimum."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from relearn.methods import convex_polytope


def problem(seed: int, batch: int = 2, k: int = 4, d: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(batch, k, d, generator=generator, dtype=torch.float64)
    target = torch.randn(batch, d, generator=generator, dtype=torch.float64)
    return features, target, torch.randn(batch, k, generator=generator, dtype=torch.float64).softmax(-1)


def minimum(features: Tensor, target: Tensor) -> Tensor:
    return convex_polytope.objective(features, target)[0]


def test_loss_equals_the_formula_as_printed() -> None:
    features, target, c = problem(0)
    for b in range(2):
        combination = sum(c[b, j] * features[b, j] for j in range(4))
        printed = 0.5 * float((target[b] - combination).norm() ** 2) / float(target[b].norm() ** 2)
        assert abs(float(convex_polytope.loss(features, target, c)[b]) - printed) < 1e-12


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 8))
def test_no_other_coefficients_are_better(seed: int, k: int, d: int) -> None:
    features, target, c = problem(seed, 1, k, d)
    assert minimum(features, target) <= convex_polytope.loss(features, target, c) + 1e-12


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6))
def test_zero_exactly_for_a_target_in_the_hull(seed: int) -> None:
    features, _, c = problem(seed)
    inside = torch.einsum("bk,bkd->bd", c, features)
    assert (minimum(features, inside) < 1e-20).all()
    outside = 2 * features[:, 0] - features[:, 1]  # an affine combination with a negative coefficient
    assert (minimum(features, outside) > 1e-6).all()


def test_gradient_with_fixed_coefficients_is_that_of_the_minimum() -> None:
    """Finite differences of min over c: the coefficients may be held fixed (envelope theorem)."""
    features, target, other = problem(3)
    loss, c = convex_polytope.objective(features.requires_grad_(), target)
    gradient = torch.autograd.grad(loss.sum(), features)[0]
    wrong = torch.autograd.grad(convex_polytope.loss(features, target, other).sum(), features)[0]
    numeric, h = torch.zeros_like(features), 1e-5
    for index in torch.cartesian_prod(*map(torch.arange, features.shape)):
        step = torch.zeros_like(features)
        step[tuple(index)] = h
        with torch.no_grad():
            difference = minimum(features + step, target) - minimum(features - step, target)
        numeric[tuple(index)] = difference.sum() / (2 * h)
    torch.testing.assert_close(gradient, numeric, rtol=0, atol=1e-8)
    assert (wrong - numeric).abs().max() > 1e-2
    assert not c.requires_grad


def test_gradient_of_the_loss_equals_finite_differences() -> None:
    features, target, c = problem(4)
    assert torch.autograd.gradcheck(lambda f: convex_polytope.loss(f, target, c), features.requires_grad_())


def test_unchanged_by_scale_and_not_above_the_nearest_poison() -> None:
    features, target, _ = problem(5)
    torch.testing.assert_close(minimum(9 * features, 9 * target), minimum(features, target))
    nearest = (features - target.unsqueeze(-2)).square().sum(-1).amin(-1) / (2 * target.square().sum(-1))
    assert (minimum(features, target) <= nearest).all()
