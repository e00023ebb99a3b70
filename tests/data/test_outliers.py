"""Outliers: every set in every form, drawn by seed alone; conversions against plain loops; what is refused is named."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.data import OUTLIERS, natural_patches
from relearn.data.corruptions import NAMES, corrupt
from relearn.data.outlier_images import Wanted, fit, grey, select_images, smaller
from relearn.data.outliers import outliers

DRAWN = ("natural_patches", "gaussian_noise", "uniform_noise", "corrupted")


def prepared(count: int = 40, channels: int = 3, size: int = 16):
    """Stand-in for the in-distribution data: smooth images, so that corruption shows."""
    ramp = torch.linspace(40, 200, size).expand(count, channels, size, size).to(torch.uint8)
    labels = torch.arange(count) % 10
    return SimpleNamespace(test=lambda: (ramp.clone(), labels))


def opened(name: str, **changes):
    asked = {"size": 16, "channels": 3, "count": 30, "seed": 3, "prepared": prepared()}
    return outliers(name, **(asked | changes))


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize(("size", "channels"), [(8, 1), (16, 3), (32, 3)])
def test_every_drawn_set_has_the_form_asked_for_and_follows_the_seed_alone(name, size, channels):
    data = prepared(channels=channels, size=size)
    made = opened(name, size=size, channels=channels, prepared=data)
    assert made.images.shape == (30, channels, size, size) and made.images.dtype == np.uint8
    assert made.images.flags.c_contiguous and "30" in made.words and "\n" not in made.words
    np.random.seed(0)
    torch.manual_seed(0)
    again = opened(name, size=size, channels=channels, prepared=data)
    np.testing.assert_array_equal(made.images, again.images)
    other = opened(name, size=size, channels=channels, prepared=data, seed=4)
    assert (made.images != other.images).any()


def test_two_sets_of_one_seed_share_no_draws():
    one, two = (Wanted(8, 1, 5, seed=0).generator(name) for name in ("gaussian_noise", "uniform_noise"))
    assert not np.array_equal(one.random(20), two.random(20))


# noise


def test_noise_has_the_moments_of_its_distribution():
    n = 200 * 3 * 16 * 16
    uniform = opened("uniform_noise", count=200).images / 255
    assert abs(uniform.mean() - 0.5) < 5 / np.sqrt(12 * n)
    assert abs(uniform.var() - 1 / 12) < 5 * np.sqrt(1 / 180 / n)
    normal = opened("gaussian_noise", count=200).images
    # P(N(1/2, 1) < 0) = Phi(-1/2), and half a level more is rounded to it
    black = 0.3085 + 0.3521 * 0.5 / 255
    for end in (0, 255):
        assert abs((normal == end).mean() - black) < 5 * np.sqrt(0.31 * 0.69 / n)
    inside = normal[(normal > 0) & (normal < 255)] / 255
    assert abs(inside.mean() - 0.5) < 5 * 0.3 / np.sqrt(inside.size)
    # independent pixels: neighbours, channels and images are uncorrelated
    centred = uniform - 0.5
    for shifted in (
        centred[..., 1:] * centred[..., :-1],
        centred[:, 1:] * centred[:, :-1],
        centred[1:] * centred[:-1],
    ):
        assert abs(shifted.mean()) < 5 / 12 / np.sqrt(shifted.size)


# corrupted


def test_corrupted_images_take_the_corruptions_in_turn():
    data = prepared()
    made = opened("corrupted", prepared=data, count=33).images
    clean = data.test()[0].numpy()
    for place in (0, 1, 14, 15, 32):
        alone = corrupt(clean[place : place + 1], NAMES[place % 15], 5, seed=3)
        np.testing.assert_array_equal(made[place], alone[0])
    assert (made != clean[:33]).any(axis=(1, 2, 3)).mean() > 0.8
    few = opened("corrupted", prepared=data, count=4).images
    np.testing.assert_array_equal(few, made[:4])


# natural patches


def test_patches_are_windows_of_the_photographs():
    pictures = np.stack(natural_patches.photographs())
    assert pictures.shape == (2, 3, 427, 640)
    windows = np.lib.stride_tricks.sliding_window_view(pictures, (32, 32), axis=(2, 3))
    for patch in opened("natural_patches", size=32, count=3).images:
        corner = (windows[:, :, ::1, ::1, 0, 0] == patch[None, :, 0, 0][..., None, None]).all(1)
        places = np.argwhere(corner)
        assert any((windows[w, :, r, c] == patch).all() for w, r, c in places)


def test_small_patches_show_more_than_one_shade():
    patches = opened("natural_patches", size=8, channels=1, count=300).images.astype(float)
    windows = opened("natural_patches", size=32, channels=1, count=300).images
    means = windows.reshape(300, 1, 8, 4, 8, 4).astype(float).mean((3, 5))
    assert np.abs(patches - means).max() <= 1  # the same windows: grey first or last, a level of rounding
    raw = windows[:, :, :8, :8].astype(float)  # what windows of 8 pixels would have shown
    assert np.median(patches.std((1, 2, 3))) > 1.5 * np.median(raw.std((1, 2, 3)))


def test_patches_are_drawn_without_repetition(monkeypatch):
    monkeypatch.setattr(natural_patches, "SHAPE", (33, 34, 3))
    pictures = np.arange(2 * 3 * 33 * 34, dtype=np.uint32).reshape(2, 3, 33, 34) % 251
    monkeypatch.setattr(natural_patches, "photographs", lambda folder: tuple(pictures.astype(np.uint8)))
    made = opened("natural_patches", size=32, count=2 * 2 * 3).images
    assert len({patch.tobytes() for patch in made}) == 12
    with pytest.raises(ValueError, match=r"13 images requested \(allowed: at most 12\)"):
        opened("natural_patches", size=32, count=13)
    with pytest.raises(ValueError, match=r"windows of 64 pixels \(allowed: at most 33\)"):
        opened("natural_patches", size=64)


# conversion


def block_means(images: np.ndarray, size: int) -> np.ndarray:
    n, c, height, _ = images.shape
    k = height // size
    made = np.zeros((n, c, size, size))
    for i in range(size):
        for j in range(size):
            made[:, :, i, j] = images[:, :, i * k : i * k + k, j * k : j * k + k].mean((2, 3))
    return made


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from([1, 3]))
def test_averaging_down_is_the_mean_of_blocks(seed, size, channels):
    images = np.random.default_rng(seed).integers(0, 256, (3, channels, 16, 16), np.uint8)
    assert np.abs(smaller(images, size) - block_means(images, size)).max() <= 0.5 + 1e-9


def test_averaging_by_a_fraction_weighs_pixels_by_their_area():
    images = np.array([0, 90, 30], np.uint8).repeat(3).reshape(1, 1, 3, 3)  # rows of one shade
    # two new rows of 1.5: all of 0 and half of 90; half of 90 and all of 30
    np.testing.assert_array_equal(smaller(images, 2)[0, 0], [[30, 30], [50, 50]])
    np.testing.assert_array_equal(smaller(images.transpose(0, 1, 3, 2), 2)[0, 0], [[30, 50], [30, 50]])


def test_grey_is_the_nearest_level_of_the_formula_and_keeps_greys():
    images = np.random.default_rng(0).integers(0, 256, (50, 3, 4, 4), np.uint8)
    truth = 0.299 * images[:, 0] + 0.587 * images[:, 1] + 0.114 * images[:, 2]
    assert np.abs(grey(images)[:, 0] - truth).max() <= 0.5 + 1e-9
    shades = np.arange(256, dtype=np.uint8).reshape(256, 1, 1, 1).repeat(3, axis=1)
    np.testing.assert_array_equal(grey(shades), shades[:, :1])


def test_what_was_done_is_reported():
    images = np.random.default_rng(0).integers(0, 256, (2, 3, 16, 16), np.uint8)
    same, words = fit("x", images, size=16, channels=3)
    assert words == "" and (same == images).all()
    small, words = fit("x", images, size=8, channels=1)
    assert small.shape == (2, 1, 8, 8)
    assert words == ", made grey (BT.601), averaged down from 16 to 8 pixels"
    three, words = fit("x", images[:, :1], size=16, channels=3)
    assert words == ", grey repeated in three channels" and (three == images[:, :1]).all()


def test_a_set_is_picked_without_repetition_in_its_own_order():
    images = np.arange(256, dtype=np.uint8).reshape(256, 1, 1, 1)
    wanted = Wanted(size=1, channels=1, count=100, seed=0)
    found = select_images("x", images, wanted, "words").images.ravel()
    assert len(set(found.tolist())) == 100 and (np.diff(found.astype(int)) > 0).all()
    assert found.max() > 180  # not the first ones
    everything = select_images("x", images, Wanted(1, 1, 256, seed=0), "words")
    np.testing.assert_array_equal(everything.images, images)
    assert everything.words == "words; 256 of 256 images"


# refusals


@pytest.mark.parametrize(
    ("shape", "form", "message"),
    [
        ((2, 3, 16, 16), {"size": 32, "channels": 3}, "16 x 16 pixels for a network of 32 x 32"),
        ((2, 3, 16, 20), {"size": 16, "channels": 3}, "16 x 20 pixels for a network of 16 x 16"),
        ((2, 4, 16, 16), {"size": 16, "channels": 3}, "4 channels for a network of 3"),
        ((2, 3, 16, 16), {"size": 16, "channels": 2}, "3 channels for a network of 2"),
    ],
)
def test_a_form_that_cannot_be_reached_is_refused(shape, form, message):
    with pytest.raises(ValueError, match=message) as caught:
        fit("a set", np.zeros(shape, np.uint8), **form)
    assert str(caught.value).startswith("a set: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("cifar_100", {}, "'cifar_100' are unknown; did you mean 'cifar100'"),
        ("corrupted", {"prepared": None}, "no in-distribution images to corrupt"),
        ("corrupted", {"count": 41}, r"41 images requested \(allowed: at most 40\)"),
        ("uniform_noise", {"count": 0}, r"count is 0 \(allowed: at least 1\)"),
        ("uniform_noise", {"size": 0}, r"size is 0 \(allowed: at least 1\)"),
        ("uniform_noise", {"channels": 2}, r"channels is 2 \(allowed: 1 and 3\)"),
        ("corrupted", {"size": 32}, "16 x 16 pixels for a network of 32 x 32"),
    ],
)
def test_bad_requests_are_refused_in_one_line(name, changes, message):
    with pytest.raises(ValueError, match=message) as caught:
        opened(name, **changes)
    assert "\n" not in str(caught.value)


def test_too_many_images_of_a_set_are_refused():
    with pytest.raises(ValueError, match=r"svhn: 3 images requested \(allowed: at most 2\)"):
        select_images("svhn", np.zeros((2, 3, 8, 8), np.uint8), Wanted(8, 3, 3, seed=0), "")


def test_the_names_are_those_of_the_table():
    from relearn.data import outliers as module

    table = str(module.__doc__).split("=\n")[2]
    assert [line.split()[0] for line in table.splitlines() if line[:1].isalpha()] == list(OUTLIERS)
