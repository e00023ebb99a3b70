"""The layers of an encoder-decoder Transformer, and the decoder's cache.

Vaswani et al., "Attention Is All You Need" (2017), section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from relearn.layers.attention import MultiHeadAttention
from relearn.layers.residual import Residual


class FeedForward(nn.Module):
    """The map x → fc2(relu(fc1(x))) of each position, (..., d) → (..., d), with dropout after the activation."""

    def __init__(self, dim: int, ffn: int, dropout: float) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, ffn)
        self.fc2 = nn.Linear(ffn, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.dropout(relu(self.fc1(x))))


@dataclass
class Size:
    """Sizes and options shared by all layers of a network."""

    dim: int
    ffn: int
    heads: int
    dropout: float
    attention_dropout: float
    activation_dropout: float
    residual: str
    fixed_w_skip: bool

    def attention(self) -> MultiHeadAttention:
        return MultiHeadAttention(self.dim, self.heads, self.attention_dropout)

    def joint(self) -> Residual:
        return Residual(self.dim, self.residual, self.dropout, fixed=self.fixed_w_skip)

    def feed_forward(self) -> FeedForward:
        return FeedForward(self.dim, self.ffn, self.activation_dropout)


@dataclass
class LayerCache:
    """Cached keys and values (B, H, length, d/H) of one decoder layer, for the encoder's output and for the positions so far."""

    cross_keys: Tensor
    cross_values: Tensor
    keys: Tensor | None = None
    values: Tensor | None = None


@dataclass
class Cache:
    """State of decoding: the number of positions so far, the mask of the encoder's output (B, 1, 1, S), and one cache per decoder
    layer."""

    position: int
    mask: Tensor
    layers: list[LayerCache]

    def select(self, rows: Tensor) -> None:
        """Select these rows of the batch, in this order (int64, repetition allowed), for beam search."""
        self.mask = self.mask[rows]
        for layer in self.layers:
            layer.cross_keys, layer.cross_values = layer.cross_keys[rows], layer.cross_values[rows]
            if layer.keys is not None and layer.values is not None:
                layer.keys, layer.values = layer.keys[rows], layer.values[rows]


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each with a :class:`relearn.layers.residual.Residual` connection."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.self_attention = size.attention()
        self.self_residual = size.joint()
        self.ffn = size.feed_forward()
        self.ffn_residual = size.joint()

    def joints(self) -> list[Residual]:
        """Return the residual connections, first to last."""
        return [self.self_residual, self.ffn_residual]

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the output for ``x`` (B, S, d); ``mask`` (B, 1, 1, S) is True where there is a token."""
        x = self.self_residual(x, self.self_attention(x, x, mask=mask))
        return self.ffn_residual(x, self.ffn(x))


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder's output, feed-forward; each with a residual connection."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.self_attention = size.attention()
        self.self_residual = size.joint()
        self.cross_attention = size.attention()
        self.cross_residual = size.joint()
        self.ffn = size.feed_forward()
        self.ffn_residual = size.joint()

    def joints(self) -> list[Residual]:
        """Return the residual connections, first to last."""
        return [self.self_residual, self.cross_residual, self.ffn_residual]

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """Return the output for ``x`` (B, T, d), given ``memory`` (B, S, d) and its ``mask`` (B, 1, 1, S)."""
        x = self.self_residual(x, self.self_attention(x, x, causal=True))
        x = self.cross_residual(x, self.cross_attention(x, memory, mask=mask))
        return self.ffn_residual(x, self.ffn(x))

    def step(self, x: Tensor, cache: LayerCache, mask: Tensor) -> Tensor:
        """Process one position (B, 1, d) after those in ``cache``, and append it to the cache."""
        keys, values = self.self_attention.project(x)
        if cache.keys is not None and cache.values is not None:
            keys, values = torch.cat([cache.keys, keys], 2), torch.cat([cache.values, values], 2)
        cache.keys, cache.values = keys, values
        x = self.self_residual(x, self.self_attention.attend(x, keys, values))
        x = self.cross_residual(
            x, self.cross_attention.attend(x, cache.cross_keys, cache.cross_values, mask=mask)
        )
        return self.ffn_residual(x, self.ffn(x))
