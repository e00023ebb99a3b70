"""Eq. 2.3: the loss as printed, the solved coefficients, the gradient of the minimum.

The mean of the poisons hits the target: against loops, finite differences and the neighbouring attacks.

Eq. 2.2 against loops, finite differences, and its relation to eq. 2.3 (erratum Z3).
"""

import inspect

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from relearn.methods import bullseye_polytope, convex_polytope, crafting, feature_collision


def convex(seed: int, batch: int = 2, k: int = 4, d: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(batch, k, d, generator=generator, dtype=torch.float64)
    target = torch.randn(batch, d, generator=generator, dtype=torch.float64)
    return features, target, torch.randn(batch, k, generator=generator, dtype=torch.float64).softmax(-1)


def minimum(features: Tensor, target: Tensor) -> Tensor:
    return convex_polytope.objective(features, target)[0]


def test_loss_equals_the_formula_as_printed() -> None:
    features, target, c = convex(0)
    for b in range(2):
        combination = sum(c[b, j] * features[b, j] for j in range(4))
        printed = 0.5 * float((target[b] - combination).norm() ** 2) / float(target[b].norm() ** 2)
        assert abs(float(convex_polytope.loss(features, target, c)[b]) - printed) < 1e-12


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 8))
def test_no_other_coefficients_are_better(seed: int, k: int, d: int) -> None:
    features, target, c = convex(seed, 1, k, d)
    assert minimum(features, target) <= convex_polytope.loss(features, target, c) + 1e-12


@settings(max_examples=50)
@given(st.integers(0, 10**6))
def test_zero_exactly_for_a_target_in_the_hull(seed: int) -> None:
    features, _, c = convex(seed)
    inside = torch.einsum("bk,bkd->bd", c, features)
    assert (minimum(features, inside) < 1e-20).all()
    outside = 2 * features[:, 0] - features[:, 1]  # an affine combination with a negative coefficient
    assert (minimum(features, outside) > 1e-6).all()


def test_gradient_with_fixed_coefficients_is_that_of_the_minimum() -> None:
    """Finite differences of min over c: the coefficients may be held fixed (envelope theorem)."""
    features, target, other = convex(3)
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
    features, target, c = convex(4)
    assert torch.autograd.gradcheck(lambda f: convex_polytope.loss(f, target, c), features.requires_grad_())


def test_unchanged_by_scale_and_not_above_the_nearest_poison() -> None:
    features, target, _ = convex(5)
    torch.testing.assert_close(minimum(9 * features, 9 * target), minimum(features, target))
    nearest = (features - target.unsqueeze(-2)).square().sum(-1).amin(-1) / (2 * target.square().sum(-1))
    assert (minimum(features, target) <= nearest).all()


def bullseye(seed: int, k: int = 4, d: int = 6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(2, k, d, generator=generator, dtype=torch.float64)
    return features, torch.randn(2, d, generator=generator, dtype=torch.float64)


def test_loss_equals_the_formula() -> None:
    features, target = bullseye(0)
    for b in range(2):
        mean = sum(features[b, j] for j in range(4)) / 4
        slow = 0.5 * float((target[b] - mean).norm() ** 2 / target[b].norm() ** 2)
        assert abs(float(bullseye_polytope.loss(features, target)[b]) - slow) < 1e-12


def test_bullseye_polytope_gradient_equals_finite_differences() -> None:
    features, target = bullseye(1)
    assert torch.autograd.gradcheck(lambda f: bullseye_polytope.loss(f, target), features.requires_grad_())


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 8))
def test_between_the_convex_polytope_and_the_collision(seed: int, k: int, d: int) -> None:
    """It is the polytope's loss at c = 1/k: not below its minimum, not above L_FC / 2k (Jensen)."""
    features, target = bullseye(seed, k, d)
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


def collision(seed: int, batch: int = 2, k: int = 3, d: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(batch, k, d, generator=generator, dtype=torch.float64)
    return features, torch.randn(batch, d, generator=generator, dtype=torch.float64)


def test_loss_equals_the_sum_as_printed() -> None:
    features, target = collision(0)
    for b in range(2):
        printed = sum(
            float(torch.linalg.vector_norm(features[b, j] - target[b]) ** 2) for j in range(3)
        ) / float(torch.linalg.vector_norm(target[b]) ** 2)
        assert abs(float(feature_collision.loss(features, target)[b]) - printed) < 1e-12


def test_feature_collision_gradient_equals_finite_differences() -> None:
    features, target = collision(1)
    assert torch.autograd.gradcheck(lambda f: feature_collision.loss(f, target), features.requires_grad_())


def test_zero_exactly_where_every_poison_collides_and_unchanged_by_scale() -> None:
    features, target = collision(2)
    collided = target.unsqueeze(-2).expand_as(features).clone()
    assert (feature_collision.loss(collided, target) == 0).all()
    collided[:, 1] += 1e-3
    assert (feature_collision.loss(collided, target) > 0).all()
    torch.testing.assert_close(
        feature_collision.loss(7 * features, 7 * target), feature_collision.loss(features, target)
    )


@settings(max_examples=100)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 5))
def test_polytope_with_equal_coefficients_is_bounded_by_collision(seed: int, k: int, d: int) -> None:
    """Jensen: CP(c = 1/k) ≤ L_FC / 2k."""
    features, target = collision(seed, 1, k, d)
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
    assert inspect.signature(feature_collision.craft) == inspect.signature(convex_polytope.craft)
    published = {"eps": 0.1, "lr": 0.04, "iterations": 4000, "dropout": True, "seed": 0}
    both = inspect.signature(crafting.craft).parameters
    assert {name: both[name].default for name in published} == published
