"""Augmentation: crops, flips and holes of whole batches, each against a loop over images."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from relearn.methods.augmentation import compose, crop_and_flip, cutout


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_crop_cuts_each_image_out_of_its_padded_self():
    torch.manual_seed(0)
    images = torch.rand(40, 2, 6, 6)
    cropped = crop_and_flip(2, False)(images, torch.Generator().manual_seed(1))
    padded = nn.functional.pad(images, (2, 2, 2, 2))
    offsets = set()
    for image, source in zip(cropped, padded, strict=True):
        hits = [
            (r, c) for r in range(5) for c in range(5) if torch.equal(image, source[:, r : r + 6, c : c + 6])
        ]
        assert len(hits) == 1
        offsets.update(hits)
    assert len(offsets) > 10  # each image has an offset of its own


def test_flip_mirrors_about_half_of_the_images_and_only_horizontally():
    images = torch.rand(200, 1, 4, 5)
    flipped = crop_and_flip(0, True)(images, torch.Generator().manual_seed(0))
    mirrored = [torch.equal(a, b.flip(2)) for a, b in zip(flipped, images, strict=True)]
    assert all(m or torch.equal(a, b) for m, a, b in zip(mirrored, flipped, images, strict=True))
    assert 70 < sum(mirrored) < 130


@settings(max_examples=30)
@given(size=st.integers(1, 9), holes=st.integers(1, 3), seed=st.integers(0, 10**6))
def test_cutout_sets_the_drawn_squares_to_the_channel_means_and_nothing_else(size, holes, seed):
    """A loop over images, holes and pixels with the same centres; squares may fall over the border."""
    images = torch.rand(5, 3, 7, 6, dtype=torch.float64, generator=generator(1)) + 1.0
    fill = (0.1, 0.2, 0.3)
    cut = cutout(size, holes, fill)(images, generator(seed))
    draws = generator(seed)
    rows = torch.randint(0, 7, (5, holes, 1), generator=draws)[..., 0].tolist()
    columns = torch.randint(0, 6, (5, holes, 1), generator=draws)[..., 0].tolist()
    expected = images.clone()
    for b in range(5):
        for r, c in zip(rows[b], columns[b]):
            for i in range(r - size // 2, r - size // 2 + size):
                for j in range(c - size // 2, c - size // 2 + size):
                    if 0 <= i < 7 and 0 <= j < 6:
                        expected[b, :, i, j] = torch.tensor(fill, dtype=torch.float64)
    assert torch.equal(cut, expected)


def test_cutout_centres_are_uniform_over_the_image_and_holes_shrink_at_its_border():
    """A pixel is hit with probability n(i) n(j) / HW, where n counts the centres within reach of it."""
    size, height, width, count = 4, 8, 8, 20000
    cut = cutout(size)(torch.ones(count, 1, height, width), generator())
    reach = torch.tensor(
        [sum(0 <= i - (r - size // 2) < size for r in range(height)) for i in range(height)]
    ).double()
    expected = reach[:, None] * reach[None, :] / (height * width)
    spread = (expected * (1 - expected) / count).sqrt()
    assert ((((cut == 0).double().mean((0, 1)) - expected) / spread).abs() < 5).all()
    assert expected.min() < expected.max() / 2  # the border is really hit less


def test_a_hole_filled_with_the_mean_is_zero_after_normalisation():
    mean, std = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.3, 0.4])
    images = torch.rand(6, 3, 8, 8, generator=generator(2))
    cut = (cutout(4, 1, mean)(images, generator()) - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    after = cutout(4)((images - mean.view(3, 1, 1)) / std.view(3, 1, 1), generator())
    assert torch.equal(cut, after) and bool((cut == 0).any())


def test_compose_applies_one_after_the_other():
    images = torch.rand(4, 1, 6, 6)
    draws = generator(3)
    by_hand = cutout(2)(crop_and_flip(1, True)(images, draws), draws)
    assert torch.equal(compose(crop_and_flip(1, True), cutout(2))(images, generator(3)), by_hand)


@pytest.mark.parametrize(
    "make,message",
    [
        (lambda: cutout(0), "cutout size: found 0"),
        (lambda: cutout(3, 0), "cutout holes: found 0"),
    ],
)
def test_impossible_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
