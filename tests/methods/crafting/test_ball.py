"""The ball: what 8-bit quantisation keeps, what the check refuses."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.methods.crafting import assert_in_ball, quantise


def images(seed: int, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    bases = torch.randint(0, 256, (2, 1, 4, 4), generator=generator).float() / 255
    change = (
        eps * (2 * torch.rand(3, 2, 1, 4, 4, generator=generator) - 1).sign()
    )  # on the border of the ball
    change[0] *= torch.rand(2, 1, 4, 4, generator=generator)
    return (bases + change).clamp(0, 1), bases


@settings(max_examples=60)
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
    assert_in_ball(found, whole.to(torch.uint8), min(eps + 1e-9, 1.0))
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
        assert_in_ball(poisons, bases, 1.0)
    with pytest.raises(ValueError, match="leave the ball"):
        quantise(poisons, bases, 1.0)
    with pytest.raises(ValueError, match="eps is 8; allowed: above 0, at most 1"):
        assert_in_ball(bases, bases, 8)


def test_shapes_and_bases_that_do_not_fit() -> None:
    poisons, bases = images(2, 0.1)
    with pytest.raises(ValueError, match="do not end in the shape"):
        assert_in_ball(poisons, bases[:1], 0.1)
    with pytest.raises(ValueError, match="not 8-bit images"):
        quantise(poisons, (bases + 0.001).clamp(0, 1), 0.2)
