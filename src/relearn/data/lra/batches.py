"""Padded batches of prepared sequences.

A batch is ``((tokens,), labels)``, tokens (B, n) int64, or (B, 2, n) for pairs, padded with 0 at the end; labels (B,) int64.

n is ``max_length`` as published, or with ``trim`` the longest sequence of the batch. A network that ignores padding gives the same
result in less time; in training, dropout draws different masks, because it also draws them for padding. The values are stored on
the device, one byte each; a batch costs one gather there.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from relearn.data.lra.sequences import Part

Batch = tuple[tuple[Tensor], Tensor]


class SequenceBatches:
    """A source of batches for ``relearn.methods.fit``.

    Attributes:
        labels: labels of all samples, (N,) int64.
        batches_per_epoch: number of batches per epoch.

    Args:
        part: result of ``Sequences.part``.
        batch_size: samples per batch.
        length: n; None with ``trim``.
        trim: see the module.
        device: device of the batches.
        whole: drop an epoch's last batch if it is smaller, as in the released code; does not affect ``in_order``.

    Raises:
        ValueError: a batch size below 1, no complete batch, or a sequence longer than ``length``.
    """

    def __init__(
        self,
        part: Part,
        *,
        batch_size: int,
        length: int | None = None,
        trim: bool = False,
        device: torch.device | str = "cpu",
        whole: bool = False,
    ) -> None:
        if batch_size < 1 or (whole and batch_size > len(part)):
            raise ValueError(f"batch_size is {batch_size}; allowed: 1 to {len(part)}, the number of samples")
        offsets = torch.from_numpy(part.offsets)
        longest = int((offsets[1:] - offsets[:-1]).max())
        if length is None and not trim:
            length = longest
        if length is not None and longest > length:
            raise ValueError(f"length is {length}; allowed: at least {longest}, the longest sequence")
        self.batch_size, self.length, self.trim, self.whole, self.pairs = (
            batch_size,
            length,
            trim,
            whole,
            part.pairs,
        )
        self._values = torch.from_numpy(part.values.copy()).to(device)
        self._starts = offsets.to(device)
        self.labels = torch.from_numpy(part.labels).to(device)
        self.batches_per_epoch = len(part) // batch_size if whole else -(-len(part) // batch_size)

    def __len__(self) -> int:
        """Samples."""
        return len(self.labels)

    def batch(self, rows: Tensor) -> Batch:
        """The batch of the given samples (B,), in this order; see the module."""
        rows = rows.to(self._starts.device)
        sequences = (2 * rows[:, None] + rows.new_tensor([0, 1])).flatten() if self.pairs else rows
        start, end = self._starts[sequences][:, None], self._starts[sequences + 1][:, None]
        n = int((end - start).max()) if self.trim or self.length is None else self.length
        place = start + torch.arange(n, device=start.device)
        inside = place < end
        tokens = torch.where(inside, self._values[torch.where(inside, place, 0)].long() + 1, 0)
        return (tokens.unflatten(0, (-1, 2)) if self.pairs else tokens,), self.labels[rows]

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """The batches of one epoch, every sample at most once, in an order drawn from ``generator`` (on the CPU)."""
        order = torch.randperm(len(self), generator=generator).split(self.batch_size)
        for rows in order[: self.batches_per_epoch]:
            yield self.batch(rows)

    def in_order(self) -> Iterator[Batch]:
        """Every sample once in the order of the part, for evaluation."""
        for rows in torch.arange(len(self)).split(self.batch_size):
            yield self.batch(rows)
