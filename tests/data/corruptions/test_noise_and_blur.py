"""Noise: moments of flat images, at the published constants.

Blurs: what they keep (flat images, the mean), closed forms, and SciPy as the slow truth.
"""

import numpy as np
import pytest
from scipy import ndimage

from relearn.data.corruptions import SEVERITIES, blur, corrupt
from relearn.data.corruptions.draws import Draws


def flat(value: int, n: int = 12):
    images = np.full((n, 3, 32, 32), value, np.uint8)
    images[:, 0, 0, 0] = np.arange(n)  # every image its own noise
    return images


@pytest.mark.parametrize("severity", [1, 3, 5])
def test_gaussian_noise_has_the_published_standard_deviation_and_no_bias(severity):
    noise = corrupt(flat(128), "gaussian_noise", severity).astype(float)[:, 1:] / 255 - 128 / 255
    std = SEVERITIES["gaussian_noise"][severity - 1]
    assert noise.std() == pytest.approx(std, rel=0.02)
    assert abs(noise.mean()) < 4 * std / np.sqrt(noise.size)


@pytest.mark.parametrize("severity", [1, 3, 5])
@pytest.mark.parametrize("value", [0, 64, 128])
def test_shot_noise_has_poissons_variance(severity, value):
    shown = corrupt(flat(value), "shot_noise", severity).astype(float)[:, 1:] / 255
    photons, x = SEVERITIES["shot_noise"][severity - 1], value / 255
    assert shown.mean() == pytest.approx(x, abs=0.003)
    assert shown.var() == pytest.approx(x / photons, rel=0.05, abs=1e-9)


@pytest.mark.parametrize("severity", [1, 5])
def test_impulse_noise_replaces_the_published_share_by_black_and_white_alike(severity):
    shown = corrupt(flat(128), "impulse_noise", severity)[:, 1:]
    amount = SEVERITIES["impulse_noise"][severity - 1]
    assert set(np.unique(shown)) == {0, 128, 255}
    assert (shown == 0).mean() == pytest.approx(amount / 2, rel=0.2)
    assert (shown == 255).mean() == pytest.approx(amount / 2, rel=0.2)


def impulse(side=17):
    x = np.zeros((1, 1, side, side), np.float32)
    x[0, 0, side // 2, side // 2] = 1
    return x


@pytest.mark.parametrize("name", ["defocus_blur", "glass_blur", "motion_blur", "zoom_blur"])
@pytest.mark.parametrize("severity", [1, 5])
def test_a_flat_image_stays_as_it_is(name, severity):
    images = np.full((2, 3, 32, 32), 100, np.uint8)
    assert np.abs(corrupt(images, name, severity).astype(int) - 100).max() <= 1


def test_the_disc_is_round_and_sums_to_one_and_wider_ones_reach_further():
    kernel = blur.disc(1.5, 0.1, 1)
    assert kernel.sum() == pytest.approx(1)
    middle = kernel[1:-1, 1:-1]
    assert np.allclose(middle, 1 / 9, atol=1e-6)  # all of 3 x 3 lies within 1.5; σ = 0.1 smooths nothing
    assert np.allclose(blur.disc(1.0, 0.1, 1)[1:-1, 1:-1], np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]]) / 5)
    for radius, sigma in ((0.3, 0.4), (2.5, 0.6)):
        kernel = blur.disc(radius, sigma, 1)
        assert np.allclose(kernel, kernel.T) and np.allclose(kernel, kernel[::-1, ::-1])


def test_a_point_without_a_disc_gets_the_gaussian_alone():
    kernel = blur.disc(0.3, 0.4, 1)
    bell = np.exp(-(np.array([-1, 0, 1]) ** 2) / (2 * 0.4**2))
    assert np.allclose(kernel, np.outer(bell, bell) / bell.sum() ** 2, atol=1e-7)


def test_defocus_of_a_point_is_the_disc():
    shown = blur.defocus(impulse(), (1.5, 0.1), None, 1.0)[0, 0]
    assert np.allclose(shown[6:11, 6:11], blur.disc(1.5, 0.1, 1), atol=1e-7)
    assert shown.sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("degrees", "direction"), [(0, (0, -1)), (90, (-1, 0)), (180, (0, 1)), (-90, (1, 0))]
)
def test_motion_draws_a_point_out_into_half_a_bell(degrees, direction):
    """A pixel takes from the pixels ahead of it, so a point is drawn out backwards."""
    shown = blur.along_line(impulse(), 4, 2.0, np.array([degrees], np.float32))[0, 0]
    expected = np.zeros_like(shown)
    weights = np.exp(-(np.arange(9) ** 2) / 8)
    for i, weight in enumerate(weights / weights.sum()):
        expected[8 + i * direction[0], 8 + i * direction[1]] = weight
    assert np.allclose(shown, expected, atol=1e-6)


def test_motion_at_45_degrees_stays_on_the_diagonal():
    shown = blur.along_line(impulse(), 3, 2.0, np.array([45], np.float32))[0, 0]
    assert shown.sum() == pytest.approx(1, abs=1e-5)
    assert np.abs(shown - np.diag(np.diag(shown))).sum() < 1e-6


@pytest.mark.parametrize("size", [8, 31, 32, 40])
@pytest.mark.parametrize("factor", [1.0, 1.01, 1.07, 1.25, 1.75, 2.25])
def test_zoom_is_scipys_zoom_of_the_middle(size, factor):
    x = np.random.default_rng(0).random((1, 2, size, size)).astype(np.float32)
    cut = int(np.ceil(size / factor))
    top = (size - cut) // 2
    middle = x[..., top : top + cut, top : top + cut].astype(np.float64)
    large = ndimage.zoom(middle, (1, 1, factor, factor), order=1)
    trim = (large.shape[2] - size) // 2
    if large.shape[2] >= size:
        expected = large[..., trim : trim + size, trim : trim + size]
        assert np.allclose(blur.zoom_centre(x, factor), expected, atol=1e-5)


def test_zoom_blur_averages_the_image_and_its_zooms_and_keeps_the_centre():
    x = np.random.default_rng(1).random((1, 1, 33, 33)).astype(np.float32)
    expected = (
        x + sum(blur.zoom_centre(x, i) for i in np.arange(1, 1.06, 0.01))
    ) / 8  # 1.06 is reached by rounding
    assert np.allclose(blur.zoom(x, 1.05, None, 1.0), expected, atol=1e-6)
    y, column = np.mgrid[-1:1:33j, -1:1:33j]
    bump = np.exp(-(y**2 + column**2) * 3)[None, None].astype(np.float32)
    shown = blur.zoom(bump, 1.25, None, 1.0)[0, 0]
    assert np.unravel_index(shown.argmax(), shown.shape) == (16, 16)
    assert shown[16, 16] == pytest.approx(1, abs=0.02) and shown.sum() > bump.sum()


def test_glass_moves_pixels_by_at_most_the_shift_and_loses_none():
    """Without blur (σ → 0) the pixels of an image are a permutation, and in one round nothing moves up or left by more than one."""
    side = 16
    values = np.arange(side * side, dtype=np.float32).reshape(1, 1, side, side) / 255
    shown = blur.glass(values, (1e-3, 1, 1), Draws(np.zeros((1, 1, 2, 2), np.uint8), "k"), 1.0)
    places = np.rint(shown[0, 0] * 255).astype(int)
    assert sorted(places.ravel()) == list(range(side * side))
    assert 0 < (places != np.rint(values[0, 0] * 255)).mean() < 1
    moved_down = np.mgrid[0:side, 0:side][0] - places // side
    assert moved_down.max() == 1 and moved_down.min() < 0  # handed on and on, a pixel goes up and left only


def test_gaussian_blur_is_a_convolution_with_the_bell():
    shown = blur.gaussian(impulse(21), 1.5)[0, 0].astype(float)
    line = np.exp(-(np.arange(-6, 7) ** 2) / (2 * 1.5**2))
    assert np.allclose(shown[4:17, 4:17], np.outer(line, line) / line.sum() ** 2, atol=1e-6)
