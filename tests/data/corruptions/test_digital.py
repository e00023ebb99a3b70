"""Digital corruptions: closed forms, Pillow and SciPy as the slow truth."""

import io

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from relearn.data.corruptions import corrupt, digital
from relearn.data.corruptions.draws import Draws


def scenes(n=3, channels=3, side=32, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, channels, side, side), np.uint8)


@pytest.mark.parametrize("severity", [1, 5])
def test_contrast_keeps_each_channels_mean_and_scales_its_spread(severity):
    images = (scenes() // 2 + 64).astype(np.uint8)
    shown = corrupt(images, "contrast", severity).astype(float)
    factor = (0.75, 0.5, 0.4, 0.3, 0.15)[severity - 1]
    assert np.allclose(shown.mean((2, 3)), images.mean((2, 3)), atol=0.3)
    assert np.allclose(shown.std((2, 3)), factor * images.std((2, 3)), rtol=0.01)


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("side", [8, 32])
def test_pixelate_is_pillows_box_filter(severity, side):
    images = scenes(side=side)
    factor = (0.95, 0.90, 0.85, 0.75, 0.65)[severity - 1]
    less = int(side * factor)
    for image, shown in zip(images, corrupt(images, "pixelate", severity)):
        small = Image.fromarray(image.transpose(1, 2, 0)).resize((less, less), Image.Resampling.BOX)
        expected = np.asarray(small.resize((side, side), Image.Resampling.BOX)).transpose(2, 0, 1)
        different = shown != expected  # where a mean is half a level, rounding errors decide
        assert different.mean() < 0.01 and np.abs(shown.astype(int) - expected.astype(int)).max() <= 1


def test_pixelate_to_half_repeats_the_mean_of_each_block():
    x = np.random.default_rng(0).random((1, 1, 8, 8)).astype(np.float32)
    blocks = x.reshape(1, 1, 4, 2, 4, 2).mean((3, 5)).repeat(2, 2).repeat(2, 3)
    assert np.abs(digital.pixelate(x, 0.5, None, 1.0) - blocks).max() <= 1 / 255 + 1e-6  # rounded twice


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_is_what_pillow_writes_and_reads(channels):
    images = scenes(channels=channels)
    shown = corrupt(images, "jpeg_compression", 5)
    for image, found in zip(images, shown):
        file = io.BytesIO()
        Image.fromarray(image[0] if channels == 1 else image.transpose(1, 2, 0)).save(
            file, "JPEG", quality=40
        )
        read = np.asarray(Image.open(file))
        assert np.array_equal(found, read[None] if channels == 1 else read.transpose(2, 0, 1))


def test_sampling_at_the_pixels_gives_the_image_and_between_them_the_line():
    x = np.random.default_rng(0).random((2, 3, 6, 7)).astype(np.float32)
    grid = np.stack(np.meshgrid(np.arange(6), np.arange(7), indexing="ij")).astype(float)[None].repeat(2, 0)
    assert np.array_equal(digital.sample_bilinear(x, grid), x)
    places = grid + np.random.default_rng(1).uniform(-9, 9, grid.shape)
    expected = [
        [ndimage.map_coordinates(channel.astype(float), place, order=1, mode="mirror") for channel in image]
        for image, place in zip(x, places)
    ]
    assert np.allclose(digital.sample_bilinear(x, places), expected, atol=1e-5)


def test_indices_are_mirrored_without_repeating_the_border():
    assert digital.mirror_index(np.arange(-4, 8), 4).tolist() == [2, 3, 2, 1, 0, 1, 2, 3, 2, 1, 0, 1]
    assert digital.mirror_index(np.arange(-2, 3), 1).tolist() == [0] * 5


def test_the_affine_map_takes_each_moved_corner_from_where_it_was():
    """Equal shifts of the three corners are a translation, no shifts the identity."""
    grid = np.stack(np.meshgrid(np.arange(32), np.arange(32), indexing="ij")).astype(float)
    shifts = np.zeros((3, 3, 2))
    shifts[1] = (2.0, -1.0)
    shifts[2] = np.random.default_rng(0).uniform(-2, 2, (3, 2))
    sources = digital.affine_sources(grid, shifts, 32)
    assert np.allclose(sources[0], grid)
    assert np.allclose(sources[1], grid - np.array([2.0, -1.0])[:, None, None])
    # The third map is linear: its value at a moved corner, by the plane through three grid points, is the corner.
    origin, down, right = sources[2][:, 0, 0], sources[2][:, 1, 0], sources[2][:, 0, 1]
    for corner, shift in zip(np.array([[26.0, 26], [6, 26], [6, 6]]), shifts[2]):
        row, column = corner + shift
        assert np.allclose(origin + row * (down - origin) + column * (right - origin), corner)


def test_elastic_without_shifts_is_the_identity_and_moves_a_point_only_a_little():
    x = np.random.default_rng(0).random((2, 3, 32, 32)).astype(np.float32)
    still = Draws(scenes(2), "k")
    assert np.allclose(digital.elastic(x, (0.0, 0.0, 0.0), still, 1.0), x, atol=1e-6)
    y, column = np.mgrid[0:32, 0:32]
    bump = np.exp(-((y - 16) ** 2 + (column - 16) ** 2) / 18)[None, None].astype(np.float32).repeat(2, 0)
    for constants in ((0.05, 0.2, 0.07), (0.1, 0.03, 0.03)):
        shown = digital.elastic(bump, constants, Draws(scenes(2), "k"), 1.0)
        centre = np.array(
            [(shown[i, 0] * place).sum() / shown[i, 0].sum() for i in (0, 1) for place in (y, column)]
        )
        assert 0.01 < np.abs(centre - 16).max() < 32 * constants[2] * 3 + 32 * constants[0]
