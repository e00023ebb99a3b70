"""The crafting loop's arguments, checked and completed."""

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
    """Refuse arguments that do not fit, by name.

    Raises:
        TypeError: images that are not floating point.
        ValueError: everything else.
    """
    if not substitutes:
        raise ValueError("substitutes is empty; at least one network is needed")
    for name, images, axes in (("bases", bases, (4, 5)), ("targets", targets, (4,))):
        if not images.is_floating_point():
            raise TypeError(f"{name} has dtype {images.dtype}; floating-point pixels in [0, 1] are needed")
        if images.ndim not in axes or not images.numel():
            wanted = " or ".join(map(str, axes))
            raise ValueError(f"{name} has shape {tuple(images.shape)}; {wanted} axes, none empty, are needed")
        if not ((images >= 0) & (images <= 1)).all():
            raise ValueError(
                f"{name} has pixels outside [0, 1]: {float(images.min())} to {float(images.max())}"
            )
    if (bases.ndim == 5 and len(bases) != len(targets)) or bases.shape[-3:] != targets.shape[-3:]:
        raise ValueError(
            f"bases {tuple(bases.shape)} and targets {tuple(targets.shape)} do not fit: (k, C, H, W) or "
            "(T, k, C, H, W), and (T, C, H, W) are needed"
        )
    numbers = [("eps", eps), ("lr", lr), ("iterations", iterations)]
    if target_batch is not None:
        numbers.append(("target_batch", target_batch))
    for name, value in numbers:
        if not value > 0:
            raise ValueError(f"{name} is {value}; a positive number is needed")
    for name, choice, allowed in (
        ("target_dropout", target_dropout, TARGET_DROPOUT),
        ("precision", precision, PRECISIONS),
    ):
        if choice not in allowed:
            raise ValueError(f"{name} is {choice!r}; allowed: {', '.join(allowed)}")


def pixel_std_of(substitutes: Sequence[nn.Module], given: Any, poisons: Tensor) -> Tensor:
    """What pixels are divided by, (1, 1, C or 1, 1, 1): as given, or the substitutes' own `std`, or 1.

    Raises:
        ValueError: substitutes that differ in it, a length that does not fit, numbers that are not positive.
    """
    if given is None:
        own = [torch.as_tensor(getattr(net, "std", 1.0)).to(poisons).reshape(-1) for net in substitutes]
        if any(std.shape != own[0].shape or not torch.allclose(std, own[0]) for std in own):
            raise ValueError("pixel_std: the substitutes standardise with different std, so it must be given")
        given = own[0]
    std = torch.as_tensor(given).to(poisons).reshape(-1)
    if len(std) not in (1, poisons.shape[-3]) or not (std > 0).all():
        raise ValueError(f"pixel_std is {std.tolist()}; 1 or {poisons.shape[-3]} positive numbers are needed")
    return std.reshape(1, 1, -1, 1, 1)


def parts_of(count: int, *batches: int | None) -> list[slice]:
    """Consecutive slices that cover `count` targets, none longer than any of `batches` (None: no bound)."""
    size = min([batch for batch in batches if batch is not None], default=count)
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]
