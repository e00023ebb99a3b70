r"""Batches of sentence pairs for translation, of similar padded size, and the pools for the initialisations.

A batch is ``((source, target_in), target_out)``, all int64 and padded with 0 at the end of each row::

    source      x_1 … x_m <eos>        (B, S)
    target_in   <bos> y_1 … y_n        (B, T)
    target_out  y_1 … y_n <eos>        (B, T)

The size of a pair is max(m, n) + 1, its longer side including eos. Pairs are sorted by size and split greedily, so
that rows × largest size ≤ ``max_tokens`` holds in every batch, where max(S, T) is the largest size. This is how
fairseq counts ``--max-tokens``.

Each epoch draws, from its generator alone, how pairs of equal size are grouped, the order of the rows in a batch and the
order of the batches. The sorted sizes never change, so the number of batches and of their rows is constant, and the
length of a schedule is known in advance. ``bucket`` coarsens the sort (sizes are rounded up to its multiples), which
increases both mixing and padding. (fairseq forms batches once and shuffles only their order, and rounds rows to
multiples of 8.)

The ids are stored on the device; a batch costs two gathers there and no transfer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

PAD, BOS, EOS = 0, 1, 2  # as in relearn.data.bpe, which is not imported here
Batch = tuple[tuple[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Ragged:
    """N concatenated sequences of ids: row i is ``ids[offsets[i]:offsets[i + 1]]``.

    Attributes:
        ids: (total,) int32, on any device.
        offsets: (N + 1,) int64, on the CPU, from 0 to total.
    """

    ids: Tensor
    offsets: Tensor

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        """Build from lists of ids."""
        offsets = torch.zeros(len(rows) + 1, dtype=torch.int64)
        offsets[1:] = torch.tensor([len(row) for row in rows], dtype=torch.int64).cumsum(0)
        return cls(torch.tensor([one for row in rows for one in row], dtype=torch.int32), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Tensor:
        """Row ``row``, (length,) int32."""
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row}; allowed: 0 to {len(self) - 1}")
        row %= len(self)
        return self.ids[int(self.offsets[row]) : int(self.offsets[row + 1])]

    @property
    def lengths(self) -> Tensor:
        """Lengths of the rows, (N,) int64, on the CPU."""
        return self.offsets[1:] - self.offsets[:-1]

    def to(self, device: torch.device | str) -> Ragged:
        """The ids on a device; the offsets stay on the CPU."""
        return Ragged(self.ids.to(device), self.offsets)

    def pad(self, rows: Tensor, *, first: int | None = None, last: int | None = None) -> Tensor:
        """Rows as (B, L) int64, padded with 0, with ``first`` before and ``last`` after each row.

        Args:
            rows: (B,) int64 on the CPU.
            first: an id, or None for none.
            last: likewise.
        """
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        lead = int(first is not None)
        width = int(lengths.max()) + lead + int(last is not None)
        device = self.ids.device
        starts, lengths = starts.to(device)[:, None], lengths.to(device)[:, None]
        place = torch.arange(width, device=device)[None] - lead
        inside = (place >= 0) & (place < lengths)
        if len(self.ids):
            found = self.ids[torch.where(inside, starts + place, 0)].long()
        else:  # every sentence is empty
            found = torch.zeros_like(inside, dtype=torch.int64)
        found = found.masked_fill(~inside, PAD)
        if first is not None:
            found[:, 0] = first
        return found if last is None else found.masked_fill(place == lengths, last)


@dataclass(frozen=True)
class TokenPairs:
    """N sentence pairs as ids without bos and eos; ``pairs[i]`` is (source, target), 1-d int32 each.

    Raises:
        ValueError: unequal numbers of source and target sentences.
    """

    source: Ragged
    target: Ragged

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise ValueError(
                f"pairs: {len(self.source)} source sentences and {len(self.target)} target sentences"
            )

    @classmethod
    def of(cls, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> TokenPairs:
        """Build from pairs (source ids, target ids)."""
        return cls(Ragged.of([pair[0] for pair in pairs]), Ragged.of([pair[1] for pair in pairs]))

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        return self.source[row], self.target[row]

    def to(self, device: torch.device | str) -> TokenPairs:
        """The ids on a device."""
        return TokenPairs(self.source.to(device), self.target.to(device))

    def batch(self, rows: Tensor) -> Batch:
        """The batch of the given rows, in this order; see the module."""
        return (
            (self.source.pad(rows, last=EOS), self.target.pad(rows, first=BOS)),
            self.target.pad(rows, last=EOS),
        )


class TokenBatches:
    """A source of batches for ``relearn.methods.fit`` and of pools for the initialisations.

    Args:
        pairs: the sentence pairs, or pairs (source ids, target ids).
        max_tokens: maximum of rows × longer side of a batch, including eos.
        bucket: sizes are rounded up to multiples of this before sorting.
        device: device of the batches.

    Raises:
        ValueError: no pairs, a number below 1, or a pair that alone is larger than a batch.
    """

    def __init__(
        self,
        pairs: TokenPairs | Sequence[tuple[Sequence[int], Sequence[int]]],
        *,
        max_tokens: int,
        bucket: int = 1,
        device: torch.device | str = "cpu",
    ) -> None:
        pairs = pairs if isinstance(pairs, TokenPairs) else TokenPairs.of(pairs)
        for name, value in (("max_tokens", max_tokens), ("bucket", bucket)):
            if value < 1:
                raise ValueError(f"{name} is {value}; allowed: 1 or more")
        if not len(pairs):
            raise ValueError("pairs: none; allowed: at least one sentence pair")
        self.pairs = pairs.to(device)
        sizes = torch.maximum(pairs.source.lengths, pairs.target.lengths) + 1
        self._keys = (sizes + bucket - 1) // bucket * bucket
        largest = int(sizes.max())
        if largest > max_tokens:
            row = int(sizes.argmax())
            raise ValueError(
                f"pairs: pair {row} has {largest} tokens including eos; allowed: max_tokens = {max_tokens}"
            )
        self._rows = _cut(self._keys.sort().values.clamp(max=max_tokens).tolist(), max_tokens)
        self.batches_per_epoch = len(self._rows)

    def __len__(self) -> int:
        """Sentence pairs per epoch."""
        return len(self.pairs)

    def rows(self, generator: torch.Generator) -> list[Tensor]:
        """The pairs of each batch of one epoch: (B,) int64 each, every pair once."""
        shuffled = torch.randperm(len(self.pairs), generator=generator)
        order = shuffled[self._keys[shuffled].sort(stable=True).indices]  # equal sizes stay shuffled
        batches = [
            batch[torch.randperm(len(batch), generator=generator)] for batch in order.split(self._rows)
        ]
        return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """The batches of one epoch, drawn from ``generator`` (on the CPU) before the first is made."""
        for rows in self.rows(generator):
            yield self.pairs.batch(rows)

    def in_order(self) -> Iterator[tuple[Tensor, Batch]]:
        """Every pair once in a fixed order, for evaluation: (rows (B,) int64, batch)."""
        for rows in self._keys.sort(stable=True).indices.split(self._rows):
            yield rows, self.pairs.batch(rows)

    def pools(self, *, seed: int, at_least: int = 2) -> Iterator[Batch]:
        """Endless batches for an initialisation, which splits each into two overlapping ones by rows.

        Rows are in random order, so both halves have sentences of all lengths in the pool. torch's global random
        state is not used.

        Args:
            seed: seed of a separate generator.
            at_least: smaller batches (of the longest sentences) are skipped.

        Raises:
            ValueError: no batch has that many rows (raised at the first pool).
        """
        if max(self._rows) < at_least:
            raise ValueError(
                f"pools: the largest batch has {max(self._rows)} pairs; allowed: at least {at_least}, raise max_tokens"
            )
        generator = torch.Generator().manual_seed(seed)
        while True:
            for rows in self.rows(generator):
                if len(rows) >= at_least:
                    yield self.pairs.batch(rows)


def _cut(sizes: list[int], max_tokens: int) -> list[int]:
    """Number of the ascending sizes in each batch, chosen greedily so that count × largest ≤ max_tokens."""
    counts = [0]
    for size in sizes:
        if (counts[-1] + 1) * size > max_tokens:
            counts.append(0)
        counts[-1] += 1
    return counts
