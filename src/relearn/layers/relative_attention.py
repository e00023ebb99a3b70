"""Causal full attention with relative positions and a cache, as in Transformer-XL."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from relearn.layers.relative_positions import sinusoids
from relearn.layers.self_attention import check_heads


class RelativeAttention(nn.Module):
    r"""Multi-head causal attention with relative positions (Dai et al. 2019, "Transformer-XL", section 3.3).

    Position i sees every j ≤ i, including the cache. With R the linear map of a distance's sinusoids,

    .. math:: H_i = \mathrm{softmax}_{j \le i}\Big(\frac{(q_i + u) \cdot k_j + (q_i + v) \cdot R_{i-j}}{\sqrt d}\Big)\, V

    This is the baseline of :class:`~relearn.layers.long_short_causal.CausalLongShortAttention` over the same context, and has the
    same signature. The scores are stored, n (m + n) per head; shifting them by relative distance takes no further copy.

    ======  ===============================  ===============  ==========
    symbol  meaning                          code             shape
    ======  ===============================  ===============  ==========
    q, k    queries; keys, values            ``q``, ``kv``    (D, D), (2D, D)
    R       map of the distance              ``positions``    (D, D)
    u, v    biases, initially 0              ``biases``       (2, H, d)
    W^O     output                           ``out``          (D, D)
    ======  ===============================  ===============  ==========

    Args:
        dim: D, a multiple of ``heads``.
        heads: H.
        dropout: probability of dropping an attention weight.

    Raises:
        ValueError: sizes out of range; in a call, no position or wrong shapes.
    """

    def __init__(self, dim: int, heads: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        check_heads(dim, heads, dropout)
        self.dim, self.heads, self.dropout = dim, heads, dropout
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.positions = nn.Linear(dim, dim, bias=False)
        self.biases = nn.Parameter(torch.zeros(2, heads, dim // heads))

    def forward(self, x: Tensor, *, cache: Tensor | None = None) -> Tensor:
        """Return outputs (B, n, D) of ``x`` (B, n, D); ``cache`` (B, m, D) holds the inputs at the preceding positions."""
        if x.dim() != 3 or x.shape[2] != self.dim or x.shape[1] == 0:
            raise ValueError(f"x: shape {tuple(x.shape)} (allowed: (B, n, {self.dim}) with n >= 1)")
        if cache is not None and (
            cache.dim() != 3 or (cache.shape[0], cache.shape[2]) != (x.shape[0], self.dim)
        ):
            raise ValueError(f"cache: shape {tuple(cache.shape)} (allowed: ({x.shape[0]}, m, {self.dim}))")
        fresh = x.shape[1]
        rows = self.kv(x) if cache is None else torch.cat([self.kv(cache), self.kv(x)], 1)
        length = rows.shape[1]
        k, v = rows.unflatten(2, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        factor = math.sqrt(self.heads / self.dim)
        q = self.q(x).unflatten(2, (self.heads, -1)).transpose(1, 2) * factor
        u, v_bias = (factor * self.biases.to(q.dtype)).unsqueeze(2)
        distances = torch.arange(length - 1, -1, -1, device=x.device, dtype=torch.float64)
        encoded = sinusoids(distances, self.dim).to(
            self.positions.weight.dtype
        )  # bfloat16 counts to 256 only
        table = self.positions(encoded).to(q.dtype).unflatten(1, (self.heads, -1))
        by_distance = (q + v_bias) @ table.permute(1, 2, 0)
        # in row i, the distance m + i - j is at column n - 1 - i + j
        shifted = by_distance.flatten(2)[..., fresh - 1 :].unfold(2, length, max(length - 1, 1))
        hidden = torch.ones(fresh, length, dtype=torch.bool, device=x.device).triu(length - fresh + 1)
        weights = ((q + u) @ k.mT + shifted).masked_fill(hidden, -torch.inf).softmax(3)
        mixed = dropout(weights, self.dropout, self.training) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))

    def extra_repr(self) -> str:
        return f"heads={self.heads}"
