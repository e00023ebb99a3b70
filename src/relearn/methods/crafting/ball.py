"""The ball constraint of the poisons, also after 8-bit quantisation."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from relearn.methods.crafting.arguments import check_eps

PIXEL_ROUNDING = 1e-6  # float32 rounding of base ± ε on the [0, 1] scale


def quantise(poisons: Tensor, bases: Tensor, eps: float) -> Tensor:
    """The nearest 8-bit images (uint8) to poisons (..., k, C, H, W) within the ball around 8-bit bases.

    A pixel changes by at most floor(255 · eps) levels: for the published 0.1 that is 25 of 255. (Figure 2.2
    prints 26, which is 25.5 rounded up and lies outside.)

    Args:
        poisons: floating point, pixels in [0, 1], inside the ball.
        bases: floating point, pixels in [0, 1] that are whole multiples of 1/255; (k, C, H, W) or like
            poisons.
        eps: largest change of a pixel on the [0, 1] scale.

    Raises:
        ValueError: poisons outside the ball, or bases that are not 8-bit images.
    """
    assert_in_ball(poisons, bases, eps)
    levels = 255 * bases.double()
    whole = levels.round()
    if (levels - whole).abs().max() > 1e-3:
        raise ValueError("bases are not 8-bit images: 255 * pixel must be a whole number for every pixel")
    radius = math.floor(255 * eps + 1e-6)  # so that 255 * (8 / 255) is 8 despite rounding
    nearest = (255 * poisons.double()).round()
    inside = torch.minimum(torch.maximum(nearest, whole - radius), whole + radius)
    return inside.clamp(0, 255).to(torch.uint8)


def assert_in_ball(poisons: Tensor, bases: Tensor, eps: float) -> None:
    """Check |poison - base| ≤ eps and 0 ≤ poison ≤ 1 for poisons (..., k, C, H, W); uint8 is read as x / 255.

    Floating-point images may exceed the bounds by 1e-6 of rounding error, 8-bit images not at all.

    Raises:
        ValueError: an ``eps`` above 1, shapes that do not fit, or a violation; the message gives the largest one and its index.
    """
    check_eps(eps)
    if poisons.shape[-bases.ndim :] != bases.shape:
        raise ValueError(
            f"poisons {tuple(poisons.shape)} do not end in the shape of bases {tuple(bases.shape)}"
        )
    exact = poisons.dtype == bases.dtype == torch.uint8
    x, base = (t.double() / 255 if t.dtype == torch.uint8 else t.double() for t in (poisons, bases))
    change = (x - base).abs()
    excess = torch.maximum(change - eps, torch.maximum(-x, x - 1)).nan_to_num(nan=math.inf)
    if excess.numel() and excess.max() > (1e-9 if exact else PIXEL_ROUNDING):
        index = tuple(int(i) for i in (excess == excess.max()).nonzero()[0])
        raise ValueError(
            f"poisons leave the ball at {index}: pixel {float(x[index]):.6g}, "
            f"change {float(change[index]):.6g}; allowed are pixels in [0, 1] and "
            f"changes up to eps = {eps:g}, both on the [0, 1] scale"
        )
