"""The attention layers compared in the L2 attention study, by the names used in settings and records."""

from __future__ import annotations

from typing import Literal

from relearn.layers.dot_product_attention import DotProductAttention
from relearn.layers.l2_attention import L2Attention

KINDS = ("dp", "l2", "l2_tied", "l2_matched", "contractive")


def attention(
    kind: str,
    dim: int,
    heads: int,
    *,
    max_length: int | None = None,
    dropout: float = 0.0,
    scale: float = 1.0,
    bound: Literal["inf", "two"] = "inf",
) -> DotProductAttention | L2Attention:
    """Build an attention layer of the given kind.

    ============  ===========================================================================================
    kind          layer
    ============  ===========================================================================================
    dp            dot products (equation 4)
    l2            squared distances, separate W^Q and W^K (equation 10), values X A_h W^V (appendix F)
    l2_tied       the same with W^K = W^Q (theorem 3.2)
    l2_matched    l2_tied with 2D/H columns per head in W^Q, which gives it as many parameters as l2 (appendix M)
    contractive   l2_tied divided by its bound
    ============  ===========================================================================================

    Args:
        kind: one of ``KINDS``.
        dim, heads, dropout: passed on to the layer.
        max_length, scale, bound: used by ``contractive`` only: N of the bound, the target Lipschitz constant, and which bound.

    Raises:
        ValueError: an unknown kind, or arguments that the layer rejects.
    """
    if kind == "dp":
        return DotProductAttention(dim, heads, dropout=dropout)
    if kind == "l2":
        return L2Attention(dim, heads, tied=False, dropout=dropout)
    if kind == "l2_tied":
        return L2Attention(dim, heads, dropout=dropout)
    if kind == "l2_matched":
        return L2Attention(dim, heads, query_width=2 * dim // max(heads, 1), dropout=dropout)
    if kind == "contractive":
        return L2Attention(dim, heads, contractive=bound, scale=scale, max_length=max_length, dropout=dropout)
    raise ValueError(f"attention: {kind!r} (allowed: {', '.join(KINDS)})")
