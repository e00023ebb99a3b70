r"""Encoder for Long Range Arena with any of the compared attention layers: one or two token sequences → class logits.

zhu2022, section 5.3.1: 2 layers of width 64 with 2 heads and a feed-forward of 128.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop
from torch.nn.functional import gelu, relu

from relearn.layers.efficient import GLOBAL_FIRST, make
from relearn.models.files import ModelFile

POOLINGS = ("class", "mean")


class EncoderBlock(nn.Module):
    """x + attention(LN(x)), then x + fc2(gelu(fc1(LN(x)))), with dropout after both branches and after the activation."""

    def __init__(self, attention: nn.Module, dim: int, ffn: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(dim)
        self.attention = attention
        self.ffn_norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, ffn)
        self.fc2 = nn.Linear(ffn, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x), mask=mask))
        return x + self.dropout(self.fc2(self.dropout(gelu(self.fc1(self.ffn_norm(x))))))


class LRAEncoder(nn.Module):
    r"""Classify token sequences into C classes.

    .. math::
        x^0_t = E_{c_t} + p_t, \qquad x^l = \mathrm{block}(x^{l-1}), \qquad u = \mathrm{pool}(\mathrm{LN}(x^L)), \qquad
        \mathrm{logits} = W_2\, \mathrm{relu}(W_1 f(u) + b_1) + b_2

    ======  ======================================  ===================  ===============================
    symbol  meaning                                 code                 shape
    ======  ======================================  ===================  ===============================
    c       tokens, int64                           ``tokens``           (B, n); pairs: (B, 2, n)
    E       embedding                               ``embedding``        (V, D)
    p       positions, learned                      ``positions``        (``max_length``, D)
    f       u; pairs: [u1, u2, u1 u2, u1 - u2]      ``features``         (B, D) or (B, 4D)
    W       classifier, hidden width ``ffn``        ``hidden``, ``out``
    ======  ======================================  ===================  ===============================

    The pooling ``class`` prepends a learned vector to the tokens before the first layer and uses its output after the last (zhu2022:
    "CLS"; its released code inserts it before the last layer). ``mean`` averages over the tokens that are not padding (the code
    of Xiong et al., from which the paper took the baselines). None means ``class`` if the attention supports a token that attends to all
    tokens and to which all attend (:data:`relearn.layers.efficient.GLOBAL_FIRST`), otherwise ``mean``.

    Initialisation: embedding, positions and class vector N(0, 0.02²) as in the released code; linear maps of blocks and classifier as in
    torch; the attention layers initialise themselves. Padding at the end has no effect, so a batch may be truncated to its
    longest sequence.

    Args:
        attention: one of :data:`relearn.layers.efficient.KINDS`.
        vocabulary: V, including padding.
        classes: C.
        max_length: maximum number of tokens in a sequence.
        layers, dim, heads, ffn: L, D, H, width of feed-forward and classifier.
        pairs: whether an example is two sequences (retrieval).
        dropout: rate for embeddings, branches and activations.
        attention_dropout: rate for attention weights; None: ``dropout``.
        attention_arguments: arguments specific to the attention; see :func:`relearn.layers.efficient.make`.
        pooling: ``class``, ``mean`` or None.
        padding: id of the padding token; None if every token counts, as in images.

    Raises:
        ValueError: a size or an option out of range; in ``forward``, tokens of a wrong shape, or a sequence that is too long or all
            padding.
    """

    def __init__(
        self,
        attention: str,
        *,
        vocabulary: int,
        classes: int,
        max_length: int,
        layers: int = 2,
        dim: int = 64,
        heads: int = 2,
        ffn: int = 128,
        pairs: bool = False,
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        attention_arguments: Mapping[str, Any] | None = None,
        pooling: str | None = None,
        padding: int | None = 0,
    ) -> None:
        super().__init__()
        sizes = dict(
            vocabulary=vocabulary, max_length=max_length, layers=layers, dim=dim, heads=heads, ffn=ffn
        )
        for key, value in sizes.items():
            if value < 1:
                raise ValueError(f"{key}: {value} (allowed: at least 1)")
        if classes < 2:
            raise ValueError(f"classes: {classes} (allowed: at least 2)")
        if pooling not in (*POOLINGS, None):
            raise ValueError(f"pooling: {pooling!r} (allowed: {', '.join(POOLINGS)}, or none)")
        rates = {
            "dropout": dropout,
            "attention_dropout": dropout if attention_dropout is None else attention_dropout,
        }
        for key, rate in rates.items():
            if not 0 <= rate < 1:
                raise ValueError(f"{key}: {rate} (allowed: 0 <= p < 1)")
        if padding is not None and not 0 <= padding < vocabulary:
            raise ValueError(f"padding: {padding} (allowed: a token below {vocabulary}, or none)")
        pooling = pooling or ("class" if attention in GLOBAL_FIRST else "mean")
        own = dict(attention_arguments or {})
        self.description: dict[str, Any] = {
            "attention": attention,
            **sizes,
            **rates,
            "classes": classes,
            "pairs": pairs,
            "attention_arguments": own,
            "pooling": pooling,
            "padding": padding,
        }
        self.dim, self.max_length, self.pairs, self.padding, self.rate = (
            dim,
            max_length,
            pairs,
            padding,
            dropout,
        )
        self.embedding = nn.Embedding(vocabulary, dim)
        self.positions = nn.Parameter(torch.empty(max_length, dim))
        self.class_token = nn.Parameter(torch.empty(dim)) if pooling == "class" else None
        front = int(pooling == "class")
        self.blocks = nn.ModuleList(
            EncoderBlock(
                make(
                    attention,
                    dim,
                    heads,
                    max_length=max_length + front,
                    dropout=rates["attention_dropout"],
                    class_token=bool(front),
                    **own,
                ),
                dim,
                ffn,
                dropout,
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(dim)
        self.hidden = nn.Linear(4 * dim if pairs else dim, ffn)
        self.out = nn.Linear(ffn, classes)
        for one in (self.embedding.weight, self.positions, self.class_token):
            if one is not None:
                nn.init.normal_(one, std=0.02)

    def attention_layers(self) -> list[nn.Module]:
        """Return the attention layer of each block, first to last."""
        return [cast(EncoderBlock, block).attention for block in self.blocks]

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits (B, C) of tokens (B, n), or (B, 2, n) with ``pairs``."""
        wanted = "(B, 2, n)" if self.pairs else "(B, n)"
        if tokens.dim() != 2 + self.pairs or (self.pairs and tokens.shape[1] != 2):
            raise ValueError(f"tokens: shape {tuple(tokens.shape)} (allowed: {wanted})")
        if not self.pairs:
            return self.classify(self.pool(tokens))
        one, two = self.pool(tokens.flatten(0, 1)).unflatten(0, (-1, 2)).unbind(1)
        return self.classify(torch.cat([one, two, one * two, one - two], 1))

    def classify(self, features: Tensor) -> Tensor:
        """Return the logits of the features f."""
        return self.out(drop(relu(self.hidden(features)), self.rate, self.training))

    def pool(self, tokens: Tensor) -> Tensor:
        """Return u (B, D) of tokens (B, n)."""
        batch, length = tokens.shape
        if not 1 <= length <= self.max_length:
            raise ValueError(f"tokens: {length} in a row (allowed: 1 to max_length = {self.max_length})")
        mask = None if self.padding is None else tokens != self.padding
        if mask is not None and (empty := ~mask.any(1)).any():
            found = int(empty.nonzero()[0])
            raise ValueError(
                f"tokens: sequence {found} is all padding (allowed: a token other than {self.padding})"
            )
        x = self.embedding(tokens) + self.positions[:length]
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(batch, 1, -1), x], 1)
            if mask is not None:
                mask = torch.cat([mask.new_ones(batch, 1), mask], 1)
        x = drop(x, self.rate, self.training)
        for block in self.blocks:
            x = block(x, mask)
        if self.class_token is not None:
            return self.norm(x[:, 0])
        x = self.norm(x)
        if mask is None:
            return x.mean(1)
        return x.masked_fill(~mask[..., None], 0.0).sum(1) / mask.sum(1, keepdim=True)


def create(attention: str, **sizes: Any) -> LRAEncoder:
    """Build an encoder from a run's settings or a model's ``description``: the arguments of :class:`LRAEncoder`."""
    return LRAEncoder(attention, **sizes)


FILE = ModelFile("lra_encoder", "an encoder of Long Range Arena", create)
