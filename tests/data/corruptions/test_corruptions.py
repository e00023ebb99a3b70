"""Contract over all 15 corruptions: shape, type, determinism, independence of the batch, severities, other sizes, errors."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.data import load
from relearn.data.corruptions import IN_PIXELS, KINDS, NAMES, SEVERITIES, SYNTHESISED, corrupt
from relearn.data.corruptions.draws import Draws

# Where the published constants do not order the severities: glass blur blurs less at 4 than at 3, the affine part of elastic
# shrinks while the shifts grow, frost weighs the image less.
ORDERED = [name for name in NAMES if name not in ("glass_blur", "elastic_transform", "frost")]
RANDOM = [
    *("gaussian_noise", "shot_noise", "impulse_noise", "glass_blur", "motion_blur"),
    *("snow", "frost", "fog", "elastic_transform"),
]


def pictures(n=8, channels=3, side=32, seed=0):
    """Smooth scenes with an edge, as photographs are, not noise."""
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[0 : 1 : side * 1j, 0 : 1 : side * 1j]
    images = np.empty((n, channels, side, side))
    for i in range(n):
        for c in range(channels):
            a, b, f, g, h = generator.random(5)
            images[i, c] = 0.5 + 0.3 * np.sin(6 * (a * x + b * y) + 6 * h) + 0.25 * np.sign(x - f) * (y > g)
    return np.clip(images * 255, 0, 255).astype(np.uint8)


def distance(one, other):
    return float(np.abs(one.astype(int) - other.astype(int)).mean())


def test_there_are_the_fifteen_of_the_benchmark_with_five_severities_each():
    assert len(NAMES) == 15 and set(NAMES) == set(SEVERITIES) == set(KINDS)
    assert all(len(constants) == 5 for constants in SEVERITIES.values())
    assert SYNTHESISED == ("frost",)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=6)
@given(
    n=st.integers(1, 3),
    channels=st.sampled_from([1, 3]),
    height=st.integers(5, 40),
    width=st.integers(5, 40),
    severity=st.integers(1, 5),
    seed=st.integers(0, 9),
)
def test_any_image_comes_back_in_its_shape(name, n, channels, height, width, severity, seed):
    images = np.random.default_rng(seed).integers(0, 256, (n, channels, height, width), np.uint8)
    before = images.copy()
    changed = corrupt(images, name, severity, seed=seed)
    assert changed.shape == images.shape and changed.dtype == np.uint8
    assert np.array_equal(images, before)


@pytest.mark.parametrize("name", NAMES)
def test_order_and_size_of_the_batch_change_nothing(name):
    images = pictures(6)
    whole = corrupt(images, name, 3, seed=1)
    assert np.array_equal(corrupt(images, name, 3, seed=1), whole)
    order = np.array([4, 0, 5])
    assert np.array_equal(corrupt(images[order], name, 3, seed=1), whole[order])
    assert np.array_equal(corrupt(images[2:3], name, 3, seed=1), whole[2:3])


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_acts_on_what_is_random_and_on_nothing_else(name):
    images = pictures(4)
    same = np.array_equal(corrupt(images, name, 3, seed=0), corrupt(images, name, 3, seed=1))
    assert same == (name not in RANDOM)


def test_chunks_change_nothing(monkeypatch):
    images = pictures(5)
    whole = corrupt(images, "snow", 2)
    monkeypatch.setattr("relearn.data.corruptions.CHUNK", 2)
    assert np.array_equal(corrupt(images, "snow", 2), whole)


@pytest.mark.parametrize("name", ORDERED)
def test_a_higher_severity_is_further_away(name):
    images = pictures(24)
    far = [distance(corrupt(images, name, severity), images) for severity in range(1, 6)]
    assert far[0] > 0 and all(b > a for a, b in pairwise(far)), far


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(ORDERED)))
def test_the_others_change_every_image_at_every_severity(name):
    images = pictures(6)
    for severity in range(1, 6):
        changed = corrupt(images, name, severity)
        assert all(distance(a, b) > 0.5 for a, b in zip(images, changed))


@pytest.mark.parametrize("name", NAMES)
def test_digits_of_8_by_8_are_changed_and_stay_recognisable(name):
    images = load("digits").train_images[:40]
    for severity in (1, 5):
        changed = corrupt(images, name, severity)
        assert distance(changed, images) > 0.5
        flat, other = (x.reshape(len(x), -1).astype(float) for x in (images, changed))
        own = np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(flat, other)])
        assert np.median(own) > 0.35, (name, severity)


@pytest.mark.parametrize("name", sorted(set(IN_PIXELS) - set(RANDOM)))
def test_a_small_image_is_its_enlargement_corrupted_and_averaged(name):
    """An image of 16 pixels and the same image with every pixel drawn twice are one scene: the blurs must agree."""
    small = pictures(3, side=16)
    large = small.repeat(2, axis=2).repeat(2, axis=3)
    averaged = corrupt(large, name, 4).reshape(3, 3, 16, 2, 16, 2).mean((3, 5))
    assert np.abs(corrupt(small, name, 4) - averaged).max() <= 1.0


def test_grey_images_are_changed_like_colour_images_without_colour():
    """Where nothing is random and no colour enters, a grey picture and its three-channel copy must agree."""
    grey = pictures(4, channels=1)
    colour = grey.repeat(3, axis=1)
    for name in ("defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate"):
        assert np.array_equal(corrupt(grey, name, 4).repeat(3, axis=1), corrupt(colour, name, 4)), name


def test_draws_have_their_moments_and_differ_between_images_keys_and_calls():
    images = np.random.default_rng(0).integers(0, 256, (40, 1, 4, 4), np.uint8)
    draws = Draws(images, "key")
    normal = draws.normal(500).astype(float)
    assert abs(normal.mean()) < 0.03 and abs(normal.var() - 1) < 0.04
    assert np.abs(np.corrcoef(normal) - np.eye(40)).max() < 0.25
    assert not np.array_equal(draws.normal(500), normal)
    assert not np.array_equal(Draws(images, "other").normal(500), normal)
    assert np.array_equal(Draws(images, "key").normal(500), normal.astype(np.float32))
    uniform = draws.uniform(500, low=-1, high=3).astype(float)
    assert uniform.min() >= -1 and uniform.max() < 3 and abs(uniform.mean() - 1) < 0.05
    counts = draws.poisson(np.full((40, 500), 9.0, np.float32)).astype(float)
    assert abs(counts.mean() - 9) < 0.15 and abs(counts.var() - 9) < 0.5
    whole = draws.integers(-2, 2, 500)
    assert set(np.unique(whole)) == {-2, -1, 0, 1}


@pytest.mark.parametrize(
    ("images", "name", "severity", "error", "says"),
    [
        (pictures(1), "gausian_noise", 1, ValueError, "did you mean 'gaussian_noise'"),
        (pictures(1), "fog", 0, ValueError, "severity is 0; allowed: 1, 2, 3, 4, 5"),
        (pictures(1).astype(np.float32), "fog", 1, TypeError, "float32"),
        (pictures(1)[0], "fog", 1, ValueError, r"allowed: \(n, C, H, W\)"),
        (pictures(1, channels=2), "fog", 1, ValueError, "C = 1 or 3"),
    ],
)
def test_wrong_arguments_are_named(images, name, severity, error, says):
    with pytest.raises(error, match=says):
        corrupt(images, name, severity)


def test_no_images_give_no_images():
    for name in NAMES:
        assert corrupt(pictures(2)[:0], name, 1).shape == (0, 3, 32, 32)
