"""Augmentation of image batches: crops, flips and cutout, vectorised over the batch and on its device.

RandAugment is in :mod:`relearn.methods.randaugment`, mixtures of images and labels in :mod:`relearn.methods.mixing`.

All random numbers come from a CPU generator passed by the training loop, so they do not depend on the device. Images are
(B, C, H, W) floats in pixel units, [0, 1]; the networks of this package normalise inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Augment = Callable[[Tensor, torch.Generator], Tensor]
Mix = Callable[[Sequence[Any], torch.Generator], list[Any]]


def compose(*augments: Augment) -> Augment:
    """Apply several augmentations in order."""

    def augment(images: Tensor, generator: torch.Generator) -> Tensor:
        for each in augments:
            images = each(images, generator)
        return images

    return augment


def crop_and_flip(padding: int, flip: bool) -> Augment:
    """A random crop after zero padding, then a random horizontal flip, of image batches (B, C, H, W).

    Each image gets its own offset and its own coin flip, drawn from the given CPU generator; the work is done on the images' device,
    without a loop.
    """

    def augment(images: Tensor, generator: torch.Generator) -> Tensor:
        batch, _, height, width = images.shape
        if padding:
            offsets = torch.randint(0, 2 * padding + 1, (2, batch), generator=generator).to(images.device)
            padded = nn.functional.pad(images, (padding,) * 4)
            rows = offsets[0][:, None] + torch.arange(height, device=images.device)
            columns = offsets[1][:, None] + torch.arange(width, device=images.device)
            which = torch.arange(batch, device=images.device)[:, None, None]
            images = padded.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]].permute(
                0, 3, 1, 2
            )
        if flip:
            coins = torch.rand(batch, generator=generator).to(images.device) < 0.5
            images = torch.where(coins[:, None, None, None], images.flip(3), images)
        return images

    return augment


def cutout(size: int, holes: int = 1, fill: float | Sequence[float] | Tensor = 0.0) -> Augment:
    r"""Cutout (DeVries & Taylor 2017, arXiv 1708.04552): square holes of ``size`` × ``size`` pixels in every image.

    The centre :math:`(r, c)` of each hole is uniform over the image, and the hole covers rows :math:`r - \lfloor s/2 \rfloor` to
    :math:`r - \lfloor s/2 \rfloor + s - 1`, columns alike; parts outside the image are lost, so some holes are smaller.

    Args:
        fill: value of the holes in pixel units, one number or one per channel. Published code cuts after normalisation and writes
            zeros; for the networks of this package, which normalise inside, pass the channels' **mean**, which becomes that zero.

    Raises:
        ValueError: ``size`` or ``holes`` below 1.
    """
    for key, value in {"size": size, "holes": holes}.items():
        if value < 1:
            raise ValueError(f"cutout {key}: found {value}, allowed is 1 or more")
    values = torch.as_tensor(fill, dtype=torch.float64)

    def augment(images: Tensor, generator: torch.Generator) -> Tensor:
        batch, _, height, width = images.shape
        rows = torch.randint(0, height, (batch, holes, 1), generator=generator).to(images.device)
        columns = torch.randint(0, width, (batch, holes, 1), generator=generator).to(images.device)
        # Position of each row (column) relative to each hole; covered if it lies in [0, size).
        down = torch.arange(height, device=images.device) - rows + size // 2
        right = torch.arange(width, device=images.device) - columns + size // 2
        inside = ((down >= 0) & (down < size))[..., :, None] & ((right >= 0) & (right < size))[..., None, :]
        return torch.where(inside.any(1)[:, None], values.to(images).view(-1, 1, 1), images)

    return augment
