r"""Padded batches of token sequences for classification or masked language modelling.

For classification a batch is ``((tokens, real), labels)``, for masked tokens ``((tokens, real, hidden), targets)``: tokens (B, n) int64,
real and hidden (B, n) bool, labels (B,), and targets (B, n), which hold the original token at masked positions and :data:`NONE`
elsewhere. n is the longest sequence of the batch; padding is at the end.

The masked positions are drawn anew for every batch (Liu et al., 2019, section 4.1) from the epoch's generator:
:math:`\max(1, \mathrm{round}(p\,m))` of the m non-special tokens of a sequence, uniformly at random. Independently for each of them, the
input is the mask with probability 0.8, a uniformly drawn non-special token with probability 0.1, and the original token with
probability 0.1 (Devlin et al., 2019, section 3.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from relearn.data.roberta_tokens import RobertaTokenizer

NONE = -100
MASKED, RANDOM = 0.8, 0.1  # the other masked tokens are left unchanged


class TokenBatches:
    """A source of batches for ``relearn.methods.fit``.

    Args:
        rows: sequences of ids, special tokens at both ends.
        labels: one class per sequence, (N,) int64.
        tokenizer: the tokenizer of these ids.
        batch_size: sequences per batch.
        hidden_frac: p, above 0 and at most 1; None: batches for classification.
        device: device of the batches.

    Raises:
        ValueError: no sequence, a wrong number of labels, or a batch size or fraction out of range.
    """

    def __init__(
        self,
        rows: Sequence[np.ndarray],
        labels: Tensor,
        tokenizer: RobertaTokenizer,
        *,
        batch_size: int,
        hidden_frac: float | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        if not len(rows) or len(rows) != len(labels):
            raise ValueError(
                f"rows: {len(rows)} with {len(labels)} labels (allowed: at least one, as many labels)"
            )
        if batch_size < 1:
            raise ValueError(f"batch_size: {batch_size} (allowed: at least 1)")
        if hidden_frac is not None and not 0 < hidden_frac <= 1:
            raise ValueError(
                f"hidden_frac (a step's mask_frac, mlm_probability in params.yaml): {hidden_frac} (allowed: 0 < p <= 1)"
            )
        self.rows = [torch.from_numpy(row) for row in rows]
        self.labels, self.tokenizer, self.batch_size = labels, tokenizer, batch_size
        self.hidden_frac, self.device = hidden_frac, device
        self.batches_per_epoch = -(-len(rows) // batch_size)
        special = set(tokenizer.special)
        self._special = torch.tensor(sorted(special))
        self._words = torch.tensor([one for one in range(len(tokenizer)) if one not in special])

    def __len__(self) -> int:
        """Sequences."""
        return len(self.rows)

    def batch(self, numbers: Tensor, generator: torch.Generator | None = None) -> Any:
        """The batch of the given sequences, in this order; see the module."""
        given = [self.rows[number] for number in numbers.tolist()]
        tokens = torch.nn.utils.rnn.pad_sequence(given, batch_first=True, padding_value=self.tokenizer.pad)
        tokens = tokens.long()
        lengths = torch.tensor([len(one) for one in given])
        real = torch.arange(tokens.shape[1]) < lengths[:, None]
        if self.hidden_frac is None:
            return (tokens.to(self.device), real.to(self.device)), self.labels[numbers].to(self.device)
        hidden = self.hide(tokens, generator)
        draw = torch.rand(tokens.shape, generator=generator)
        words = self._words[torch.randint(len(self._words), tokens.shape, generator=generator)]
        shown = torch.where(
            draw < MASKED, self.tokenizer.mask, torch.where(draw < MASKED + RANDOM, words, tokens)
        )
        found = (torch.where(hidden, shown, tokens), real, hidden)
        targets = torch.where(hidden, tokens, NONE)
        return tuple(one.to(self.device) for one in found), targets.to(self.device)

    def hide(self, tokens: Tensor, generator: torch.Generator | None) -> Tensor:
        """Mask (B, n) of the tokens to predict; padding counts as special."""
        assert self.hidden_frac is not None
        able = ~torch.isin(tokens, self._special)
        wanted = (self.hidden_frac * able.sum(1)).round().clamp(min=1)
        draw = torch.rand(tokens.shape, generator=generator).masked_fill(~able, 2.0)
        return able & (draw.argsort(1).argsort(1) < wanted[:, None])

    def epoch(self, generator: torch.Generator) -> Iterator[Any]:
        """The batches of one epoch, every sequence once, in an order drawn from ``generator`` (on the CPU)."""
        for numbers in torch.randperm(len(self), generator=generator).split(self.batch_size):
            yield self.batch(numbers, generator)

    def in_order(self, seed: int = 0) -> Iterator[Any]:
        """Every sequence once, in order, for evaluation; equal seeds mask equal tokens."""
        generator = torch.Generator().manual_seed(seed)
        for numbers in torch.arange(len(self)).split(self.batch_size):
            yield self.batch(numbers, generator)
