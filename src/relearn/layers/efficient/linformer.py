"""Linformer: keys and values compressed along the sequence by a learned matrix.

Wang et al., "Linformer: Self-Attention with Linear Complexity" (2020), section 4.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from relearn.layers.efficient.blocks import attend, split_blocks
from relearn.layers.efficient.token_attention import TokenAttention, zero_padding


class LinformerAttention(TokenAttention):
    r"""Attention to r mixtures of tokens; the mixture depends on the positions of the tokens, not on their content.

    .. math:: \mathrm{mix}(x) = \mathrm{softmax}\big(q\,(E k)^\top / \sqrt w\big)\, E v

    E_h, (r, ``max_length``), is learned, one per head, and shared by keys and values (the paper's "key-value sharing"). A shorter
    sequence uses its first n columns. Keys and values of padding are zero.

    With ``window``, one softmax covers the r mixtures and the tokens near the query, as in zhu2022's table 5.3: each token
    sees its own segment of ``window`` tokens and max(⌊window/2⌋, 1) tokens on either side. The two parts are not normalised
    relative to each other.

    Facts (tests/layers/efficient/test_full.py): equals a loop over the formula.

    Args:
        dim, heads, max_length, dropout, bias: see :class:`~relearn.layers.efficient.token_attention.TokenAttention`.
        rank: r, 256 in zhu2022's table 5.1.
        window: tokens per segment; 0 for plain Linformer.

    Raises:
        ValueError: a rank below 1, a negative window, or arguments that the base class rejects.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        max_length: int,
        rank: int = 256,
        window: int = 0,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(dim, heads, max_length=max_length, dropout=dropout, bias=bias)
        if rank < 1:
            raise ValueError(f"rank: {rank} (allowed: at least 1)")
        if window < 0:
            raise ValueError(f"window: {window} (allowed: 0 or more)")
        self.rank, self.window = rank, window
        self.compression = nn.Parameter(torch.empty(heads, rank, max_length))
        for one in self.compression:
            nn.init.xavier_uniform_(one)

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = self.project(x)
        matrix = self.compression[..., : x.shape[1]].to(x.dtype)
        far = matrix @ zero_padding(k, mask), matrix @ zero_padding(v, mask)
        if not self.window:
            return scaled_dot_product_attention(q, *far, dropout_p=self.dropped)
        return self._with_window(q, k, v, far, mask)

    def _with_window(
        self, q: Tensor, k: Tensor, v: Tensor, far: tuple[Tensor, Tensor], mask: Tensor | None
    ) -> Tensor:
        """Softmax over the mixtures and, after them, the tokens of a segment's window."""
        size, side = self.window, max(self.window // 2, 1)
        queries = split_blocks(q, size)
        count = queries.shape[2]
        ends = (side, side - q.shape[2] + count * size)
        keys, values = (
            torch.cat(
                [
                    whole[:, :, None].expand(-1, -1, count, -1, -1),
                    pad(part, (0, 0, *ends)).unfold(2, size + 2 * side, size).mT,
                ],
                3,
            )
            for whole, part in zip(far, (k, v))
        )
        tokens = torch.ones(1, q.shape[2], dtype=torch.bool, device=q.device) if mask is None else mask
        seen = pad(tokens, ends).unfold(1, size + 2 * side, size)
        seen = pad(seen, (self.rank, 0), value=True)[:, :, None]
        return attend(queries, keys, values, seen, self.dropped)[:, :, : q.shape[2]]
