r"""Batches of lines for character language models; lines of similar length are grouped to minimise padding.

A batch is ``(inputs, targets)``, both int64 and padded with 0 at the end of each row; the network reads a character
and predicts the next one, so the targets are the inputs shifted by one::

    inputs      <bos> c_1 … c_n        (B, T)
    targets     c_1 … c_n <eos>        (B, T)      T = n + 1 of the longest line

Lines are sorted by length and cut into batches of ``batch_size``; the last batch, of the longest lines, may be
smaller. Each epoch draws, from its generator alone, how lines of equal length are grouped and the order
of the batches. The sorted lengths never change, so the number of batches, their sizes and the padding are constant.

kim2020 (appendix I) batches 64 lines "according to length such that padding is minimised", without stating how they are drawn.

The loss of such batches is ``relearn.methods.token_loss`` with smoothing 0: a mean over all non-padding targets
of the batch. The ids are stored on the device; a batch costs two gathers there and no transfer.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from relearn.data.token_batches import BOS, EOS, Ragged

Batch = tuple[Tensor, Tensor]


class CharacterBatches:
    """A source of batches for ``relearn.methods.fit``.

    Args:
        lines: ids without bos and eos, as returned by ``relearn.data.characters.PreparedCharacters.part``.
        batch_size: lines per batch.
        device: device of the batches.

    Raises:
        ValueError: no lines, or a batch size below 1.
    """

    def __init__(self, lines: Ragged, *, batch_size: int, device: torch.device | str = "cpu") -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; allowed: 1 or more")
        if not len(lines):
            raise ValueError("lines: none; allowed: at least one")
        self.lines = lines.to(device)
        self.batch_size = batch_size
        self._lengths = lines.lengths
        self.batches_per_epoch = -(-len(lines) // batch_size)

    def __len__(self) -> int:
        """Lines per epoch."""
        return len(self.lines)

    @property
    def targets_per_epoch(self) -> int:
        """Predicted characters per epoch: all characters of the lines and one eos per line."""
        return int(self._lengths.sum()) + len(self)

    @property
    def padding(self) -> float:
        """Fraction of padding among all positions of an epoch's batches, 0 to below 1."""
        cuts = (self._lengths.sort().values + 1).split(self.batch_size)
        places = sum(len(cut) * int(cut[-1]) for cut in cuts)
        return 1 - self.targets_per_epoch / places

    def batch(self, rows: Tensor) -> Batch:
        """The batch of the given lines, (B,) int64 on the CPU, in this order; see the module."""
        return self.lines.pad(rows, first=BOS), self.lines.pad(rows, last=EOS)

    def rows(self, generator: torch.Generator) -> list[Tensor]:
        """The lines of each batch of one epoch: (B,) int64 each, every line once."""
        shuffled = torch.randperm(len(self), generator=generator)
        order = shuffled[self._lengths[shuffled].sort(stable=True).indices]  # equal lengths stay shuffled
        batches = order.split(self.batch_size)
        return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """The batches of one epoch, drawn from ``generator`` (on the CPU) before the first is made."""
        for rows in self.rows(generator):
            yield self.batch(rows)

    def in_order(self) -> Iterator[tuple[Tensor, Batch]]:
        """Every line once in a fixed order, short ones first, for evaluation: (rows (B,) int64, batch)."""
        for rows in self._lengths.sort(stable=True).indices.split(self.batch_size):
            yield rows, self.batch(rows)
