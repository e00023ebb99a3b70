"""Weather: brightness in HSV by the standard library, fog's formula, the fractal's range and roughness, frost and snow."""

import colorsys

import numpy as np
import pytest

from relearn.data.corruptions import corrupt, weather
from relearn.data.corruptions.draws import Draws


def scenes(n=4, channels=3, side=32, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, channels, side, side), np.uint8)


def draws(n=4, key="k"):
    return Draws(scenes(n, 1, 4), key)


@pytest.mark.parametrize("severity", [1, 5])
def test_brightness_adds_to_the_value_of_hsv(severity):
    images = scenes(1, side=8)
    images[0, :, 0, 0] = 0
    shown = corrupt(images, "brightness", severity)
    added = (0.05, 0.1, 0.15, 0.2, 0.3)[severity - 1]
    for row in range(8):
        for column in range(8):
            hue, saturation, value = colorsys.rgb_to_hsv(*(images[0, :, row, column] / 255))
            expected = np.array(colorsys.hsv_to_rgb(hue, saturation, min(value + added, 1))) * 255
            assert np.abs(shown[0, :, row, column] - expected).max() <= 0.51


def test_fog_of_a_flat_image_is_the_formula():
    """x = m everywhere: (m + c·p)·m/(m + c) runs from m²/(m + c) where there is no fog to m where it is thickest."""
    x = np.full((4, 3, 32, 32), 0.6, np.float32)
    shown = weather.fog(x, (1.5, 1.75), draws(), 1.0)
    assert shown.min((1, 2, 3)) == pytest.approx([0.6**2 / 2.1] * 4, abs=1e-5)
    assert shown.max((1, 2, 3)) == pytest.approx([0.6] * 4, abs=1e-5)
    assert np.abs(shown - shown[:, :1]).max() < 1e-6  # fog has no colour


def test_black_images_stay_finite():
    black = np.zeros((2, 3, 32, 32), np.uint8)
    assert corrupt(black, "fog", 5).max() == 0
    assert corrupt(black, "brightness", 2).min() == corrupt(black, "brightness", 2).max() == 26


@pytest.mark.parametrize("side", [5, 8, 32, 33])
def test_fractals_run_from_zero_to_one_and_are_rougher_at_a_slower_decay(side):
    rough, smooth = (weather.fractal(draws(), side, decay) for decay in (1.2, 3.0))
    for clouds in (rough, smooth):
        assert clouds.shape[1] >= side and clouds.shape[1] & (clouds.shape[1] - 1) == 0
        assert np.allclose(clouds.min((1, 2)), 0) and np.allclose(clouds.max((1, 2)), 1)

    def roughness(clouds):
        return float(np.abs(clouds - np.roll(clouds, 1, 2)).mean())

    assert roughness(rough) > 2 * roughness(smooth)


def test_without_wobble_every_new_point_is_the_mean_of_its_neighbours(monkeypatch):
    """From a map whose only height is the corner, the middle gets the mean of four corners, the edges that of four neighbours."""

    class Only:
        generators = (None,)

        def __init__(self):
            self.calls = 0

        def uniform(self, *shape, low, high):
            self.calls += 1
            return np.full((1, *shape), high if self.calls == 1 else 0.0, np.float32)

    heights = weather.fractal(Only(), 4, 2.0)[0]
    # middle 1; edges (0 + 0 + 1 + 1)/4 = 1/2; corner 0
    assert heights[2, 2] == 1 and heights[0, 0] == 0
    assert heights[0, 2] == heights[2, 0] == 0.5
    assert heights[1, 1] == pytest.approx((0 + 0.5 + 0.5 + 1) / 4)
    assert heights[0, 1] == pytest.approx((0 + 0.5 + 0.5 + 0.5) / 4)


def test_frost_is_the_weighted_sum_with_bluish_ice_between_its_bounds():
    x = np.full((4, 3, 32, 32), 0.5, np.float32)
    ice = (weather.frost(x, (0.75, 0.45), draws(), 1.0) - 0.75 * 0.5) / 0.45
    assert ice.min() > 0.19 and ice.max() <= 1.0001
    assert (ice.mean((0, 2, 3))[:2] < ice.mean((0, 2, 3))[1:]).all()
    doubled = weather.frost(x, (0.75, 0.90), draws(), 1.0)
    assert np.allclose(doubled - 0.375, 0.9 * ice, atol=1e-5)


def test_snow_only_brightens_and_without_flakes_only_pales():
    images = scenes(6)
    for severity in (1, 5):
        shown = corrupt(images, "snow", severity).astype(int)
        assert (shown >= images.astype(int) - 1).all()
    x = np.random.default_rng(0).random((4, 3, 32, 32)).astype(np.float32)
    nothing_falls = (0.0, 1e-6, 1.0, 0.5, 8, 3, 0.9)
    expected = 0.9 * x + 0.1 * np.maximum(x, 1.5 * weather.grey(x) + 0.5)
    assert np.allclose(weather.snow(x, nothing_falls, draws(), 1.0), expected, atol=1e-6)


def test_snow_lies_twice_once_turned_by_half():
    x = np.zeros((3, 1, 32, 32), np.float32)
    flakes = weather.snow(x, (0.3, 0.3, 1.25, 0.65, 14, 12, 1.0), draws(3), 1.0)
    assert np.allclose(flakes, flakes[:, :, ::-1, ::-1], atol=1e-6) and flakes.max() > 0.1
