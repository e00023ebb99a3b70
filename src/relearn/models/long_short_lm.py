r"""Character-level language model with causal long-short attention, or with full attention over the same context.

zhu2022 ("Robustness, Efficiency ..."), section 5.3.2 and table 5.7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from relearn.layers.long_short_causal import CausalLongShortAttention
from relearn.layers.relative_attention import RelativeAttention
from relearn.models.files import ModelFile
from relearn.models.transformer_layers import FeedForward

KINDS = ("long_short", "full")
PUBLISHED: dict[str, dict[str, Any]] = {
    "small": {"layers": 12, "dim": 512, "heads": 8, "ffn": 2048, "window": 512, "segment": 16, "rank": 1},
    "large": {"layers": 30, "dim": 512, "heads": 8, "ffn": 2048, "window": 512, "segment": 16, "rank": 1},
}
"""Sizes of table 5.7: 44M and 110M parameters with the 204 characters of enwik8."""


class LongShortBlock(nn.Module):
    """Causal attention with a cache, then feed-forward, (B, n, D) → (B, n, D): x + f(LN(x)), or LN(x) + f(LN(x)) if ``as_released``."""

    def __init__(self, attention: nn.Module, dim: int, ffn: int, dropout: float, as_released: bool) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(dim)
        self.attention = attention
        self.ffn_norm = nn.LayerNorm(dim)
        self.ffn = FeedForward(dim, ffn, dropout)
        self.dropout = nn.Dropout(dropout)
        self.as_released = as_released

    def forward(self, x: Tensor, *, cache: Tensor | None = None) -> Tensor:
        normed = self.attention_norm(x)
        held = None if cache is None else self.attention_norm(cache).detach()
        x = (normed if self.as_released else x) + self.dropout(self.attention(normed, cache=held))
        normed = self.ffn_norm(x)
        return (normed if self.as_released else x) + self.dropout(self.ffn(normed))


class LongShortLM(nn.Module):
    r"""Predict the logits of the next character from the characters so far.

    .. math::
        x^0_t = \sqrt D\, E_{c_t}, \qquad y = x^{l-1} + \mathrm{A}(\mathrm{LN}(x^{l-1})), \qquad
        x^l = y + \mathrm{FFN}(\mathrm{LN}(y)), \qquad \mathrm{logits}_t = E\, \mathrm{LN}(x^L_t)

    A is :class:`~relearn.layers.long_short_causal.CausalLongShortAttention`, or, for ``full``,
    :class:`~relearn.layers.relative_attention.RelativeAttention`. Positions are relative, so a sequence may have any length. For
    each layer the cache stores :math:`x^{l-1}` at the preceding positions. It is normalised with the current weights and receives
    no gradients.

    Number of parameters of ``long_short`` in the default form, with d = D/H:

    .. math:: VD + 2D + L\,(6 D^2 + 2 D f + f + 5 D + D H r + 4 d)

    This is 44,253,184 for the published 12 layers and V = 204, and 110,474,752 for 30: 44M and 110M. ``full`` has
    :math:`D^2 + DHr + 4d - 2D` fewer per layer.

    The dissertation leaves some choices open; we use our own or Transformer-XL's: ReLU, tied embedding without an output bias,
    biases only in the feed-forward, the initialisation (weights N(0, 0.02²), norms 1, biases 0), and dropout on the embedding,
    after the activation and on each branch. The released code (``as_released``) adds each branch to the normalised input, has no
    final norm and draws the norms' weights from N(1, 0.02²). Its layer has more biases and wider norms, which gives 110.57M.

    Args:
        vocabulary: V.
        attention: one of :data:`KINDS`.
        layers, dim, heads, ffn: L, D, H, f.
        window, segment, rank, dual_norm, relative, as_released: options of the attention; ``full`` ignores them except ``as_released``.
        dropout: probability in [0, 1).
        attention_dropout: probability of dropping an attention weight.

    Raises:
        ValueError: a size or an option out of range; in ``forward``, wrong shapes or a cache with a wrong number of layers.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        attention: str = "long_short",
        layers: int = 12,
        dim: int = 512,
        heads: int = 8,
        ffn: int = 2048,
        window: int = 512,
        segment: int = 16,
        rank: int = 1,
        dual_norm: bool = True,
        relative: bool = True,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        as_released: bool = False,
    ) -> None:
        super().__init__()
        for key, value in {"vocabulary": vocabulary, "layers": layers, "dim": dim, "ffn": ffn}.items():
            if value < 1:
                raise ValueError(f"{key}: {value} (allowed: at least 1)")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout: {dropout} (allowed: 0 <= p < 1)")
        if attention not in KINDS:
            raise ValueError(f"attention: {attention!r} (allowed: {', '.join(KINDS)})")
        own: dict[str, Any] = {
            "window": window,
            "segment": segment,
            "rank": rank,
            "dual_norm": dual_norm,
            "relative": relative,
            "as_released": as_released,
        }
        self.description: dict[str, Any] = {
            "vocabulary": vocabulary,
            "attention": attention,
            "layers": layers,
            "dim": dim,
            "heads": heads,
            "ffn": ffn,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            **own,
        }

        def layer() -> nn.Module:
            if attention == "full":
                return RelativeAttention(dim, heads, dropout=attention_dropout)
            return CausalLongShortAttention(dim, heads, dropout=attention_dropout, **own)

        self.embedding = nn.Embedding(vocabulary, dim)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            LongShortBlock(layer(), dim, ffn, dropout, as_released) for _ in range(layers)
        )
        self.norm = nn.Identity() if as_released else nn.LayerNorm(dim)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the initial weights again, from torch's global generator."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
                if isinstance(module, nn.Linear) and module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.LayerNorm):
                nn.init.normal_(module.weight, 1.0, 0.02 if self.description["as_released"] else 0.0)
                nn.init.zeros_(module.bias)

    def attention_layers(self) -> list[nn.Module]:
        """Return the attention layer of each block, first to last."""
        return [cast(LongShortBlock, block).attention for block in self.blocks]

    def forward(
        self, tokens: Tensor, *, cache: Sequence[Tensor] | None = None, keep: int | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the logits (B, n, V) of the character after each position, and the cache for the following characters.

        Args:
            tokens: (B, n), int64.
            cache: the cache returned by the previous call; None at the start.
            keep: maximum number of positions in the new cache, counted from the end; None: n, the number of tokens, as in the
                dissertation. A multiple of ``window`` and ``segment`` preserves the window and segment boundaries.

        Returns:
            The logits, and a detached tensor (B, min(keep, m + n), D) per layer.
        """
        if tokens.dim() != 2 or tokens.shape[1] == 0:
            raise ValueError(f"tokens: shape {tuple(tokens.shape)} (allowed: (B, n) with n >= 1)")
        if keep is not None and keep < 0:
            raise ValueError(f"keep: {keep} (allowed: at least 0)")
        if cache is not None and len(cache) != len(self.blocks):
            raise ValueError(f"cache: {len(cache)} tensors (allowed: {len(self.blocks)}, one per layer)")
        keep = tokens.shape[1] if keep is None else keep
        x = self.dropout(math.sqrt(self.embedding.embedding_dim) * self.embedding(tokens))
        kept: list[Tensor] = []
        for number, block in enumerate(self.blocks):
            held = None if cache is None else cache[number]
            past = x.detach() if held is None else torch.cat([held, x.detach().to(held.dtype)], 1)
            kept.append(past[:, max(0, past.shape[1] - keep) :])
            x = block(x, cache=held)
        return linear(self.norm(x), self.embedding.weight), kept


def create(**description: Any) -> LongShortLM:
    """Build a character model from a run's settings or a model's ``description``: the arguments of :class:`LongShortLM`.

    Raises:
        ValueError: arguments that the model rejects.
    """
    return LongShortLM(**description)


FILE = ModelFile("long_short_model", "a long-short character model", create)
