"""Validation of the training loop's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader

from relearn.methods.batch_source import Source


def check_kinds(data: Any, optimizer: Any, names: Sequence[str]) -> None:
    """Reject the two most frequent mistakes with a helpful message: a ``DataLoader`` as data, and an optimiser object instead of
    a name."""
    if isinstance(data, DataLoader):
        raise TypeError(
            "data: found a DataLoader (allowed: a tuple of tensors with batch_size, or an object with batches_per_epoch "
            "and epoch(generator), which yields the loader's batches: docs/training.md)"
        )
    if not isinstance(data, Source | Sequence):
        raise TypeError(
            f"data: found {type(data).__name__} (allowed: a tuple of tensors with batch_size, or an object with "
            "batches_per_epoch and epoch(generator))"
        )
    odd = [] if isinstance(data, Source) else [one for one in data if not isinstance(one, Tensor)]
    if odd:
        raise TypeError(f"data: found a {type(odd[0]).__name__} among its items (allowed: tensors)")
    if not isinstance(optimizer, str):
        raise TypeError(
            f"optimizer: found an object, {type(optimizer).__name__} (allowed: a name: {', '.join(names)}; the loop makes "
            "the optimiser from it, lr, momentum, betas and weight_decay)"
        )


def length_of(planned: int | None, steps: int | None) -> int:
    lengths = [length for length in (planned, steps) if length is not None]
    if not lengths:
        raise ValueError("epochs, steps: both missing (required: one of them)")
    if odd := [length for length in lengths if not isinstance(length, Integral)]:
        raise ValueError(f"epochs, steps: found a length of {odd[0]} steps, allowed is an integer")
    if min(lengths) < 0:
        raise ValueError(f"epochs, steps: found a length of {min(lengths)} steps, allowed is 0 or more")
    return min(lengths)


def at_least_one(**settings: int | None) -> None:
    for key, value in settings.items():
        if value is not None and value < 1:
            raise ValueError(f"{key}: found {value}, allowed is 1 or more")


def scalar_loss(value: Any, of: str = "the model's output") -> Tensor:
    """The value of a loss; ValueError unless it is a tensor of one entry that requires a gradient."""
    if not isinstance(value, Tensor) or value.numel() != 1:
        found = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"loss: returns {found} (allowed: a scalar tensor, the mean over the batch)")
    if not value.requires_grad:
        raise ValueError(f"loss: has no gradient (allowed: a loss of {of}, outside torch.no_grad())")
    return value
