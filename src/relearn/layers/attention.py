r"""Multi-head scaled dot-product attention with separate query, key and value maps.

Vaswani et al., "Attention Is All You Need" (2017), section 3.2.2.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from relearn.layers.self_attention import check_heads


class MultiHeadAttention(nn.Module):
    r"""Attention of the tokens x to a memory z.

    .. math::
        q = W_q x + b_q, \quad k = W_k z + b_k, \quad v = W_v z + b_v, \quad
        y = W_o\,[\mathrm{softmax}(q_h k_h^\top / \sqrt{d/H})\, v_h]_{h=1..H} + b_o

    ======  ==========================  ===========  =============
    symbol  meaning                     code         shape
    ======  ==========================  ===========  =============
    x       source of the queries       ``x``        (B, T, d)
    z       source of keys and values   ``memory``   (B, S, d)
    W_*     maps, one Linear each       ``q k v out``  (d, d)
    H       heads                       ``heads``
    ======  ==========================  ===========  =============

    Facts (tests/layers/test_attention.py): equals ``torch.nn.MultiheadAttention`` with the same weights; a
    masked position of the memory has no influence; with ``causal``, position t sees only positions up to t.

    The maps are separate modules because the per-layer statistics of zhu2022 (figures 4.9 and 4.10) distinguish
    queries, keys and values. torch's fused kernels have no second derivative; callers that differentiate
    twice (GradInit, MetaInit) must select the math kernel with ``torch.nn.attention.sdpa_kernel``.

    Args:
        dim: width d, a multiple of ``heads``.
        heads: H.
        dropout: probability of dropping an attention weight, in training mode.

    Raises:
        ValueError: ``dim`` is not a multiple of ``heads``, or ``dropout`` is outside [0, 1).
    """

    def __init__(self, dim: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_heads(dim, heads, dropout)
        self.heads = heads
        self.dropout = dropout
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def forward(
        self, x: Tensor, memory: Tensor, *, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Return the output (B, T, d); ``mask`` is boolean, True = visible, and broadcasts to (B, H, T, S)."""
        return self.attend(x, *self.project(memory), mask=mask, causal=causal)

    def project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values (B, H, S, d/H) of a memory; a decoder caches them between its steps."""
        return self._split(self.k(memory)), self._split(self.v(memory))

    def attend(
        self, x: Tensor, keys: Tensor, values: Tensor, *, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Return the output (B, T, d) for keys and values computed by :meth:`project`."""
        if mask is not None and causal:  # not every kernel of torch takes both
            mask = mask & mask.new_ones(x.shape[1], keys.shape[2]).tril()
        mixed = scaled_dot_product_attention(
            self._split(self.q(x)),
            keys,
            values,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=causal and mask is None,
        )
        return self.out(mixed.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)
