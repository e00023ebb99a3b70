"""Batches for the training loop.

A **batch** is a sequence. Its first item is the model's input, a tensor or a tuple of tensors (``model(*input)``); the other items go
to the loss, ``loss(output, *rest)``. All its tensors share the first dimension, the rows.

A **source** yields the batches of an epoch. Tensors that fit in memory need none: the loop wraps them in :class:`Resident`. Batches
of varying size (a fixed number of tokens each), or images decoded on the fly, need a source of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

Batch = Sequence[Any]


@runtime_checkable
class Source(Protocol):
    """Batches by epoch.

    ``batches_per_epoch`` sets the length of schedules counted in epochs; a source whose number of batches varies gives its usual number.
    ``epoch(generator)`` yields the batches of one epoch and draws only from ``generator``, so the same state gives the same batches.
    This lets training resume within an epoch: batches seen already are generated again and skipped.
    """

    batches_per_epoch: int

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]: ...


class Resident:
    """A source over tensors of equal first dimension, indexed on their device.

    Every epoch goes through a new permutation in slices of ``batch_size``. A last slice of a single sample is dropped, because batch
    normalisation cannot use it.

    Raises:
        ValueError: tensors of unequal length, fewer than 2 samples, or a batch size below 2.
    """

    def __init__(self, data: Sequence[Tensor], batch_size: int) -> None:
        count = len(data[0])
        if any(len(tensor) != count for tensor in data):
            raise ValueError(f"data: tensors of unequal length {[len(tensor) for tensor in data]}")
        if count < 2:
            raise ValueError(f"data: {count} samples, at least 2 are needed")
        if batch_size < 2:
            raise ValueError(f"batch_size: found {batch_size}, allowed is 2 or more")
        self.data, self.batch_size = data, batch_size
        self.batches_per_epoch = count // batch_size + (count % batch_size > 1)
        self.smallest = count % batch_size if count % batch_size > 1 else min(batch_size, count)

    def epoch(self, generator: torch.Generator) -> Iterator[list[Tensor]]:
        order = torch.randperm(len(self.data[0]), generator=generator).to(self.data[0].device)
        slices = (rows for rows in order.split(self.batch_size) if len(rows) > 1)
        return ([tensor[rows] for tensor in self.data] for rows in slices)


def outputs(model: nn.Module, inputs: Tensor | Sequence[Tensor]) -> Any:
    """``model(inputs)``, or ``model(*inputs)`` for a tuple or list of tensors."""
    return model(inputs) if isinstance(inputs, Tensor) else model(*inputs)


def rows(batch: Batch) -> int:
    """The number of samples: the first dimension of the first tensor."""
    first = batch[0]
    return len(first if isinstance(first, Tensor) else first[0])


def pixels(batch: Batch, device: torch.device) -> list[Any]:
    """The batch on ``device``. A uint8 input is transferred as bytes and converted there to floats in [0, 1]."""
    moved = [_to(item, device) for item in batch]
    if isinstance(moved[0], Tensor) and moved[0].dtype == torch.uint8:
        moved[0] = moved[0].float() / 255.0
    return moved


def share(batch: Batch, rank: int, size: int) -> list[Any]:
    """The rows of one process among ``size``: contiguous shares whose sizes differ by at most one.

    Raises:
        ValueError: fewer rows than processes.
    """
    count = rows(batch)
    if count < size:
        raise ValueError(f"data: a batch of {count} rows, allowed are at least {size}, one a process")
    part = slice(rank * count // size, (rank + 1) * count // size)
    return [cut(item, part) for item in batch]


def cut(item: Any, part: slice) -> Any:
    """The given rows of a tensor, or of each tensor of a tuple or list; anything else has no rows and stays."""
    if isinstance(item, (tuple, list)):
        return tuple(cut(each, part) for each in item)
    return item[part] if isinstance(item, Tensor) else item


def _to(item: Any, device: torch.device) -> Any:
    if isinstance(item, Tensor):
        return item if item.device == device else item.to(device, non_blocking=True)
    return tuple(_to(each, device) for each in item) if isinstance(item, (tuple, list)) else item
