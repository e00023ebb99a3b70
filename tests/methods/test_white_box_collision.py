"""Eq. 2.1: its minimiser in closed form and by the paper's own splitting; the watermark."""

import pytest
import torch
from torch import Tensor, nn

from relearn.methods import crafting, white_box_collision
from relearn.methods.white_box_collision import Collision, add_watermark


class Linear(nn.Module):
    """φ(x) = A x: eq. 2.1 is a quadratic problem."""

    def __init__(self, pixels: int, features: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        a = torch.randn(features, pixels, generator=generator, dtype=torch.float64) / pixels**0.5
        self.a = nn.Parameter(a)

    def features(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.a.T


def images() -> tuple[Tensor, Tensor]:
    """Bases (3, 2, 4, 4) and targets (2, 2, 4, 4), 8-bit, away from 0 and 1."""
    generator = torch.Generator().manual_seed(1)
    bases = torch.randint(80, 176, (3, 2, 4, 4), generator=generator).double() / 255
    return bases, torch.randint(80, 176, (2, 2, 4, 4), generator=generator).double() / 255


def closed_form(net: Linear, bases: Tensor, targets: Tensor, mu: float) -> Tensor:
    """(I + μ AᵀA) x = x_b + μ AᵀA x_t."""
    square = mu * net.a.detach().T @ net.a.detach()
    right = bases.flatten(-3) + (targets.flatten(1) @ square).unsqueeze(1)
    return torch.linalg.solve(torch.eye(len(square), dtype=torch.float64) + square, right.mT).mT


def forward_backward(net: Linear, base: Tensor, target: Tensor, mu: float) -> Tensor:
    """The paper's iteration: a gradient step on μ ‖φ(x) - φ(x_t)‖², then the proximal step of ‖x - x_b‖²."""
    a, x = net.a.detach(), base.flatten()
    step = 1 / (2 * mu * float(torch.linalg.matrix_norm(a, 2)) ** 2)
    for _ in range(3000):
        x = x - step * 2 * mu * a.T @ (a @ (x - target.flatten()))
        x = (x + 2 * step * base.flatten()) / (1 + 2 * step)
    return x


def test_loss_equals_the_formula() -> None:
    bases, targets = images()
    net, mu = Linear(32, 5), 3.0
    poisons = (bases + 0.05 * torch.randn(2, 3, 2, 4, 4, dtype=torch.float64)).clamp(0, 1)
    attack = Collision(bases.expand(2, -1, -1, -1, -1), mu)
    with torch.no_grad():
        found, none = attack.loss(attack.read(net, poisons), attack.read_target(net, targets), None)
    assert none is None
    for t in range(2):
        slow = 0.0
        for j in range(3):
            slow += float((poisons[t, j] - bases[j]).norm() ** 2)
            slow += mu * float(
                (net.features(poisons[t, j : j + 1]) - net.features(targets[t : t + 1])).detach().norm() ** 2
            )
        assert abs(float(found[t]) - slow) < 1e-10


def test_gradient_equals_finite_differences() -> None:
    bases, targets = images()
    net, attack = Linear(32, 5), Collision(bases.expand(2, -1, -1, -1, -1), 3.0)
    target = attack.read_target(net, targets)
    poisons = (bases.expand(2, -1, -1, -1, -1) + 0.01).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: attack.loss(attack.read(net, x), target, None)[0], poisons)


@pytest.mark.parametrize("mu", [0.5, 20.0])
def test_crafting_ends_at_the_minimiser_which_the_papers_splitting_finds_too(mu: float) -> None:
    bases, targets = images()
    net = Linear(32, 5)
    best = closed_form(net, bases, targets, mu)
    for t in range(2):
        splitting = forward_backward(net, bases[0], targets[t], mu)
        torch.testing.assert_close(splitting, best[t, 0], rtol=0, atol=1e-6)
    found = white_box_collision.craft([net], bases, targets, mu=mu, eps=1.0, lr=0.005, iterations=1000)
    torch.testing.assert_close(found.poisons.flatten(2), best, rtol=0, atol=1e-4)
    assert (best - bases.flatten(1)).abs().max() > 0.02  # not where it began


def test_default_weight_is_the_rule_of_the_inventors() -> None:
    bases, targets = images()
    net = Linear(32, 5)
    rule, given, half, halved = (
        white_box_collision.craft([net], bases, targets, **weight, iterations=3)
        for weight in ({}, {"mu": 4 * (32 / 5) ** 2}, {"mu_multiple": 0.5}, {"mu": 2 * (32 / 5) ** 2})
    )
    assert torch.equal(rule.poisons, given.poisons) and torch.equal(half.poisons, halved.poisons)
    assert not torch.equal(rule.poisons, half.poisons)


def test_watermark_is_the_blend_in_eight_bits() -> None:
    bases, targets = images()
    blend = add_watermark(bases, targets, 0.3)
    for t in range(2):
        for j in range(3):
            slow = 0.3 * targets[t] + 0.7 * bases[j]
            assert (blend[t, j] - slow).abs().max() <= 0.5 / 255 + 1e-12
    assert (255 * blend - (255 * blend).round()).abs().max() < 1e-9
    assert torch.equal(add_watermark(bases, targets, 0.0), bases.expand(2, -1, -1, -1, -1))


def test_the_ball_is_around_the_watermarked_base() -> None:
    bases, targets = images()
    options = {"eps": 0.02, "iterations": 30, "watermark": 0.3}
    found = white_box_collision.craft([Linear(32, 5)], bases, targets, **options)
    assert torch.equal(found.bases, add_watermark(bases, targets, 0.3))
    crafting.assert_in_ball(found.poisons, found.bases, 0.02)
    crafting.quantise(found.poisons, found.bases, 0.02)
    change = (found.poisons - bases).abs()
    assert (change <= 0.02 + 0.3 * (targets.unsqueeze(1) - bases).abs() + 0.5 / 255 + 1e-9).all()
    with pytest.raises(ValueError, match="leave the ball"):  # the control: not around the clean one
        crafting.assert_in_ball(found.poisons, bases, 0.02)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mu": 0.0}, "mu is 0.0; allowed: a positive number"),
        ({"mu_multiple": -1.0}, "mu_multiple is -1.0; allowed: a positive number"),
        ({"watermark": 1.0}, "watermark is 1.0; allowed: 0 <= watermark < 1"),
        ({"substitutes": [Linear(32, 5), Linear(32, 5)]}, "substitutes: 2 networks; allowed: one"),
    ],
)
def test_arguments_are_refused_by_name(changes: dict, message: str) -> None:
    bases, targets = images()
    arguments = {"substitutes": [Linear(32, 5)], "bases": bases, "targets": targets} | changes
    with pytest.raises(ValueError, match=message):
        white_box_collision.craft(**arguments)
