r"""Padded batches of sentences, pairs, or candidates of which one is right.

A batch is ``((tokens, real), labels)``, or ``((tokens, real, types), labels)`` for a tokenizer with token types: tokens and types (B, n)
int64, or (B, C, n) for C candidates; real the same shape, bool, False at padding; labels (B,), int64 or float32, or None where they are
not known. n is the batch's longest row; padding is at the end, its type 0.

A batch holds questions of equally many candidates only, so that no candidate is made up: an epoch's order is drawn over all questions
and filled into one batch for each number of candidates; a full batch goes out, the rest at the end, and where there are several
numbers the batches' own order is drawn as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from relearn.data.examples import Examples
from relearn.data.sentence_tokens import SentenceTokenizer


class SentenceBatches:
    """A source of batches for ``relearn.methods.fit``.

    Attributes:
        examples: the samples.
        labels: theirs, on the device, or None.
        candidates: of each sample, (N,) int64.
        lengths: of each sample's rows together, in tokens, (N,) int64.
        cut_count: rows that ``longest`` cut off, or may have: those that are as long as it allows.

    Args:
        examples: samples, with labels or without.
        tokenizer: reads them.
        batch_size: samples (questions, not candidates) in a batch.
        longest: tokens of a row, special ones included; more are cut.
        device: where the batches lie.

    Raises:
        ValueError: no sample, a batch size below 1, or what the tokenizer refuses.
    """

    def __init__(
        self,
        examples: Examples,
        tokenizer: SentenceTokenizer,
        *,
        batch_size: int,
        longest: int,
        device: torch.device | str = "cpu",
    ) -> None:
        if not len(examples):
            raise ValueError("examples: none (allowed: at least one)")
        if batch_size < 1:
            raise ValueError(f"batch_size: {batch_size} (allowed: at least 1)")
        encoded = tokenizer.encode([row for rows in examples.rows for row in rows], longest)
        self.examples, self.batch_size, self.pad = examples, batch_size, tokenizer.pad
        self.labels = None if examples.labels is None else examples.labels.to(device)
        self.candidates = torch.tensor([len(rows) for rows in examples.rows])
        self._first = torch.cumsum(self.candidates, 0) - self.candidates
        self._sizes = torch.tensor([len(ids) for ids, _ in encoded])
        self._starts = torch.cumsum(self._sizes, 0) - self._sizes
        self._tokens = torch.from_numpy(np.concatenate([ids for ids, _ in encoded])).to(device)
        self._types = (
            torch.from_numpy(np.concatenate([types for _, types in encoded])).to(device)
            if tokenizer.types > 1
            else None
        )
        rows_of = torch.repeat_interleave(torch.arange(len(examples)), self.candidates)
        self.lengths = torch.zeros(len(examples), dtype=torch.int64).index_add_(0, rows_of, self._sizes)
        self.cut_count = int((self._sizes == longest).sum())
        self.batches_per_epoch = sum(
            -(-count // batch_size) for count in Counter(self.candidates.tolist()).values()
        )

    def __len__(self) -> int:
        """Samples."""
        return len(self.examples)

    def batch(self, numbers: Tensor) -> Any:
        """The batch of these samples (B,) in their order; see the module.

        Raises:
            ValueError: no sample, or samples with different numbers of candidates.
        """
        numbers = numbers.cpu()
        different = sorted(set(self.candidates[numbers].tolist()))
        if len(different) != 1:
            raise ValueError(f"numbers: samples of {different} candidates (allowed: one number of them)")
        rows = self._first[numbers][:, None] + torch.arange(different[0])
        rows = rows if different[0] > 1 else rows[:, 0]
        sizes = self._sizes[rows]
        place = torch.arange(int(sizes.max()))
        real = place < sizes[..., None]
        device = self._tokens.device
        index = torch.where(real, self._starts[rows][..., None] + place, 0).to(device)
        real = real.to(device)
        inputs: tuple[Tensor, ...] = (torch.where(real, self._tokens[index].long(), self.pad), real)
        if self._types is not None:
            inputs += (torch.where(real, self._types[index].long(), 0),)
        return inputs, None if self.labels is None else self.labels[numbers.to(device)]

    def epoch(self, generator: torch.Generator) -> Iterator[Any]:
        """The batches of one epoch, every sample once, in an order drawn from ``generator`` (on the CPU).

        Raises:
            ValueError: the labels are not known.
        """
        if self.labels is None:
            raise ValueError("labels: not known (allowed: samples with labels, to train on)")
        order = torch.randperm(len(self), generator=generator)
        if len(set(self.candidates.tolist())) == 1:
            yield from map(self.batch, order.split(self.batch_size))
            return
        full: list[list[int]] = []
        filling: dict[int, list[int]] = {}
        for number in order.tolist():
            held = filling.setdefault(int(self.candidates[number]), [])
            held.append(number)
            if len(held) == self.batch_size:
                full.append(held.copy())
                held.clear()
        full += [held for held in filling.values() if held]
        for place in torch.randperm(len(full), generator=generator).tolist():
            yield self.batch(torch.tensor(full[place]))

    def in_order(self) -> Iterator[Any]:
        """Every sample once in its order, for evaluation; a batch ends early where the number of candidates changes."""
        numbered = enumerate(self.candidates.tolist())
        for _, run in groupby(numbered, key=lambda one: one[1]):
            for numbers in torch.tensor([number for number, _ in run]).split(self.batch_size):
                yield self.batch(numbers)
