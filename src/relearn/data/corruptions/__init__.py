"""The 15 common corruptions × 5 severities of Hendrycks & Dietterich 2019 (arXiv 1903.12261), with the parameters of CIFAR-10-C.

:func:`corrupt` applies them to clean 8-bit images, with the constants of the released generator of CIFAR-10-C (see :mod:`.severities`). The
released images are one random draw of that generator and ours are another, so numbers agree with the published data set in distribution,
not image by image. Differences:

- **frost** needs photographs that are not included: its texture is synthesised (:func:`.weather.frost`), and results must state this;
- glass blur exchanges pixels correctly (the released loop overwrites one of the two); motion blur and snow use our own filter along a line,
  and elastic shifts use exact bilinear sampling with mirrored borders;
- pixels are rounded to the nearest level (the released arrays were rounded down).

**Other sizes.** Published lengths are in pixels of 32 × 32 images. Factors (noise, contrast, pixelate, fog, …) apply to any size. Where a
length matters (:data:`IN_PIXELS`: the blurs and snow), an image smaller than 32 is enlarged by repeating pixels to at least 32, corrupted
and averaged back, and all lengths are multiplied by size/32, which corresponds to the same scene through the same lens. Elastic shifts are
multiplied by size/32. **Grey images** get the grey version of each corruption.

**Randomness.** Every image has its own generator, seeded by seed, corruption, severity and the image's bytes, so the result does not depend
on the order or size of the batch or on the other images. (Two identical images get identical noise.)
"""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relearn.data.corruptions import blur, digital, noise, weather
from relearn.data.corruptions.draws import Draws
from relearn.data.corruptions.severities import SEVERITIES, SIZE

KINDS: dict[str, Any] = {
    "gaussian_noise": noise.gaussian,
    "shot_noise": noise.shot,
    "impulse_noise": noise.impulse,
    "defocus_blur": blur.defocus,
    "glass_blur": blur.glass,
    "motion_blur": blur.motion,
    "zoom_blur": blur.zoom,
    "snow": weather.snow,
    "frost": weather.frost,
    "fog": weather.fog,
    "brightness": weather.brightness,
    "contrast": digital.contrast,
    "elastic_transform": digital.elastic,
    "pixelate": digital.pixelate,
    "jpeg_compression": digital.jpeg,
}
NAMES = tuple(KINDS)
SYNTHESISED = ("frost",)
"""Corruptions whose published texture is not available and is replaced by a synthesised one."""
IN_PIXELS = ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "snow")
LEVELS = (1, 2, 3, 4, 5)
CHUNK = 500  # images per chunk; does not change the result


def corrupt(images: NDArray[np.uint8], name: str, severity: int, *, seed: int = 0) -> NDArray[np.uint8]:
    """Corrupted copies of the images.

    Args:
        images: (n, C, H, W) uint8, C = 1 or 3.
        name: one of :data:`NAMES`.
        severity: 1 to 5.
        seed: seed of the random numbers, together with the image itself.

    Returns:
        (n, C, H, W) uint8.

    Raises:
        ValueError: an unknown name, severity or shape. TypeError: images that are not uint8 arrays.
    """
    check(name, severity)
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8:
        found = getattr(images, "dtype", type(images).__name__)
        raise TypeError(f"images: {found} (allowed: a NumPy array of uint8)")
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise ValueError(f"images have shape {images.shape}; allowed: (n, C, H, W) with C = 1 or 3")
    result = np.empty_like(images)
    for start in range(0, len(images), CHUNK):
        part = slice(start, start + CHUNK)
        result[part] = _corrupt(np.ascontiguousarray(images[part]), name, severity, seed)
    return result


def check(name: str, severity: int) -> None:
    """Check the arguments of :func:`corrupt` before images are available.

    Raises:
        ValueError: an unknown name or severity.
    """
    if name not in KINDS:
        nearest = difflib.get_close_matches(str(name), NAMES, n=1, cutoff=0.0)[0]
        raise ValueError(
            f"corruption {name!r} is unknown; did you mean {nearest!r}? allowed: {', '.join(NAMES)}"
        )
    if severity not in LEVELS:
        raise ValueError(f"severity is {severity!r}; allowed: 1, 2, 3, 4, 5")


def _corrupt(images: NDArray[np.uint8], name: str, severity: int, seed: int) -> NDArray[np.uint8]:
    draws = Draws(images, f"{seed}/{name}/{severity}")
    pixels = images.astype(np.float32) / np.float32(255)
    side = min(images.shape[2:])
    repeat = -(-SIZE // side) if name in IN_PIXELS else 1
    if repeat > 1:
        pixels = pixels.repeat(repeat, axis=2).repeat(repeat, axis=3)
    changed = KINDS[name](pixels, SEVERITIES[name][severity - 1], draws, side * repeat / SIZE)
    changed = np.clip(changed, 0, 1)
    if repeat > 1:
        n, c, height, width = images.shape
        changed = changed.reshape(n, c, height, repeat, width, repeat).mean((3, 5))
    return np.rint(changed * 255).astype(np.uint8)
