"""Sparse Sinkhorn attention: a block attends to its own tokens and to a block assigned to it by a learned soft sorting.

Tay, Bahri, Yang, Metzler and Juan, "Sparse Sinkhorn Attention" (2020), section 3.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from relearn.layers.efficient.blocks import attend, block_mask, split_blocks
from relearn.layers.efficient.token_attention import TokenAttention
from relearn.layers.on_device import wide


class SinkhornAttention(TokenAttention):
    r"""Attention of block s to the keys :math:`[K_s;\ \sum_t R_{st} K_t]`, and the values likewise.

    .. math:: R = \mathrm{Sinkhorn}\big((F(p_1), ..., F(p_m))^\top / \tau\big), \quad p_s = \sum_{i \in s} x_i, \quad
              F(p) = W_B\,\mathrm{relu}(W_P\, p + b_P) + b_B

    R, one per head, becomes doubly stochastic by ``steps`` rounds of dividing rows, then columns, by their sums. In training
    mode Gumbel noise is added to F before the division by τ. W_B has one row per block of ``max_length``; a shorter sequence uses
    the first ones.

    Padding counts as zero in p, keys and values. Blocks that are all padding are sorted among themselves. A slot of a sorted
    block is visible if some block has a token in that slot.

    Args:
        dim, heads, max_length, dropout, bias: see :class:`~relearn.layers.efficient.token_attention.TokenAttention`.
        block: tokens per block.
        steps: rounds of Sinkhorn normalisation.
        temperature: τ.

    Raises:
        ValueError: a size below 1, a temperature that is not positive, or arguments that the base class rejects.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        max_length: int,
        block: int = 64,
        steps: int = 8,
        temperature: float = 0.75,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(dim, heads, max_length=max_length, dropout=dropout, bias=bias)
        for name, value in (("block", block), ("steps", steps)):
            if value < 1:
                raise ValueError(f"{name}: {value} (allowed: at least 1)")
        if not temperature > 0:
            raise ValueError(f"temperature: {temperature} (allowed: positive)")
        self.block, self.steps, self.temperature = block, steps, temperature
        self.blocks = -(-max_length // block)
        self.pool = nn.Linear(dim, dim)
        self.sort = nn.Linear(dim, heads * self.blocks)

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        length = x.shape[1]
        tokens = block_mask(mask, length, self.block, x.device)
        here = tokens[:, None, :, :, None]
        q, k, v = (split_blocks(one, self.block) for one in self.project(x))
        k, v = (one.masked_fill(~here, 0.0) for one in (k, v))
        sums = split_blocks(x[:, None], self.block).masked_fill(~here, 0.0).sum(3)[:, 0]
        order = self.sorting(sums, tokens.any(2)).to(k.dtype)
        keys, values = (torch.cat([one, torch.einsum("bhst,bhtlw->bhslw", order, one)], 3) for one in (k, v))
        occupied = tokens.any(1, keepdim=True).expand_as(tokens)
        seen = torch.cat([tokens, occupied], 2)[:, :, None]
        return attend(q, keys, values, seen, self.dropped)[:, :, :length]

    def sorting(self, sums: Tensor, live: Tensor) -> Tensor:
        """Return R (B, H, m, m) for the block sums p (B, m, D); ``live`` (B, m) marks the blocks that contain a token."""
        count = sums.shape[1]
        logits = wide(self.sort(relu(self.pool(sums)))).unflatten(2, (self.heads, self.blocks))
        logits = logits.transpose(1, 2)[..., :count]
        if self.training:
            logits = logits - torch.empty_like(logits).exponential_().log()
        # padding blocks only see each other, so that the submatrix of the real blocks is doubly stochastic
        like = (live[:, None, :, None] == live[:, None, None]).expand_as(logits)
        return sinkhorn((logits / self.temperature).masked_fill(~like, -torch.inf), self.steps)


def sinkhorn(logits: Tensor, steps: int) -> Tensor:
    """Return exp(logits) (..., m, m) after ``steps`` rounds of dividing rows, then columns, by their sums, in log space."""
    for _ in range(steps):
        logits = logits - logits.logsumexp(-1, keepdim=True)
        logits = logits - logits.logsumexp(-2, keepdim=True)
    return logits.exp()
