"""BigBird: blocks that attend to their neighbours, to a few randomly drawn blocks, and to the first tokens.

Zaheer et al., "Big Bird: Transformers for Longer Sequences" (2020), section 2.
"""

from __future__ import annotations

import torch
from torch import Tensor

from relearn.layers.efficient.blocks import block_attention, neighbours, with_global_rows
from relearn.layers.efficient.token_attention import TokenAttention


class BigBirdAttention(TokenAttention):
    r"""Block-sparse attention whose global tokens belong to the sequence itself (the paper's "ITC" variant).

    .. math:: S(i) = \{j : \lfloor j/b \rfloor \in T_{\lfloor i/b \rfloor}\} \cup \{j < g\}, \quad S(i) = \text{all for } i < g; \qquad
              \mathrm{mix}(x)_i = \sum_{j \in S(i)} \mathrm{softmax}_j(q_i \cdot k_j / \sqrt w)\, v_j

    with T_s = {s - 1, s, s + 1} plus ``random`` further blocks. These blocks are drawn once, for ``max_length``, from torch's
    global generator, and saved with the state (``drawn``, with -1 where too few blocks remain). In a shorter sequence, drawn
    blocks beyond its end are dropped, exactly as for padding.
    The released code also makes the last block global; with padding at the end, that block is of no use.

    Args:
        dim, heads, max_length, dropout, bias: see :class:`~relearn.layers.efficient.token_attention.TokenAttention`.
        block: b, 64 in the paper.
        random: number of random blocks per block, 3 in the paper.
        global_tokens: g; None means one block.

    Raises:
        ValueError: a size below its minimum, or arguments that the base class rejects.
    """

    drawn: Tensor

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        max_length: int,
        block: int = 64,
        random: int = 3,
        global_tokens: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(dim, heads, max_length=max_length, dropout=dropout, bias=bias)
        first = block if global_tokens is None else global_tokens
        for name, value, least in (("block", block, 1), ("random", random, 0), ("global_tokens", first, 0)):
            if value < least:
                raise ValueError(f"{name}: {value} (allowed: at least {least})")
        self.block, self.global_tokens = block, first
        self.register_buffer("drawn", draw_blocks(-(-max_length // block), random, skip=first // block))

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = self.project(x)
        count = -(-x.shape[1] // self.block)
        mixed = block_attention(
            q,
            k,
            v,
            size=self.block,
            table=torch.cat([neighbours(count, 1, x.device), self.drawn[:count]], 1),
            mask=mask,
            first=self.global_tokens,
            dropout=self.dropped,
        )
        if not self.global_tokens:
            return mixed
        return with_global_rows(mixed, q[:, :, : self.global_tokens], k, v, mask=mask, dropout=self.dropped)


def draw_blocks(count: int, random: int, skip: int) -> Tensor:
    """Draw ``random`` distinct blocks for each of ``count`` blocks, (count, random): no neighbour, none of the first ``skip``.

    Entries are -1 where fewer blocks are available.
    """
    number = torch.arange(count)
    rank = torch.rand(count, count)
    near = (number[:, None] - number).abs() <= 1
    rank = rank.masked_fill(near | (number < skip), 2.0)  # sorts after all others, which are below 1
    ranked, order = rank.sort(1)
    drawn = order.masked_fill(ranked > 1, -1)[:, :random]
    missing = drawn.new_full((count, random - drawn.shape[1]), -1)
    return torch.cat([drawn, missing], 1)
