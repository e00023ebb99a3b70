"""Eq. 2.2 against loops, finite differences, and its relation to eq. 2.3 (erratum Z3)."""

from __future__ import annotations

import inspect

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from relearn.methods import convex_polytope, feature_collision


def problem(seed: int, batch: int = 2, k: int = 3, d: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(batch, k, d, generator=generator, dtype=torch.float64)
    return features, torch.randn(batch, d, generator=generator, dtype=torch.float64)


def test_loss_equals_the_sum_as_printed() -> None:
    features, target = problem(0)
    for b in range(2):
        printed = sum(
            float(torch.linalg.vector_norm(features[b, j] - target[b]) ** 2) for j in range(3)
        ) / float(torch.linalg.vector_norm(target[b]) ** 2)
        assert abs(float(feature_collision.loss(features, target)[b]) - printed) < 1e-12


def test_gradient_equals_finite_differences() -> None:
    features, target = problem(1)
    assert torch.autograd.gradcheck(lambda f: feature_collision.loss(f, target), features.requires_grad_())


def test_zero_exactly_where_every_poison_collides_and_unchanged_by_scale() -> None:
    features, target = problem(2)
    collided = target.unsqueeze(-2).expand_as(features).clone()
    assert (feature_collision.loss(collided, target) == 0).all()
    collided[:, 1] += 1e-3
    assert (feature_collision.loss(collided, target) > 0).all()
    torch.testing.assert_close(
        feature_collision.loss(7 * features, 7 * target), feature_collision.loss(features, target)
    )


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 5))
def test_polytope_with_equal_coefficients_is_bounded_by_collision(seed: int, k: int, d: int) -> None:
    """Jensen: CP(c = 1/k) ≤ L_FC / 2k."""
    features, target = problem(seed, 1, k, d)
    equal = torch.full((1, k), 1 / k, dtype=torch.float64)
    bound = feature_collision.loss(features, target) / (2 * k)
    assert convex_polytope.loss(features, target, equal) <= bound * (1 + 1e-12)
    same = features[:, :1].expand_as(features)
    torch.testing.assert_close(
        convex_polytope.loss(same, target, equal), feature_collision.loss(same, target) / (2 * k)
    )


def test_collision_is_not_the_polytope_with_equal_coefficients() -> None:
    """Erratum Z3: the text calls eq. 2.2 the case c = 1/k of eq. 2.3."""
    features = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    target = torch.tensor([1.0, 0.0])
    assert feature_collision.loss(features, target) == 2
    assert convex_polytope.loss(features, target, torch.tensor([0.5, 0.5])) == 0


def test_both_attacks_take_the_same_arguments_and_default_to_the_published_values() -> None:
    signature = inspect.signature(feature_collision.craft)
    assert signature == inspect.signature(convex_polytope.craft)
    defaults = {name: p.default for name, p in signature.parameters.items() if p.default is not p.empty}
    assert defaults == {"eps": 0.1, "lr": 0.04, "iterations": 4000, "dropout": True, "seed": 0}
