"""The Sparse Transformer's strided pattern: neighbouring tokens, and every l-th token.

Child, Gray, Radford and Sutskever, "Generating Long Sequences with Sparse Transformers" (2019), section 4.2.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import dropout

from relearn.layers.efficient.blocks import block_mask, distances, neighbours, split_blocks
from relearn.layers.efficient.token_attention import TokenAttention
from relearn.layers.on_device import wide


class SparseAttention(TokenAttention):
    r"""Strided attention in which every head sees both parts at once (the "merged" form of section 4.1 of the paper).

    .. math:: S(i) = \{j : |i - j| < l\} \cup \{j : l \mid i - j\}, \qquad
              \mathrm{mix}(x)_i = \sum_{j \in S(i)} \mathrm{softmax}_j(q_i \cdot k_j / \sqrt w)\, v_j

    The paper's pattern is causal (j ≤ i); for an encoder, this one extends to both sides. Cost O(n (3 l + n/l)).

    Args:
        dim, heads, max_length, dropout, bias: see :class:`~relearn.layers.efficient.token_attention.TokenAttention`.
        stride: l; None: the square root of ``max_length``, rounded up, as the paper recommends.

    Raises:
        ValueError: a stride below 1, or arguments that the base class rejects.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        max_length: int,
        stride: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(dim, heads, max_length=max_length, dropout=dropout, bias=bias)
        self.stride = math.isqrt(max_length - 1) + 1 if stride is None else stride
        if self.stride < 1:
            raise ValueError(f"stride: {stride} (allowed: at least 1, or none)")

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        size, length = self.stride, x.shape[1]
        q, k, v = (split_blocks(one, size) for one in self.project(x))
        tokens = block_mask(mask, length, size, x.device)
        count = q.shape[2]
        table = neighbours(count, 1, x.device)
        chosen = table.clamp(0, count - 1)
        asked = wide(q) / math.sqrt(self.width)
        near = asked @ wide(k)[:, :, chosen].flatten(3, 4).mT  # (B, H, b, l, 3 l)
        far = torch.einsum("bhclw,bhdlw->bhcld", asked, wide(k))
        held = (tokens[:, chosen] & (table == chosen)[..., None]).flatten(2)[:, None, :, None]
        held = held & (distances(size, 1, x.device).abs() < size)
        # a token is excluded from its own column, because the near part already contains it
        other = ~torch.eye(count, dtype=torch.bool, device=x.device)[:, None]
        column = tokens.transpose(1, 2)[:, None, None] & other
        seen = torch.cat([held.expand(len(tokens), 1, count, size, -1), column], 4)
        logits = torch.cat([near, far], 4).masked_fill(~(seen | ~seen.any(-1, keepdim=True)), -torch.inf)
        weights = dropout(logits.softmax(-1), self.dropout, self.training).to(v.dtype)
        near, far = weights.split([3 * size, count], 4)
        mixed = near @ v[:, :, chosen].flatten(3, 4) + torch.einsum("bhcld,bhdlw->bhclw", far, v)
        return mixed.flatten(2, 3)[:, :, :length]
