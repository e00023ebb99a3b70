"""Upper bounds on the norm of a zero-padded convolution; power iteration (`relearn.maths.norms`) gives only lower bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor
from torch.nn.functional import pad

from relearn.maths.norms import fourier_norm, spectral_norm


def conv_bound(
    weight: Tensor,
    size: Sequence[int],
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    groups: int = 1,
    p: str = "two",
) -> Tensor:
    r"""Return an upper bound on the norm of a convolution with zero padding, as a map of whole images.

    * p = inf: the largest absolute sum of an output channel's kernel. Exact if one output sees its whole kernel inside the image.
    * p = two, windows that neither overlap nor reach into padding: the norm of the flattened kernel, exact.
    * p = two otherwise: the padded image is treated as a torus, on which none of the convolution's windows wraps around. The
      convolution is then a part of the circular one, so its norm is at most the largest singular value over the frequencies
      of the torus. A stride s is removed first: blocks of s pixels on each axis become channels, which changes no norm.

    Args:
        weight: (out, in/groups, *kernel).
        size: input size along the kernel's axes.
        stride, padding: one number per kernel axis.

    Raises:
        ValueError: shapes that do not fit, or an unknown p.
    """
    axes = weight.ndim - 2
    if not 1 <= axes == len(size) == len(stride) == len(padding):
        raise ValueError(
            f"weight {tuple(weight.shape)}, size {tuple(size)}, stride {tuple(stride)}, padding {tuple(padding)} "
            "(allowed: (out, in/groups, *kernel) and one number per axis of the kernel)"
        )
    if p == "inf":
        return weight.abs().flatten(1).sum(1).amax()
    if p != "two":
        raise ValueError(f"p: {p!r} (allowed: two, inf)")
    kernel = weight.shape[2:]
    if groups == 1 and not any(padding) and all(s >= k for s, k in zip(stride, kernel)):
        return spectral_norm(weight.flatten(1))
    filling: list[int] = []
    for s, k in zip(reversed(stride), reversed(kernel)):
        filling += [0, -k % s]
    weight = pad(weight, filling)
    shape = [part for s, k in zip(stride, weight.shape[2:]) for part in (k // s, s)]
    blocks = weight.reshape(*weight.shape[:2], *shape)
    inside, outside = range(3, 3 + 2 * axes, 2), range(2, 2 + 2 * axes, 2)
    blocks = blocks.permute(0, 1, *inside, *outside).reshape(
        weight.shape[0], weight.shape[1] * math.prod(stride), *shape[::2]
    )
    torus = [-(-(n + 2 * p_) // s) for n, p_, s in zip(size, padding, stride)]
    return fourier_norm(blocks, torus, [1] * axes, groups)


def window_bound(weight: Tensor, size: Sequence[int]) -> Tensor:
    """Return :func:`conv_bound` with p = two for a depth-wise convolution (D, 1, *kernel) that preserves the size."""
    sides = [k // 2 for k in weight.shape[2:]]
    ones = [1] * len(sides)
    return conv_bound(weight, size, stride=ones, padding=sides, groups=weight.shape[0])
