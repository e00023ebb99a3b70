"""The mean of the poisons hits the target: against loops, finite differences and the neighbouring attacks."""

from __future__ import annotations

import inspect

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from relearn.methods import bullseye_polytope, convex_polytope, feature_collision


def problem(seed: int, k: int = 4, d: int = 6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(2, k, d, generator=generator, dtype=torch.float64)
    return features, torch.randn(2, d, generator=generator, dtype=torch.float64)


def test_loss_equals_the_formula() -> None:
    features, target = problem(0)
    for b in range(2):
        mean = sum(features[b, j] for j in range(4)) / 4
        slow = 0.5 * float((target[b] - mean).norm() ** 2 / target[b].norm() ** 2)
        assert abs(float(bullseye_polytope.loss(features, target)[b]) - slow) < 1e-12


def test_gradient_equals_finite_differences() -> None:
    features, target = problem(1)
    assert torch.autograd.gradcheck(lambda f: bullseye_polytope.loss(f, target), features.requires_grad_())


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 8))
def test_between_the_convex_polytope_and_the_collision(seed: int, k: int, d: int) -> None:
    """It is the polytope's loss at c = 1/k: not below its minimum, not above L_FC / 2k (Jensen)."""
    features, target = problem(seed, k, d)
    found = bullseye_polytope.loss(features, target)
    equal = torch.full((2, k), 1 / k, dtype=torch.float64)
    torch.testing.assert_close(found, convex_polytope.loss(features, target, equal))
    assert (found >= convex_polytope.objective(features, target)[0] - 1e-12).all()
    assert (found <= feature_collision.loss(features, target) / (2 * k) * (1 + 1e-12)).all()


def test_a_target_off_the_centre_is_a_loss_although_the_polytope_holds_it() -> None:
    features = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    centre, inside = torch.tensor([[1.0, 0.0], [1.0, 0.5]], dtype=torch.float64)
    assert bullseye_polytope.loss(features, centre) == 0 and feature_collision.loss(features, centre) == 2
    assert convex_polytope.objective(features, inside)[0] < 1e-20
    assert abs(float(bullseye_polytope.loss(features, inside)) - 0.5 * 0.25 / 1.25) < 1e-15


def test_takes_the_arguments_of_the_convex_polytope() -> None:
    assert inspect.signature(bullseye_polytope.craft) == inspect.signature(convex_polytope.craft)
