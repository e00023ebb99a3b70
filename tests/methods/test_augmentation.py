"""Augmentation: crops and flips, holes and mixtures of whole batches, each against a loop over images."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy, one_hot

from relearn.methods.augmentation import compose, crop_and_flip, cutout, mixup


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


@settings(max_examples=30, deadline=None)
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


def test_mixup_loss_is_the_weighted_mean_of_the_two_losses():
    """CE(λ e_y + (1-λ) e_y') = λ CE(y) + (1-λ) CE(y'), images mixed with the same λ and partner; label smoothing included."""
    images = torch.rand(8, 1, 3, 3, dtype=torch.float64, generator=generator(1))
    images[:, 0, 0, 0] = torch.arange(8.0)  # so that λ and the partner can be read off the result
    labels = torch.randint(0, 5, (8,), generator=generator(2))
    rest = torch.arange(8)
    mixed, targets, untouched = mixup(0.7, 5)([images, labels, rest], generator(9))
    assert untouched is rest
    for weight, other in _partners(mixed[:, 0, 0, 0]):
        if torch.allclose(mixed, weight * images + (1 - weight) * images[other], rtol=0, atol=1e-12):
            break
    else:
        pytest.fail("no single λ and permutation explains the batch")
    logits = torch.randn(8, 5, dtype=torch.float64, generator=generator(4))
    for smoothing in (0.0, 0.1):
        one = cross_entropy(logits, labels, label_smoothing=smoothing)
        two = cross_entropy(logits, labels[other], label_smoothing=smoothing)
        both = cross_entropy(logits, targets, label_smoothing=smoothing)
        assert float(both) == pytest.approx(float(weight * one + (1 - weight) * two), rel=1e-12)


def _partners(values):
    """Every (λ, permutation) that mixes 0..7 to the values: one λ for each possible partner of the first sample."""
    for partner in range(1, 8):
        weight = 1 - float(values[0]) / partner
        other = [(float(v) - weight * i) / (1 - weight) for i, v in enumerate(values)]
        rounded = [round(o) for o in other]
        if sorted(rounded) == list(range(8)) and all(
            math.isclose(o, r, abs_tol=1e-6) for o, r in zip(other, rounded)
        ):
            yield weight, torch.tensor(rounded)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 4.0])
def test_mixup_weights_follow_the_beta_distribution(alpha):
    """Beta(a, a) has mean 1/2, variance 1/(4(2a+1)); uniform for a = 1."""
    draws, mix, labels = generator(0), mixup(alpha, 2), torch.tensor([0, 1])
    pairs = [mix([torch.zeros(2, 1, dtype=torch.float64), labels], draws)[1] for _ in range(3000)]
    weights = torch.stack([p[0, 0] for p in pairs if p[0, 1] > 0])  # a sample mixed with itself tells nothing
    variance, count = 1 / (4 * (2 * alpha + 1)), len(weights)
    assert 1300 < count < 1700
    assert abs(float(weights.mean()) - 0.5) < 5 * math.sqrt(variance / count)
    assert float(weights.var()) == pytest.approx(variance, rel=0.12)


def test_mixup_takes_probabilities_as_they_are():
    labels = torch.tensor([0, 2, 1, 1])
    images = torch.rand(4, 2)
    hard = mixup(1.0, 3)([images, labels], generator(5))
    soft = mixup(1.0, 3)([images, one_hot(labels, 3).float()], generator(5))
    assert all(torch.equal(a, b) for a, b in zip(hard, soft))
    assert torch.allclose(hard[1].sum(1), torch.ones(4))


@pytest.mark.parametrize(
    "make,message",
    [
        (lambda: cutout(0), "cutout size: found 0"),
        (lambda: cutout(3, 0), "cutout holes: found 0"),
        (lambda: mixup(0.0, 3), "mixup alpha: found 0.0"),
        (lambda: mixup(float("nan"), 3), "mixup alpha: found nan"),
    ],
)
def test_impossible_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
