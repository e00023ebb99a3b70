"""Noise: moments of flat images, at the published constants."""

import numpy as np
import pytest

from relearn.data.corruptions import SEVERITIES, corrupt


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
