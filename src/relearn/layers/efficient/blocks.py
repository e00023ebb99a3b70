"""Attention of blocks of tokens to a few other blocks each; shared by the sparse patterns."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention


def split_blocks(x: Tensor, size: int) -> Tensor:
    """Split (B, H, n, w) into blocks (B, H, b, size, w); the last block is padded with zeros."""
    return pad(x, (0, 0, 0, -x.shape[2] % size)).unflatten(2, (-1, size))


def block_mask(mask: Tensor | None, length: int, size: int, device: torch.device) -> Tensor:
    """Return which slots of the blocks hold tokens, (B, b, size), or (1, b, size) without a mask."""
    tokens = torch.ones(1, length, dtype=torch.bool, device=device) if mask is None else mask
    return pad(tokens, (0, -length % size)).unflatten(1, (-1, size))


def neighbours(count: int, reach: int, device: torch.device) -> Tensor:
    """Return the indices (count, 2 reach + 1) of the blocks around each block; indices outside 0..count-1 mean no block."""
    near = torch.arange(-reach, reach + 1, device=device)
    return torch.arange(count, device=device)[:, None] + near


def distances(size: int, reach: int, device: torch.device) -> Tensor:
    """Return j - i, (size, (2 reach + 1) size), for the tokens i of a block and the tokens j of its :func:`neighbours`."""
    here = torch.arange(size, device=device)[:, None]
    return torch.arange(-reach * size, (reach + 1) * size, device=device) - here


def block_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    size: int,
    table: Tensor,
    mask: Tensor | None,
    pattern: Tensor | None = None,
    first: int = 0,
    dropout: float = 0.0,
) -> Tensor:
    r"""Softmax attention in which block i sees the blocks ``table[i]`` and every token sees the first ``first`` tokens.

    .. math:: y_t = \sum_{j \in S(t)} \mathrm{softmax}_j(q_t \cdot k_j / \sqrt w)\, v_j

    Cost O(n (t size + first)), without an n x n tensor or a loop. Padding, including that of the last block, is never seen.

    Args:
        q, k, v: (B, H, n, w).
        size: tokens per block.
        table: (b, t), int64, b = ⌈n/size⌉: the blocks each block sees, each at most once; indices outside 0..b-1 mean no block.
        mask: (B, n), True = token.
        pattern: (size, t size), bool: which tokens of its blocks a token sees; None: all.
        first: number of leading tokens that every token sees; at least 0.
        dropout: probability of dropping an attention weight.

    Returns:
        (B, H, n, w). A token whose S(t) is empty gets a finite but meaningless vector.
    """
    length = q.shape[2]
    first = min(first, length)
    queries, keys, values = (split_blocks(one, size) for one in (q, k, v))
    count = queries.shape[2]
    chosen = table.clamp(0, count - 1)
    tokens = block_mask(mask, length, size, q.device)
    place = chosen[..., None] * size + torch.arange(size, device=q.device)
    held = tokens[:, chosen] & (table == chosen)[..., None] & (place >= first)  # (B, b, t, size)
    seen = held.flatten(2)[:, :, None]
    seen = seen.expand(-1, -1, size, -1) if pattern is None else seen & pattern
    near, near_values = (one[:, :, chosen].flatten(3, 4) for one in (keys, values))
    if first:
        front = tokens.flatten(1)[:, None, None, :first].expand(-1, *seen.shape[1:3], -1)
        seen = torch.cat([front, seen], 3)
        near, near_values = (
            torch.cat([whole[:, :, None, :first].expand(-1, -1, count, -1, -1), part], 3)
            for whole, part in ((k, near), (v, near_values))
        )
    seen = seen | ~seen.any(-1, keepdim=True)
    return attend(queries, near, near_values, seen, dropout)[:, :, :length]


def attend(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, dropout: float) -> Tensor:
    """Softmax attention in which every block has its own keys.

    q (B, H, b, s, w), k and v (B, H, b, m, w), seen (B or 1, b, s or 1, m), bool; returns (B, H, b s, w).
    """
    batch, count = q.shape[0], q.shape[2]
    queries, keys, values = (one.transpose(1, 2).flatten(0, 1) for one in (q, k, v))
    allowed = seen.expand(batch, -1, -1, -1).flatten(0, 1)[:, None]
    mixed = scaled_dot_product_attention(queries, keys, values, attn_mask=allowed, dropout_p=dropout)
    return mixed.unflatten(0, (batch, count)).transpose(1, 2).flatten(2, 3)


def with_global_rows(
    mixed: Tensor, q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None, dropout: float
) -> Tensor:
    """Replace the first rows of ``mixed`` (B, H, n, w) by softmax attention of q (B, H, rows, w) to all tokens."""
    seen = None if mask is None else mask[:, None, None]
    first = scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=dropout)
    return torch.cat([first, mixed[:, :, q.shape[2] :]], 2)
