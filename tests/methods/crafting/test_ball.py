"""The ball and 8-bit images in it; the state that moves there: Adam written out equals torch's, the checkpoint's contents."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.methods.crafting import assert_in_ball, quantise
from relearn.methods.crafting.state import State


def images(seed: int, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    bases = torch.randint(0, 256, (2, 1, 4, 4), generator=generator).float() / 255
    change = (
        eps * (2 * torch.rand(3, 2, 1, 4, 4, generator=generator) - 1).sign()
    )  # on the border of the ball
    change[0] *= torch.rand(2, 1, 4, 4, generator=generator)
    return (bases + change).clamp(0, 1), bases


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.one_of(st.floats(0.001, 1), st.integers(1, 64).map(lambda n: n / 255)))
def test_quantised_images_are_the_nearest_in_the_ball(seed: int, eps: float) -> None:
    poisons, bases = images(seed, eps)
    found = quantise(poisons, bases, eps)
    whole = (255 * bases).round().long()
    assert found.dtype == torch.uint8 and found.shape == poisons.shape
    assert ((found.long() - whole).abs() <= 255 * eps + 1e-6).all()
    for level in range(256):  # every level in the ball is at least as far from the poison
        allowed = ((level - whole).abs() <= 255 * eps + 1e-6).expand(poisons.shape)
        distance = (255 * poisons.double() - level).abs()
        assert (distance >= (255 * poisons.double() - found.double()).abs() - 1e-9)[allowed].all()
    assert_in_ball(found, whole.to(torch.uint8), eps + 1e-9)
    assert_in_ball(found, bases, eps)


def test_published_radius_is_twenty_five_levels_and_plain_rounding_leaves_it() -> None:
    bases = torch.full((1, 1, 1, 1), 101 / 255)
    poisons = bases + 0.1
    assert quantise(poisons, bases, 0.1).item() == 126
    rounded = torch.tensor(math.floor(255 * 0.1 + 0.5) + 101).reshape(
        1, 1, 1, 1
    )  # 26 levels, as figure 2.2 prints
    with pytest.raises(ValueError, match=r"change 0\.10196"):
        assert_in_ball(rounded.to(torch.uint8), (255 * bases).round().to(torch.uint8), 0.1)


def test_a_level_that_is_the_radius_is_inside() -> None:
    bases = torch.arange(0, 200, 8).reshape(1, 1, 5, 5).float() / 255
    assert ((255 * (bases + 8 / 255)).round() == quantise(bases + 8 / 255, bases, 8 / 255)).all()


def test_check_names_the_largest_violation() -> None:
    poisons, bases = images(0, 0.1)
    assert_in_ball(poisons, bases, 0.1)
    poisons[1, 0, 0, 2, 3] = bases[0, 0, 2, 3] + 0.3
    poisons[2, 1, 0, 0, 0] = bases[1, 0, 0, 0] - 0.2
    with pytest.raises(
        ValueError, match=r"leave the ball at \(1, 0, 0, 2, 3\): pixel .*, change 0.3; .* eps = 0.1"
    ):
        assert_in_ball(poisons, bases, 0.1)


@pytest.mark.parametrize("value", [-0.01, 1.01, math.nan, math.inf])
def test_check_refuses_pixels_that_are_none(value: float) -> None:
    poisons, bases = images(1, 0.1)
    poisons[0, 0, 0, 0, 0] = value
    with pytest.raises(ValueError, match=r"at \(0, 0, 0, 0, 0\)"):
        assert_in_ball(poisons, bases, 2.0)
    with pytest.raises(ValueError, match="leave the ball"):
        quantise(poisons, bases, 2.0)


def test_shapes_and_bases_that_do_not_fit() -> None:
    poisons, bases = images(2, 0.1)
    with pytest.raises(ValueError, match="do not end in the shape"):
        assert_in_ball(poisons, bases[:1], 0.1)
    with pytest.raises(ValueError, match="not 8-bit images"):
        quantise(poisons, (bases + 0.001).clamp(0, 1), 0.2)


def test_steps_equal_torch_adam_on_standardised_pixels() -> None:
    generator = torch.Generator().manual_seed(0)
    start = torch.rand(2, 3, 1, 4, 4, generator=generator, dtype=torch.float64)
    std = torch.full((1, 1, 1, 1, 1), 0.2, dtype=torch.float64)
    state = State(start.clone(), eps=10.0)
    state.lower, state.upper = start - 100, start + 100  # no projection here
    standardised = (start / std).requires_grad_()
    adam = torch.optim.Adam([standardised], lr=0.04, betas=(0.9, 0.999))
    for _ in range(25):
        gradient = torch.randn(start.shape, generator=generator, dtype=torch.float64)
        state.step(gradient, std, lr=0.04)
        standardised.grad = gradient * std  # chain rule: x = std · z
        adam.step()
        torch.testing.assert_close(state.poisons, std * standardised.detach(), rtol=0, atol=1e-12)


def test_first_step_moves_every_pixel_by_lr_times_std() -> None:
    """Without the sign: a pixel without gradient stays."""
    std = torch.tensor([0.2, 0.5], dtype=torch.float64).reshape(1, 1, 2, 1, 1)
    state = State(torch.full((1, 1, 2, 1, 2), 0.5, dtype=torch.float64), eps=0.4)
    gradient = torch.tensor([[[[3.0, 0.0]], [[-2.0, 0.0]]]], dtype=torch.float64)[None]
    state.step(gradient, std, lr=0.04)
    expected = torch.tensor([[0.5 - 0.008, 0.5], [0.5 + 0.02, 0.5]], dtype=torch.float64).reshape(
        1, 1, 2, 1, 2
    )
    torch.testing.assert_close(state.poisons, expected, rtol=0, atol=1e-8)


def test_steps_end_at_the_nearest_point_of_ball_and_pixel_range() -> None:
    start = torch.tensor([0.02, 0.5, 0.99], dtype=torch.float64).reshape(1, 1, 1, 1, 3)
    state = State(start.clone(), eps=0.1)
    for _ in range(50):
        state.step(torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64), torch.ones(1), lr=0.04)
    torch.testing.assert_close(state.poisons.flatten(), torch.tensor([0.0, 0.4, 1.0], dtype=torch.float64))


def test_a_checkpoint_of_something_else_is_refused() -> None:
    state = State(torch.full((1, 1, 1, 2, 2), 0.5), eps=0.1)
    state.step(torch.ones(1, 1, 1, 2, 2), torch.ones(1), lr=0.09)
    state.history.append({"iteration": 1, "loss_sum": 1.0, "loss_mean": 0.5})
    saved = state.dump()
    State(torch.full((1, 1, 1, 2, 2), 0.5), eps=0.1).restore(saved, iterations=1)
    with pytest.raises(ValueError, match="checkpoint: iteration is 1; allowed: 1 to 0"):
        State(torch.full((1, 1, 1, 2, 2), 0.5), eps=0.1).restore(saved, iterations=0)
    for other in (
        State(torch.full((1, 1, 1, 2, 2), 0.5), 0.01),
        State(torch.full((2, 1, 1, 2, 2), 0.5), 0.1),
    ):
        with pytest.raises(ValueError, match="do not belong to these bases and eps"):
            other.restore(saved, iterations=1)
