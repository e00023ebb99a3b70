"""Validation and defaults of the crafting loop's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

TARGET_DROPOUT = ("resampled", "fixed", "off")
PRECISIONS = ("fp32", "bf16")


def check(
    substitutes: Sequence[nn.Module],
    bases: Tensor,
    targets: Tensor,
    eps: float,
    lr: float,
    iterations: int,
    target_dropout: str,
    precision: str,
    target_batch: int | None,
) -> None:
    """Check the arguments; the message names the offending one.

    Raises:
        TypeError: images that are not floating point.
        ValueError: everything else.
    """
    if isinstance(substitutes, nn.Module) and not isinstance(substitutes, nn.ModuleList):
        raise ValueError(f"substitutes: found a {type(substitutes).__name__}; allowed: a list of networks")
    if not substitutes:
        raise ValueError("substitutes is empty; allowed: at least one network")
    for name, images, axes in (("bases", bases, (4, 5)), ("targets", targets, (4,))):
        if not images.is_floating_point():
            raise TypeError(f"{name} has dtype {images.dtype}; allowed: floating-point pixels in [0, 1]")
        if images.ndim not in axes or not images.numel():
            wanted = " or ".join(map(str, axes))
            raise ValueError(f"{name} has shape {tuple(images.shape)}; allowed: {wanted} axes, none empty")
        if not ((images >= 0) & (images <= 1)).all():
            raise ValueError(
                f"{name} has pixels outside [0, 1]: {float(images.min())} to {float(images.max())}"
            )
    if (bases.ndim == 5 and len(bases) != len(targets)) or bases.shape[-3:] != targets.shape[-3:]:
        raise ValueError(
            f"bases {tuple(bases.shape)} and targets {tuple(targets.shape)} do not fit; allowed: (k, C, H, W) or "
            "(T, k, C, H, W), and (T, C, H, W)"
        )
    numbers = [("eps", eps), ("lr", lr), ("iterations", iterations)]
    if target_batch is not None:
        numbers.append(("target_batch", target_batch))
    for name, value in numbers:
        if not value > 0:
            raise ValueError(f"{name} is {value}; allowed: a positive number")
    for name, choice, allowed in (
        ("target_dropout", target_dropout, TARGET_DROPOUT),
        ("precision", precision, PRECISIONS),
    ):
        if choice not in allowed:
            raise ValueError(f"{name} is {choice!r}; allowed: {', '.join(allowed)}")


def pixel_std_of(substitutes: Sequence[nn.Module], given: Any, poisons: Tensor) -> Tensor:
    """The divisor of the pixels, (1, 1, C or 1, 1, 1): as given, else the substitutes' own `std`, else 1.

    Raises:
        ValueError: the substitutes differ in `std`, the length does not fit, or a number is not positive.
    """
    if given is None:
        own = [torch.as_tensor(getattr(net, "std", 1.0)).to(poisons).reshape(-1) for net in substitutes]
        if any(std.shape != own[0].shape or not torch.allclose(std, own[0]) for std in own):
            raise ValueError("pixel_std: required, because the substitutes standardise with different std")
        given = own[0]
    std = torch.as_tensor(given).to(poisons).reshape(-1)
    if len(std) not in (1, poisons.shape[-3]) or not (std > 0).all():
        raise ValueError(f"pixel_std is {std.tolist()}; allowed: 1 or {poisons.shape[-3]} positive numbers")
    return std.reshape(1, 1, -1, 1, 1)


def parts_of(count: int, *batches: int | None) -> list[slice]:
    """Consecutive slices of `count` targets, none longer than any of `batches` (None: no bound)."""
    size = min([batch for batch in batches if batch is not None], default=count)
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]
