"""Dynamic low-rank projection: compress the keys and values of a sequence with weights that depend on the sequence."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from relearn.layers.on_device import full_precision


def project_dynamically(scores: Tensor, pairs: Tensor, mask: Tensor | None, *, fused: bool = True) -> Tensor:
    r"""Compress keys and values to rank r, (2, B, H, r, d).

    .. math:: P_i = \mathrm{softmax}_{\text{tokens}}(X W_i^P) \in \mathbb R^{n \times r}, \quad
              \bar K_i = P_i^\top K_i, \quad \bar V_i = P_i^\top V_i

    Zhu (2022), equation 5.3. A bias of the scores would be equal for all tokens and cancel in the softmax. r may exceed n.

    Args:
        scores: X W^P for all heads, (B, n, H r).
        pairs: keys and values, (2, B, H, n, d).
        mask: (B, n), True = real. Padding gets weight 0; every sequence needs one real token. None: all tokens are real.
        fused: use :class:`Compression`; False for ``torch.func``.
    """
    if mask is not None:
        scores = scores.masked_fill(~mask[..., None], -torch.inf)
    # the token axis comes last, so that the softmax and the products run along contiguous rows
    weights = scores.mT.contiguous().softmax(-1).unflatten(1, (pairs.shape[2], -1))
    return Compression.apply(weights, pairs) if fused else compress(weights, pairs)


def compress(weights: Tensor, pairs: Tensor) -> Tensor:
    """Return P^T K and P^T V, (2, B, H, r, d), for P^T (B, H, r, n) and keys and values (2, B, H, n, d)."""
    keys, values = pairs.unbind()
    return torch.stack([weights @ keys, weights @ values])


class Compression(torch.autograd.Function):
    """:func:`compress` with a backward pass that allocates only the gradients."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, pairs: Tensor) -> Tensor:
        ctx.save_for_backward(weights, pairs)
        return compress(weights, pairs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        weights, pairs = ctx.saved_tensors
        if torch.is_grad_enabled():
            again: Any = torch.func.vjp(compress, weights, pairs)
            return again[1](grad)
        with full_precision(grad):
            flat, rows, slopes = weights.flatten(0, 1), pairs.flatten(1, 2), grad.flatten(1, 2)
            to_weights = torch.bmm(slopes[0], rows[0].mT).baddbmm_(slopes[1], rows[1].mT)
            to_pairs = torch.empty_like(rows)
            for slope, out in zip(slopes, to_pairs):
                torch.bmm(flat.mT, slope, out=out)
        return to_weights.view_as(weights), to_pairs.view(pairs.shape)


def layer_norm_heads(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """Apply LayerNorm to x (..., H, n, d) over d, or over H d if ``weight`` has that length; None: return x."""
    if weight is None:
        return x
    if len(weight) == x.shape[-1]:
        return layer_norm(x, (len(weight),), weight, bias, eps)
    rows = layer_norm(x.transpose(-3, -2).flatten(-2), (len(weight),), weight, bias, eps)
    return rows.unflatten(-1, (x.shape[-3], -1)).transpose(-3, -2)
