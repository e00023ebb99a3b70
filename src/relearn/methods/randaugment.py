r"""RandAugment (Cubuk et al. 2020, arXiv 1909.13719) on batches, with separate operations for each image.

For each image, ``operations`` of the 15 operations below are drawn; each is applied with probability 1/2 and strength

.. math:: s = \min\big(\max(m / 10, 0), 1\big), \qquad m \sim \mathcal N(\mathrm{magnitude}, \mathrm{spread}^2),

and, where the table says ±, a random sign. Images are floats in [0, 1], three channels or one.

==============  ==============================================================================  ======  ===================
operation       what it does                                                                    sign    on one channel
==============  ==============================================================================  ======  ===================
AutoContrast    stretch each channel to [0, 1]
Equalize        flatten each channel's histogram
Invert          1 - x
Rotate          by 30 s degrees about the centre                                                 ±
Posterize       keep the highest max(1, 4 - ⌊4 s⌋) of 8 bits
Solarize        invert x where it is at least (256 - ⌊256 s⌋)/255
SolarizeAdd     min(1, x + ⌊110 s⌋/255) where x < 128/255
Color           blend with the greys, weight max(0.1, 1 ± 0.9 s) on the image                   ±       the image as it is
Contrast        blend with the mean grey, same weight                                           ±
Brightness      blend with black, same weight                                                   ±
Sharpness       blend with the smoothed image, same weight                                      ±
ShearX, ShearY  by 0.3 s pixels per pixel, first row (column) fixed                             ±
TranslateX, -Y  by 0.45 s of the width (height)                                                 ±
==============  ==============================================================================  ======  ===================

Pixels outside the image get the value ``fill``. This is timm's ``rand-m9-mstd0.5-inc1``, which qi2023 gives as (9, 0.5) in table 6 and
by name in its code. It uses the "increasing" operations, whose effect grows with the magnitude (Equalize, Invert and AutoContrast do
not depend on it).

It **differs from timm** as follows: warps interpolate bilinearly (timm: bilinear or bicubic at random); only Equalize rounds to bytes;
Posterize keeps one bit at s = 1 (timm: none, a black image, which recent versions of Pillow reject). Like timm, it differs from
the RandAugment paper, in which every drawn operation is applied, identity is one of them, and all have the same strength.

The operations are torchvision's (``torchvision.transforms.v2.functional``) where it supports batches. Its warps and blends take one
strength for all images. Here the warps are implemented by one ``grid_sample``, and the blends interpolate between the image and
torchvision's result for weight 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relearn.methods.augmentation import Augment

Operation = Callable[[Tensor, Tensor, Tensor], Tensor]
"""``operation(images (n, C, H, W), strength (n,), sign (n,))``: strengths in [0, 1], signs ±1, both in float64 on the CPU, so that
integers derived from them do not depend on the images' dtype."""

PROBABILITY = 0.5
"""Probability that a drawn operation is applied, as in timm."""


def randaugment(
    magnitude: float = 9.0,
    spread: float = 0.5,
    operations: int = 2,
    fill: float | Sequence[float] | Tensor = 0.5,
) -> Augment:
    """RandAugment of a batch of images.

    Args:
        magnitude: mean of the strength, on a scale from 0 to 10.
        spread: standard deviation of the strength over images and operations; 0 for a fixed strength.
        operations: number of operations drawn for each image, with replacement, and applied in this order.
        fill: value of pixels outside the image, one number or one per channel; timm uses the data's mean.

    Four uniform numbers per image and operation are drawn from the given CPU generator, image by image, whichever operation they select.
    The result for an image therefore depends on the generator and on its position in the batch, not on the device or the other images.

    Raises:
        ValueError: a magnitude outside 0 to 10, a negative spread, fewer than 1 operation; images that are not floats or have neither 1
            nor 3 channels.
    """
    if not 0 <= magnitude <= 10:
        raise ValueError(f"randaugment magnitude: found {magnitude}, allowed is 0 to 10")
    if not 0 <= spread < math.inf:
        raise ValueError(f"randaugment spread: found {spread}, allowed is 0 or more")
    if operations < 1:
        raise ValueError(f"randaugment operations: found {operations}, allowed is 1 or more")
    outside = torch.as_tensor(fill, dtype=torch.float64)
    table = tuple(_table(outside).values())

    def augment(images: Tensor, generator: torch.Generator) -> Tensor:
        if not images.is_floating_point() or images.shape[1] not in (1, 3):
            found = f"{images.dtype} of {images.shape[1]} channels"
            raise ValueError(f"randaugment images: found {found}, allowed are floats of 1 or 3 channels")
        # Interpolation and convolution are available in single and double precision on all devices.
        result = images.float() if images.element_size() < 4 else images
        draws = torch.rand(len(images), operations, 4, generator=generator, dtype=torch.float64)
        kinds, coins, levels, signs = draws.unbind(-1)
        kinds = torch.where(coins < PROBABILITY, (kinds * len(table)).long(), -1)
        # Inverse normal CDF, because torch's own normal draws depend on the number drawn at once.
        normal = torch.special.ndtri(levels.clamp(min=2.0**-54))
        strengths = ((magnitude + spread * normal) / 10).clamp(0, 1)
        signs = torch.where(signs < 0.5, -1.0, 1.0).double()
        result = result.clone()
        for turn in range(operations):
            for kind, operation in enumerate(table):
                which = (kinds[:, turn] == kind).nonzero()[:, 0]
                if len(which):
                    there = which.to(result.device)
                    result[there] = operation(result[there], strengths[which, turn], signs[which, turn])
        return result.to(images.dtype)

    return augment


def _table(fill: Tensor) -> dict[str, Operation]:
    from relearn import torchvision_schema

    torchvision_schema.declare()
    from torchvision.transforms.v2 import functional

    def warp(matrix: Callable[[Tensor, float], Sequence[Any]]) -> Operation:
        """The output at (x, y) is the input at ``matrix`` (x, y, 1). Coordinates run from -1 to 1 over the image; ``matrix`` is
        called with the signed strength and width / height."""

        def operation(images: Tensor, strength: Tensor, sign: Tensor) -> Tensor:
            rows = matrix(strength * sign, images.shape[3] / images.shape[2])
            columns = [torch.as_tensor(entry, dtype=torch.float64).expand(len(images)) for entry in rows]
            theta = torch.stack(columns, 1).view(-1, 2, 3).to(images)
            grid = nn.functional.affine_grid(theta, list(images.shape), align_corners=False)
            outside = fill.to(images).view(-1, 1, 1)
            # grid_sample pads with 0, so the fill is subtracted before and added back afterwards.
            return nn.functional.grid_sample(images - outside, grid, align_corners=False) + outside

        return operation

    def blend(end: Callable[[Tensor], Tensor]) -> Operation:
        def operation(images: Tensor, strength: Tensor, sign: Tensor) -> Tensor:
            weight = _each((1 + 0.9 * strength * sign).clamp(min=0.1), images)
            return torch.lerp(end(images), images, weight).clamp(0, 1)

        return operation

    return {
        "AutoContrast": lambda images, *_: functional.autocontrast(images),
        "Equalize": lambda images, *_: functional.equalize(images),
        "Invert": lambda images, *_: 1 - images,
        "Rotate": warp(_rotation),
        "Posterize": _posterize,
        "Solarize": _solarize,
        "SolarizeAdd": _solarize_add,
        "Color": blend(lambda images: functional.adjust_saturation(images, 0.0)),
        "Contrast": blend(lambda images: functional.adjust_contrast(images, 0.0)),
        "Brightness": blend(torch.zeros_like),
        "Sharpness": blend(lambda images: functional.adjust_sharpness(images, 0.0)),
        "ShearX": warp(lambda s, wide: (1, 0.3 * s / wide, 0.3 * s / wide, 0, 1, 0)),
        "ShearY": warp(lambda s, wide: (1, 0, 0, 0.3 * s * wide, 1, 0.3 * s * wide)),
        "TranslateX": warp(lambda s, wide: (1, 0, 0.9 * s, 0, 1, 0)),
        "TranslateY": warp(lambda s, wide: (1, 0, 0, 0, 1, 0.9 * s)),
    }


def _rotation(signed: Tensor, wide: float) -> tuple[Any, ...]:
    angle = signed * (math.pi / 6)
    cosine, sine = angle.cos(), angle.sin()
    return cosine, -sine / wide, 0, sine * wide, cosine, 0


def _each(values: Tensor, images: Tensor) -> Tensor:
    """One number per image, shaped to broadcast over images."""
    return values.to(images).view(-1, 1, 1, 1)


def _posterize(images: Tensor, strength: Tensor, sign: Tensor) -> Tensor:
    bits = (4 - (4 * strength).floor()).clamp(min=1)
    unit = _each(2.0 ** (8 - bits), images)  # remaining byte values are multiples of this number
    return ((images * 255).round() / unit).floor() * unit / 255


def _solarize(images: Tensor, strength: Tensor, sign: Tensor) -> Tensor:
    threshold = _each(256 - (256 * strength).floor(), images)
    return torch.where((images * 255).round() < threshold, images, 1 - images)


def _solarize_add(images: Tensor, strength: Tensor, sign: Tensor) -> Tensor:
    added = _each((110 * strength).floor() / 255, images)
    return torch.where((images * 255).round() < 128, (images + added).clamp(max=1), images)
