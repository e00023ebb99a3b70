"""Keys and values of a whole sequence compressed to a few, with weights that depend on the sequence."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import layer_norm


def projected(scores: Tensor, pairs: Tensor, mask: Tensor | None, *, fused: bool = True) -> Tensor:
    r"""Compressed keys and values, (2, B, H, r, d).

    .. math:: P_i = \mathrm{softmax}_{\text{tokens}}(X W_i^P) \in \mathbb R^{n \times r}, \quad
              \bar K_i = P_i^\top K_i, \quad \bar V_i = P_i^\top V_i

    Zhu (2022), equation 5.3. A bias of the scores would be the same for all tokens and drop out. r may exceed n.

    Args:
        scores: X W^P of all heads, (B, n, H r).
        pairs: keys and values, (2, B, H, n, d).
        mask: (B, n), True = real: what is not real has the weight 0, and one token is real; None: all are.
        fused: :class:`Compression`; False: for ``torch.func``.
    """
    if mask is not None:
        scores = scores.masked_fill(~mask[..., None], -torch.inf)
    # tokens last: the softmax and the products go along rows in memory
    weights = scores.mT.contiguous().softmax(-1).unflatten(1, (pairs.shape[2], -1))
    return Compression.apply(weights, pairs) if fused else compressed(weights, pairs)


def compressed(weights: Tensor, pairs: Tensor) -> Tensor:
    """P^T K and P^T V, (2, B, H, r, d), of P^T (B, H, r, n) and keys and values (2, B, H, n, d)."""
    keys, values = pairs.unbind()
    return torch.stack([weights @ keys, weights @ values])


class Compression(torch.autograd.Function):
    """:func:`compressed`, whose backward pass makes nothing but the gradients."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, pairs: Tensor) -> Tensor:
        ctx.save_for_backward(weights, pairs)
        return compressed(weights, pairs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        weights, pairs = ctx.saved_tensors
        if torch.is_grad_enabled():
            again: Any = torch.func.vjp(compressed, weights, pairs)
            return again[1](grad)
        with torch.autocast(grad.device.type, enabled=False):
            flat, rows, slopes = weights.flatten(0, 1), pairs.flatten(1, 2), grad.flatten(1, 2)
            to_weights = torch.bmm(slopes[0], rows[0].mT).baddbmm_(slopes[1], rows[1].mT)
            to_pairs = torch.empty_like(rows)
            for slope, out in zip(slopes, to_pairs):
                torch.bmm(flat.mT, slope, out=out)
        return to_weights.view_as(weights), to_pairs.view(pairs.shape)


def normed(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """LayerNorm of x (..., H, n, d): of every head's own d numbers, or of all heads' where ``weight`` is that long; None: x."""
    if weight is None:
        return x
    if len(weight) == x.shape[-1]:
        return layer_norm(x, (len(weight),), weight, bias, eps)
    rows = layer_norm(x.transpose(-3, -2).flatten(-2), (len(weight),), weight, bias, eps)
    return rows.unflatten(-1, (x.shape[-3], -1)).transpose(-3, -2)
