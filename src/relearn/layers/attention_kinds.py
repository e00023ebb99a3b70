"""The attentions that the study of L2 attention compares, by the word that stands for each in settings and records."""

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
    """A layer of this kind.

    ============  ===========================================================================================
    kind          layer
    ============  ===========================================================================================
    dp            dot products (equation 4)
    l2            squared distances, W^Q and W^K apart (equation 10), values X W^V
    l2_tied       W^K = W^Q and values X A_h W^V (theorem 3.2)
    l2_matched    the same with 2D/H columns a head in W^Q: as many parameters as l2 (appendix M)
    contractive   l2_tied divided by its bound
    ============  ===========================================================================================

    Args:
        kind: one of ``KINDS``.
        dim, heads, dropout: as the layers take them.
        max_length, scale, bound: of ``contractive`` alone: N of the bound, the constant wanted, and which bound.

    Raises:
        ValueError: another kind; what the layers refuse.
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
