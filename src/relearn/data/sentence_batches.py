"""Padded batches of sentences, pairs, or candidates of which one is correct.

A batch is ``((tokens, real), labels)``, or ``((tokens, real, types), labels)`` for a tokenizer with token types: tokens and types (B, n)
int64, or (B, C, n) for C candidates; real has the same shape, bool, False at padding; labels (B,), int64 or float32, or None if unknown. n
is the longest row of the batch; padding is at the end, with type 0.

A batch only holds questions with the same number of candidates, so no candidate has to be padded. The order of an epoch is drawn over all
questions, which are collected in one batch per number of candidates; full batches are emitted, the incomplete ones at the end. If there
are several numbers of candidates, the order of the batches is shuffled as well.
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
        labels: the labels on the device, or None.
        candidates: number of candidates of each sample, (N,) int64.
        lengths: total number of tokens in the rows of each sample, (N,) int64.
        cut_count: rows of the maximum length, which were or may have been truncated.

    Args:
        examples: samples, with or without labels.
        tokenizer: their tokenizer.
        batch_size: samples (questions, not candidates) per batch.
        longest: maximum number of tokens of a row, including special ones; longer rows are truncated.
        device: device of the batches.

    Raises:
        ValueError: no sample, a batch size below 1, or an error of the tokenizer.
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
        """The batch of the given samples (B,), in this order; see the module.

        Raises:
            ValueError: no sample, or samples with different numbers of candidates.
        """
        numbers = numbers.cpu()
        different = sorted(set(self.candidates[numbers].tolist()))
        if len(different) != 1:
            raise ValueError(f"numbers: samples of {different} candidates (allowed: equal numbers)")
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
            ValueError: the labels are unknown.
        """
        if self.labels is None:
            raise ValueError("labels: unknown (allowed: samples with labels)")
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
        """Every sample once, in order, for evaluation; a batch ends early if the number of candidates changes."""
        numbered = enumerate(self.candidates.tolist())
        for _, run in groupby(numbered, key=lambda one: one[1]):
            for numbers in torch.tensor([number for number, _ in run]).split(self.batch_size):
                yield self.batch(numbers)
