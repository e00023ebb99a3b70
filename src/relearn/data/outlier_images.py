"""Common form of out-of-distribution images, and their conversion to a network's input format.

A network takes images of one size and number of channels, so other images must be converted. The only conversions are:

- **channels**: colour to grey by :math:`Y = 0.299 R + 0.587 G + 0.114 B` (ITU-R BT.601, rounded to the nearest level); grey to colour by
  repeating the channel;
- **size**: larger square images are averaged down (the mean over the area of each new pixel). Smaller images raise an error, because
  enlarging blurs them and a network could detect them by the blur alone. So do images that are not square.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from relearn.data.images import CHUNK

if TYPE_CHECKING:
    from relearn.data.arrays import Prepared

LUMA = (299, 587, 114)  # thousandths of R, G, B


@dataclass(frozen=True)
class Wanted:
    """A request to a source: ``count`` images of ``channels`` × ``size`` × ``size``, drawn with ``seed``.

    ``prepared`` is the in-distribution data, used only by sources that modify its images; ``folder`` is a folder that already
    holds the set, None for the cache or a download.
    """

    size: int
    channels: int
    count: int
    seed: int
    prepared: Prepared | None = None
    folder: Path | None = None

    def generator(self, name: str) -> np.random.Generator:
        """A random generator for this source alone, so that no two sets share draws."""
        return np.random.default_rng([self.seed, *name.encode()])


class Outliers(NamedTuple):
    """Images and one line that describes them and their conversion."""

    images: NDArray[np.uint8]
    """(n, C, H, W)."""
    words: str


def select_images(name: str, images: NDArray[np.uint8], wanted: Wanted, words: str) -> Outliers:
    """``count`` of a set's images, drawn without replacement, in the set's order and in the requested form.

    Raises:
        ValueError: fewer images than requested, or an impossible conversion.
    """
    if wanted.count > len(images):
        raise ValueError(f"{name}: {wanted.count} images requested (allowed: at most {len(images)})")
    index = np.sort(wanted.generator(name).permutation(len(images))[: wanted.count])
    fitted, done = fit(name, images[index], size=wanted.size, channels=wanted.channels)
    return Outliers(fitted, f"{words}; {wanted.count} of {len(images)} images{done}")


def fit(name: str, images: NDArray[np.uint8], *, size: int, channels: int) -> tuple[NDArray[np.uint8], str]:
    """Images (n, C, H, W) uint8 as (n, ``channels``, ``size``, ``size``), and a description of the conversion ("" for none).

    Raises:
        ValueError: the images are smaller, not square, or do not have 1 or 3 channels.
    """
    _, found, height, width = images.shape
    if found not in (1, 3) or channels not in (1, 3):
        raise ValueError(f"{name}: {found} channels for a network of {channels} (allowed: 1 and 3)")
    if height != width or height < size:
        raise ValueError(
            f"{name}: images of {height} x {width} pixels for a network of {size} x {size} "
            "(allowed: squares of that size or larger, which are averaged down)"
        )
    done = ""
    if found > channels:
        images, done = grey(images), done + ", made grey (BT.601)"
    if height > size:
        images, done = smaller(images, size), done + f", averaged down from {height} to {size} pixels"
    if found < channels:
        images, done = np.repeat(images, 3, axis=1), done + ", grey repeated in three channels"
    return np.ascontiguousarray(images), done


def grey(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(n, 3, H, W) to (n, 1, H, W) by the formula above."""
    weighted = sum(weight * images[:, channel].astype(np.int64) for channel, weight in enumerate(LUMA))
    rounded: Any = (weighted + 500) // 1000
    return rounded.astype(np.uint8)[:, None]


def smaller(images: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """(n, C, H, H) to (n, C, size, size), each new pixel the mean over its area, rounded to the nearest level."""
    height = images.shape[2]
    edges = np.arange(size + 1) * height / size  # of the new pixels, in units of old ones
    low, high = edges[:-1, None], edges[1:, None]
    pixels = np.arange(height)
    shared = np.clip(np.minimum(high, pixels + 1) - np.maximum(low, pixels), 0, None)
    weights = shared * size / height  # (size, H), rows sum to 1
    result = np.empty((*images.shape[:2], size, size), np.uint8)
    for start in range(0, len(images), CHUNK):
        part = slice(start, start + CHUNK)
        result[part] = np.rint(weights @ images[part].astype(np.float64) @ weights.T)
    return result
