"""Poisons that stay on their own side: against loops, finite differences, the limit that the mathematics sets, and Deep k-NN."""

import pytest
import torch
from torch import Tensor, nn

from relearn.methods import adaptive_polytope, convex_polytope
from relearn.methods.adaptive_polytope import craft, penalty, sides
from relearn.methods.deep_knn import DeepKNN


def problem(seed: int, k: int = 4, d: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    features, bases = (torch.randn(2, k, d, generator=draw, dtype=torch.float64) for _ in range(2))
    return features, bases, torch.randn(2, d, generator=draw, dtype=torch.float64)


def test_sides_and_penalty_equal_the_formulas() -> None:
    features, bases, target = problem(0)
    for b in range(2):
        total = 0.0
        for j in range(4):
            p, x, t = features[b, j], bases[b, j], target[b]
            s = float(((p - x).norm() ** 2 - (p - t).norm() ** 2) / (x - t).norm() ** 2)
            assert abs(float(sides(features, bases, target)[b, j]) - s) < 1e-12
            total += max(0.0, s + 0.3) ** 2 / 4
        assert abs(float(penalty(features, bases, target, 0.3)[b]) - total) < 1e-12


def test_a_poison_is_at_minus_one_at_its_base_and_at_one_at_the_target() -> None:
    _, bases, target = problem(1)
    at_target = target.unsqueeze(-2).expand_as(bases)
    torch.testing.assert_close(sides(bases, bases, target), torch.full((2, 4), -1.0, dtype=torch.float64))
    torch.testing.assert_close(sides(at_target, bases, target), torch.ones(2, 4, dtype=torch.float64))
    middle = (bases + at_target) / 2
    assert sides(middle, bases, target).abs().max() < 1e-12


def test_a_base_with_the_features_of_the_target_has_no_side_to_leave() -> None:
    features, _, target = problem(4)
    bases = target.unsqueeze(-2).expand_as(features)
    assert (sides(features, bases, target) == -1).all()


def test_gradient_equals_finite_differences() -> None:
    features, bases, target = problem(2)
    assert torch.autograd.gradcheck(lambda f: penalty(f, bases, target, 0.5), features.requires_grad_())


def test_poisons_of_one_base_that_surround_the_target_are_not_all_on_their_side() -> None:
    """Σ c_j s_j = 1 for a combination that equals the target."""
    features, bases, _ = problem(3)
    bases = bases[:, :1].expand_as(bases)
    c = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    target = c @ features
    torch.testing.assert_close(sides(features, bases, target) @ c, torch.ones(2, dtype=torch.float64))


class Plane(nn.Module):
    """Features are the image's first two pixels, scaled: what the attack can do is visible in a plane."""

    def features(self, images: Tensor) -> Tensor:
        return 10 * images.flatten(1)[:, :2]

    def forward(self, images: Tensor) -> Tensor:
        return self.features(images)


def images(points: list[tuple[float, float]]) -> Tensor:
    return torch.tensor(points, dtype=torch.float64).reshape(-1, 1, 1, 2)


def crowd(draw: torch.Generator, x: float, y: float) -> Tensor:
    return torch.tensor([x, y]).double() + 0.3 * torch.randn(30, 2, generator=draw, dtype=torch.float64)


def test_deep_knn_keeps_its_poisons_and_they_pay_with_the_polytope() -> None:
    """In a plane, from bases on one side of the target: to surround it, one poison has to pass it."""
    draw = torch.Generator().manual_seed(0)
    bases, target = images([(0.2, 0.3), (0.35, 0.3)]), images([(0.5, 0.3)])
    own, other = torch.cat([crowd(draw, 2, 3), crowd(draw, 3.5, 3)]), crowd(draw, 5, 3)
    kept, residual = {}, {}
    for weight in (0.0, 10.0):
        made = craft([Plane()], bases, target, weight=weight, margin=0.2, eps=0.3, iterations=200)
        poisons = Plane().features(made.poisons[0])
        features = torch.cat([own, other, poisons]).numpy()
        labels = [0] * len(own) + [1] * len(other) + [0] * len(poisons)
        kept[weight] = int((DeepKNN(k=10).fit_predict(features, labels)[-len(poisons) :] == 1).sum())
        residual[weight] = float(convex_polytope.objective(poisons[None], Plane().features(target))[0])
    assert kept == {0.0: 1, 10.0: 2}
    assert residual[0.0] < 1e-3 < residual[10.0]


def test_without_weight_it_is_the_convex_polytope() -> None:
    bases, target = images([(0.2, 0.3), (0.8, 0.4)]), images([(0.5, 0.3), (0.6, 0.2)])
    one = craft([Plane()], bases, target, weight=0.0, iterations=20)
    other = convex_polytope.craft([Plane()], bases, target, iterations=20)
    assert torch.equal(one.poisons, other.poisons)
    assert not torch.equal(craft([Plane()], bases, target, margin=1.0, iterations=20).poisons, one.poisons)


def test_targets_with_bases_of_their_own_do_not_meet_however_few_are_read_at_once() -> None:
    points = torch.rand(9, 1, 1, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    bases, targets = points[:6].unflatten(0, (3, 2)), points[6:]
    options = {"margin": 0.5, "iterations": 5}
    whole, one, two = (
        craft([Plane()], bases, targets, **options, target_batch=most) for most in (None, 1, 2)
    )
    assert torch.equal(one.poisons, whole.poisons) and torch.equal(two.poisons, whole.poisons)
    for t in range(3):
        alone = craft([Plane()], bases[t : t + 1], targets[t : t + 1], **options)
        assert torch.equal(alone.poisons[0], one.poisons[t]) and alone.final_loss[0] == one.final_loss[t]


@pytest.mark.parametrize(
    ("name", "value", "text"), [("weight", -1.0, "0 or more"), ("margin", 1.5, "0 to 1")]
)
def test_an_impossible_argument_is_named(name: str, value: float, text: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value}; allowed: {text}"):
        adaptive_polytope.craft([Plane()], images([(0.2, 0.3)]), images([(0.5, 0.3)]), **{name: value})
