"""Digital corruptions. x: (n, C, H, W) in [0, 1]; the constants are in ``severities``."""

from __future__ import annotations

import functools
import io

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from relearn.data.corruptions.draws import Draws, Floats

Points = NDArray[np.float64]


def contrast(x: Floats, factor: float, draws: Draws, scale: float) -> Floats:
    """(x - m)·c + m, where m is the mean of the image's channel."""
    means = x.mean((2, 3), keepdims=True)
    return (x - means) * np.float32(factor) + means


def elastic(x: Floats, constants: tuple[float, float, float], draws: Draws, scale: float) -> Floats:
    """A random affine map followed by random shifts smoothed with σ; lengths are fractions of the smaller side."""
    strength, sigma, corner = constants
    height, width = x.shape[2:]
    side = min(height, width)
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    grid = np.stack([rows, columns]).astype(np.float64)
    shifts = draws.uniform(3, 2, low=-corner * side, high=corner * side).astype(np.float64)
    moved = sample_bilinear(x, affine_sources(grid, shifts, side))
    if not strength:
        return moved
    rough = draws.uniform(2, height, width, low=-1, high=1)
    smooth = ndimage.gaussian_filter(rough, (0, 0, sigma * side, sigma * side), mode="reflect", truncate=3.0)
    return sample_bilinear(moved, grid + strength * side * smooth.astype(np.float64))


def affine_sources(grid: Points, shifts: Points, side: int) -> Points:
    """Source of each point under the affine maps that move three corners of the central square by ``shifts``.

    Shapes: grid (2, H, W) of rows and columns, shifts (n, 3, 2) → (n, 2, H, W).
    """
    height, width = grid.shape[1:]
    centre, half = np.array([height // 2, width // 2], float), side // 3
    corners = centre + half * np.array([[1, 1], [-1, 1], [-1, -1]], float)
    ones = np.ones((3, 1))
    moved = np.concatenate([corners + shifts, np.broadcast_to(ones, (len(shifts), 3, 1))], axis=2)
    # moved @ map = corners: the inverse map, directly from target to source
    inverse = np.linalg.solve(moved, np.broadcast_to(corners, (len(shifts), 3, 2)))
    flat = np.concatenate([grid.reshape(2, -1), np.ones((1, height * width))]).T
    return (flat @ inverse).transpose(0, 2, 1).reshape(-1, 2, height, width)


def sample_bilinear(x: Floats, places: Points) -> Floats:
    """Bilinear interpolation of images (n, C, H, W) at rows and columns (n, 2, H, W), with mirrored borders."""
    n, channels, height, width = x.shape
    low = np.floor(places).astype(int)
    part = (places - low).astype(np.float32)[:, :, None]
    flat = x.reshape(n, channels, -1)
    result = np.zeros_like(x)
    for down in (0, 1):
        for right in (0, 1):
            row, column = mirror_index(low[:, 0] + down, height), mirror_index(low[:, 1] + right, width)
            index = (row * width + column).reshape(n, 1, -1)
            weight = (part[:, 0] if down else 1 - part[:, 0]) * (part[:, 1] if right else 1 - part[:, 1])
            result += weight * np.take_along_axis(flat, index, axis=2).reshape(x.shape)
    return result


def mirror_index(index: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Indices into 0 … size - 1: … 2 1 0 1 2 … (the border point is not repeated)."""
    period = max(2 * (size - 1), 1)
    index = np.abs(index) % period
    return np.where(index < size, index, period - index)


def pixelate(x: Floats, factor: float, draws: Draws, scale: float) -> Floats:
    """Reduce to ⌊factor·side⌋ pixels by averaging, enlarge by repeating; 8-bit after rows and after columns, as in Pillow.

    For small images adjacent severities may coincide: 8 pixels become 7, 7, 6, 6, 5.
    """
    (small_rows, big_rows), (small_columns, big_columns) = (
        box_matrices(size, max(1, int(size * factor))) for size in x.shape[2:]
    )
    small = _in_levels(small_rows @ _in_levels(x @ small_columns.T))
    return np.asarray(big_rows @ small @ big_columns.T, np.float32)


def _in_levels(x: Floats) -> Floats:
    return np.asarray(np.floor(x * np.float32(255) + 0.5) / 255, np.float32)


@functools.lru_cache(maxsize=64)
def box_matrices(size: int, less: int) -> tuple[Floats, Floats]:
    """(less, size) averages, for each new pixel, the old ones whose centre lies in it; (size, less) repeats the nearest pixel."""
    edges = (np.arange(less + 1) * (size / less) + 0.5).astype(int)
    old = np.arange(size)
    inside = (old >= edges[:-1, None]) & (old < edges[1:, None])
    nearest = ((old + 0.5) * (less / size)).astype(int)
    return (
        (inside / inside.sum(1, keepdims=True)).astype(np.float32),
        np.eye(less, dtype=np.float32)[nearest],
    )


def jpeg(x: Floats, quality: int, draws: Draws, scale: float) -> Floats:
    """JPEG compression by Pillow: 8 × 8 blocks, colour at half resolution."""
    from PIL import Image

    eight = np.rint(x * 255).astype(np.uint8)
    result = np.empty_like(eight)
    for image, place in zip(eight, result):
        file = io.BytesIO()
        Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).save(
            file, "JPEG", quality=quality
        )
        decoded = np.asarray(Image.open(file))
        place[:] = decoded[None] if decoded.ndim == 2 else decoded.transpose(2, 0, 1)
    return result.astype(np.float32) / np.float32(255)
