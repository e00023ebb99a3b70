"""Blurs. x: (n, C, H, W) in [0, 1]; lengths are in pixels of 32 × 32 images and multiplied by ``scale`` = side / 32."""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from relearn.data.corruptions.draws import Draws, Floats


def defocus(x: Floats, constants: tuple[float, float], draws: Draws, scale: float) -> Floats:
    """Convolution with a slightly smoothed disc; mirrored borders."""
    radius, smoothing = constants
    kernel = disc(radius * scale, smoothing * scale, max(1, round(scale)))
    return ndimage.correlate(x, kernel[None, None], mode="mirror")


def disc(radius: float, smoothing: float, reach: int) -> Floats:
    """Equal weights for i² + j² ≤ r², smoothed by a Gaussian truncated at ``reach`` pixels; sum 1."""
    half = int(radius)
    line = np.arange(-half, half + 1)
    points = (line[:, None] ** 2 + line[None] ** 2 <= radius**2).astype(np.float64)
    bell = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * smoothing**2))
    points = np.pad(points, reach)
    for axis in (0, 1):
        points = ndimage.convolve1d(points, bell / bell.sum(), axis, mode="constant")
    return (points / points.sum()).astype(np.float32)


def glass(x: Floats, constants: tuple[float, int, int], draws: Draws, scale: float) -> Floats:
    """Blur, exchange each pixel with a nearby one (at most ``shift`` above or to the left), and blur again.

    Pixels are visited from the lower right to the upper left, in ``rounds`` rounds; a margin of ``shift`` is not visited. All images
    are processed at once: the loop exchanges positions, and the pixels are moved at the end.
    """
    sigma, shift, rounds = constants[0] * scale, max(1, round(constants[1] * scale)), constants[2]
    blurred: Floats = (np.floor(gaussian(x, sigma) * 255) / 255).astype(np.float32)
    n, channels, height, width = x.shape
    moves = draws.integers(-shift, shift, rounds, 2, height, width)
    offsets = np.ascontiguousarray((moves[:, :, 0] * width + moves[:, :, 1]).reshape(n, rounds, -1).T)
    order = np.repeat(
        np.arange(height * width)[:, None], n, axis=1
    )  # order[p, i]: source position of the pixel at p in image i
    each = np.arange(n)
    for turn in range(rounds):
        for row in range(height - shift, shift, -1):
            for column in range(width - shift, shift, -1):
                place = row * width + column
                other = place + offsets[place, turn]
                mine = order[place].copy()
                order[place] = order[other, each]
                order[other, each] = mine
    flat = np.take_along_axis(blurred.reshape(n, channels, -1), order.T[:, None], axis=2)
    return gaussian(flat.reshape(x.shape), sigma)


def gaussian(x: Floats, sigma: float) -> Floats:
    """Gaussian blur of rows and columns, truncated at 4 σ; borders repeat the last value."""
    return ndimage.gaussian_filter(x, (0, 0, sigma, sigma), mode="nearest", truncate=4.0)


def motion(x: Floats, constants: tuple[float, float], draws: Draws, scale: float) -> Floats:
    """Blur along a line at a random angle between -45° and 45° per image."""
    radius, sigma = constants
    return along_line(x, radius * scale, sigma * scale, draws.uniform(low=-45, high=45))


def along_line(x: Floats, radius: float, sigma: float, degrees: Floats) -> Floats:
    r"""Mean of the pixels along a ray with weights :math:`\propto e^{-i^2/2\sigma^2}`, i = 0 … 2⌈r⌉ pixels away.

    The ray's points are rounded to pixels; borders repeat the last value. ``degrees`` (n,): 0 = along the row, 90 = down.
    """
    reach = 2 * math.ceil(radius)
    steps = np.arange(reach + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights = (weights / weights.sum()).astype(np.float32)
    height, width = x.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (reach, reach), (reach, reach)), mode="edge")
    result = np.zeros_like(x)
    for image, source, angle in zip(result, padded, np.deg2rad(degrees.astype(np.float64))):
        down = np.ceil(steps * math.sin(angle) - 0.5).astype(int) + reach
        right = np.ceil(steps * math.cos(angle) - 0.5).astype(int) + reach
        for weight, top, left in zip(weights, down.tolist(), right.tolist()):
            image += weight * source[:, top : top + height, left : left + width]
    return result


def zoom(x: Floats, largest: float, draws: Draws, scale: float) -> Floats:
    """Mean of the image and its zooms by 1, 1.01, …, about ``largest``, as from a camera moving forward.

    As in the released generator, rounding decides: 1.06 and 1.11 are also reached for 1.05 and 1.10, and 1.25 is slightly more, which
    changes the size of that zoom.
    """
    factors = np.arange(1, round(largest + 0.01, 2), 0.01)
    total = x.copy()
    for factor in factors:
        total += zoom_centre(x, float(factor))
    return (total / (len(factors) + 1)).astype(np.float32)


def zoom_centre(x: Floats, factor: float) -> Floats:
    """The central part, enlarged linearly to the whole image."""
    rows, columns = (zoom_matrix(size, factor) for size in x.shape[2:])
    return np.asarray(rows @ x @ columns.T, np.float32)


@functools.lru_cache(maxsize=256)
def zoom_matrix(size: int, factor: float) -> NDArray[np.float32]:
    """(size, size) matrix that takes the central ⌈size / factor⌉ points, interpolates them to factor times as many, and crops to ``size``.

    The first and the last point of the crop are mapped to themselves, as in SciPy's ``zoom``.
    """
    cut = math.ceil(size / factor)
    many = round(cut * factor)
    places = (size - cut) // 2 + (np.arange(size) + (many - size) // 2) * ((cut - 1) / max(many - 1, 1))
    low = np.minimum(places.astype(int), size - 1)
    high = np.minimum(low + 1, size - 1)
    part = places - low
    matrix = np.zeros((size, size))
    np.add.at(matrix, (np.arange(size), low), 1 - part)
    np.add.at(matrix, (np.arange(size), high), part)
    return matrix.astype(np.float32)
