"""Random numbers for a batch, image by image: those of an image depend only on the image itself and a key."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Draws:
    """One counter-based generator (Philox) per image, keyed by a hash of the image's bytes and a text.

    Each method draws for all images at once, (n, *shape); the stream of an image continues from call to call. The generators are created
    at the first draw, so corruptions without randomness do not pay for them.
    """

    def __init__(self, images: NDArray[np.uint8], key: str) -> None:
        self._images, self._key = images, key.encode()

    @cached_property
    def generators(self) -> list[np.random.Generator]:
        made = []
        for image in self._images:
            words = hashlib.blake2b(image.tobytes(), digest_size=16, key=self._key).digest()
            made.append(np.random.Generator(np.random.Philox(key=int.from_bytes(words, "little"))))
        return made

    def normal(self, *shape: int) -> Floats:
        """Standard normal."""
        return self._stack([g.standard_normal(shape, np.float32) for g in self.generators], shape)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Floats:
        """Uniform in [low, high)."""
        unit = self._stack([g.random(shape, np.float32) for g in self.generators], shape)
        return np.float32(low) + np.float32(high - low) * unit

    def poisson(self, mean: Floats) -> Floats:
        """Poisson counts of the means (n, …)."""
        counts: list[Any] = [g.poisson(m) for g, m in zip(self.generators, mean)]
        return self._stack(counts, mean.shape[1:])

    def integers(self, low: int, high: int, *shape: int) -> NDArray[np.int64]:
        """Whole numbers in [low, high)."""
        drawn = [g.integers(low, high, shape) for g in self.generators]
        return np.stack(drawn) if drawn else np.empty((0, *shape), np.int64)

    def _stack(self, drawn: list[Any], shape: tuple[int, ...]) -> Floats:
        return np.stack(drawn).astype(np.float32, copy=False) if drawn else np.empty((0, *shape), np.float32)
