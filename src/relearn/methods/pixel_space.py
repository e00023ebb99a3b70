"""Perturbations of images: δ has the shape of the images, and X + δ remains a valid image.

After every step δ is projected to its ball (``linf`` or ``l2``), and then X + δ is clipped to the valid range of pixels. Clipping only
moves entries of δ towards 0, so both constraints hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from relearn.methods.perturbation import Ball


@dataclass(frozen=True)
class PixelSpace:
    """δ is added to pixels.

    Args:
        bounds: the valid range; None for inputs without one (normalised images).
    """

    bounds: tuple[float, float] | None = (0.0, 1.0)

    @contextmanager
    def inside(self, model: nn.Module, batch: Sequence[Any]) -> Iterator[PixelField]:
        """Open the field of a batch ``(images, *rest)``.

        Raises:
            ValueError: the input is not a tensor of floats, or outside of the bounds.
        """
        images = batch[0]
        if not isinstance(images, Tensor) or not images.is_floating_point():
            found = images.dtype if isinstance(images, Tensor) else type(images).__name__
            raise ValueError(f"images: found {found} (allowed: a tensor of floats)")
        if self.bounds is not None and images.numel():
            low, high = self.bounds
            slack = 8 * torch.finfo(images.dtype).eps  # a mixture of images may round to just outside
            if not bool(
                (images.amin() >= low - slack * abs(low)) & (images.amax() <= high + slack * abs(high))
            ):
                found = f"{float(images.amin()):.4g} to {float(images.amax()):.4g}"
                raise ValueError(f"images run from {found}; allowed: {low:g} to {high:g}, or bounds=None")
        yield PixelField(model, images, self.bounds)


class PixelField:
    """A batch of images (B, C, H, W), or of vectors (B, d)."""

    real: Tensor | None = None

    def __init__(self, model: nn.Module, images: Tensor, bounds: tuple[float, float] | None) -> None:
        self.model, self.images, self.bounds = model, images, bounds
        self.samples, self.device = len(images), images.device
        self.shape: tuple[int, ...] = tuple(images.shape)
        self._leaf: Tensor | None = None

    @property
    def point(self) -> Tensor:
        assert self._leaf is not None
        return self._leaf

    def start(self, ball: Ball) -> Tensor:
        dtype = torch.promote_types(torch.float32, self.images.dtype)
        return ball.start(self.shape, self.samples, None, self.device).to(dtype)

    def output(self, delta: Tensor) -> Any:
        self._leaf = delta.detach().requires_grad_()
        return self.model(self.images + self._leaf.to(self.images.dtype))

    def confine(self, delta: Tensor) -> Tensor:
        if self.bounds is None:
            return delta
        return (self.images + delta).clamp(*self.bounds) - self.images

    def gradient(self) -> Tensor:
        found = self.point.grad
        if found is None:
            raise ValueError(
                "loss: does not depend on the images (allowed: a loss of the network's output at X + δ)"
            )
        return found

    def finish(self) -> None:
        self._leaf = None
