"""Weather and brightness. x: (n, C, H, W) in [0, 1]; the constants are in ``severities``."""

from __future__ import annotations

import numpy as np

from relearn.data.corruptions.blur import along_line, zoom_centre
from relearn.data.corruptions.draws import Draws, Floats

LUMA = np.array((0.299, 0.587, 0.114), np.float32)
FROST_COLOUR = np.array((0.80, 0.92, 1.00), np.float32)  # slightly blue


def snow(x: Floats, constants: tuple[float, ...], draws: Draws, scale: float) -> Floats:
    """Noise above a threshold, blurred along its motion, added twice (once rotated by 180°) to a whitened image."""
    mean, std, factor, threshold, radius, sigma, weight = constants
    height, width = x.shape[2:]
    flakes = np.float32(mean) + np.float32(std) * draws.normal(1, height, width)
    flakes = zoom_centre(flakes, factor)
    flakes = np.clip(np.where(flakes < threshold, np.float32(0), flakes), 0, 1)
    flakes = along_line(flakes, radius * scale, sigma * scale, draws.uniform(low=-135, high=-45))
    whitened = np.maximum(x, 1.5 * grey(x) + np.float32(0.5))
    pale = np.float32(weight) * x + np.float32(1 - weight) * whitened
    return pale + flakes + flakes[:, :, ::-1, ::-1]


def grey(x: Floats) -> Floats:
    """Luma (n, 1, H, W) of colour images; grey images are returned unchanged."""
    return x if x.shape[1] == 1 else np.tensordot(x, LUMA, (1, 0))[:, None]


def frost(x: Floats, constants: tuple[float, float], draws: Draws, scale: float) -> Floats:
    """a·x + b·ice with synthesised ice; the published one is cropped from photographs that are not included.

    The synthesised ice consists of two rough fractals folded at 1/2, which gives thin bright ridges on a dark background.
    """
    image_weight, frost_weight = constants
    height, width = x.shape[2:]
    ridges = [1 - np.abs(2 * fractal(draws, max(height, width), 1.3) - 1) for _ in range(2)]
    ice = (0.25 + 0.75 * np.maximum(ridges[0], ridges[1]) ** 6)[:, None, :height, :width]
    colour = FROST_COLOUR if x.shape[1] == 3 else (FROST_COLOUR @ LUMA).reshape(1)
    return np.float32(image_weight) * x + np.float32(frost_weight) * ice * colour[:, None, None]


def fog(x: Floats, constants: tuple[float, float], draws: Draws, scale: float) -> Floats:
    """(x + c·fog)·m / (m + c), where m is the image's maximum: fog brightens and reduces contrast."""
    weight, decay = constants
    height, width = x.shape[2:]
    clouds = fractal(draws, max(height, width), decay)[:, None, :height, :width]
    largest = x.max((1, 2, 3), keepdims=True, initial=0)
    return (x + np.float32(weight) * clouds) * largest / (largest + np.float32(weight))


def fractal(draws: Draws, side: int, decay: float) -> Floats:
    """Diamond-square clouds (n, s, s) on a torus, s the next power of two ≥ side; each map from 0 to 1.

    The centre of a square is the mean of its corners, the midpoint of an edge the mean of its four neighbours, each plus uniform
    noise whose width decreases by decay² per scale (the released program multiplies two amplitudes that both decay).
    """
    size = 1 << max(side - 1, 1).bit_length()
    n = len(draws.generators)
    heights = np.zeros((n, size, size), np.float32)
    step, width = size, 1.0
    while step >= 2:
        half = step // 2
        corners = heights[:, ::step, ::step]
        count = size // step
        total = corners + np.roll(corners, -1, 1)
        total = total + np.roll(total, -1, 2)
        middles = total / 4 + draws.uniform(count, count, low=-width, high=width)
        heights[:, half::step, half::step] = middles
        total = corners + np.roll(corners, -1, 2) + middles + np.roll(middles, 1, 1)
        edges = total / 4 + draws.uniform(count, count, low=-width, high=width)
        total = corners + np.roll(corners, -1, 1) + middles + np.roll(middles, 1, 2)
        heights[:, ::step, half::step] = edges
        heights[:, half::step, ::step] = total / 4 + draws.uniform(count, count, low=-width, high=width)
        step, width = half, width / decay**2
    heights -= heights.min((1, 2), keepdims=True, initial=np.inf)
    return heights / np.maximum(heights.max((1, 2), keepdims=True, initial=0), np.float32(1e-12))


def brightness(x: Floats, added: float, draws: Draws, scale: float) -> Floats:
    """Value (HSV: the largest channel) plus a constant, at most 1; hue and saturation, and hence the ratios of the channels, are
    preserved."""
    value = x.max(1, keepdims=True)
    brighter = np.minimum(value + np.float32(added), 1)
    ratio = brighter / np.where(value > 0, value, 1)
    return np.where(value > 0, x * ratio, brighter)
