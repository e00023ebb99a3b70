"""Validation and defaults of the crafting loop's arguments."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor, nn

TARGET_DROPOUT = ("resampled", "fixed", "off")
PRECISIONS = ("fp32", "bf16")


def checked(
    substitutes: Iterable[nn.Module], bases: Tensor, targets: Tensor, needs: Sequence[str] = ("features",)
) -> tuple[nn.Module, ...]:
    """The networks, which may come from a generator, after a check of them and of the images; the message names the argument.

    Raises:
        TypeError: a network that is no module or has not all that it needs; images that are no tensors of float32 or float64.
        ValueError: everything else.
    """
    for name, images, axes in (("bases", bases, (4, 5)), ("targets", targets, (4,))):
        if not isinstance(images, Tensor) or images.dtype not in (torch.float32, torch.float64):
            found = f"dtype {images.dtype}" if isinstance(images, Tensor) else f"type {type(images).__name__}"
            raise TypeError(f"{name} has {found}; allowed: a tensor of float32 or float64 pixels in [0, 1]")
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
    if (bases.dtype, bases.device) != (targets.dtype, targets.device):
        found = f"bases are {bases.dtype} on {bases.device}, targets {targets.dtype} on {targets.device}"
        raise ValueError(f"{found}; allowed: the same for both")
    return networks_of(substitutes, needs)


def networks_of(
    networks: Iterable[nn.Module], needs: Sequence[str], name: str = "substitutes"
) -> tuple[nn.Module, ...]:
    """The networks, if they are modules with the attributes that an attack needs; errors as in :func:`checked`."""
    alone = isinstance(networks, nn.Module) and not isinstance(networks, nn.ModuleList)
    if alone or not isinstance(networks, Iterable):
        raise ValueError(f"{name}: found a {type(networks).__name__}; allowed: a list of networks")
    found = tuple(networks)
    if not found:
        raise ValueError(f"{name} is empty; allowed: at least one network")
    for i, net in enumerate(found):
        if not isinstance(net, nn.Module):
            raise TypeError(f"{name}[{i}] is a {type(net).__name__}; allowed: a torch.nn.Module")
        if lacking := [need for need in needs if not hasattr(net, need)]:
            raise TypeError(
                f"{name}[{i}] is a {type(net).__name__} without {lacking[0]!r}, which this attack reads"
            )
    return found


def check_positive(kind: Any, allowed: str, most: float = sys.float_info.max, **values: Any) -> None:
    """TypeError unless all values are of that kind (no bools), ValueError unless they are above 0 and at most ``most``."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, kind):
            raise TypeError(f"{name} is {value!r}; allowed: {allowed}")
        if not 0 < value <= most:
            raise ValueError(f"{name} is {value}; allowed: {allowed}")


def check_eps(eps: float) -> None:
    check_positive(Real, "above 0, at most 1, for pixels in [0, 1] (8/255, not 8)", 1.0, eps=eps)


def check(
    eps: float,
    lr: float,
    dropout: bool,
    target_dropout: str,
    precision: str,
    **counts: int | None,
) -> None:
    """Check the settings of the loop; a count may be None. Errors as in :func:`check_positive`."""
    check_eps(eps)
    check_positive(Real, "a positive number", lr=lr)
    given = {name: value for name, value in counts.items() if value is not None}
    check_positive(Integral, "a positive whole number", **given)
    if not isinstance(dropout, bool):
        raise TypeError(f"dropout is {dropout!r}; allowed: True or False (the rate is that of the networks)")
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
