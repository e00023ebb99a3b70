"""Long-short attention for encoders: a window of neighbours and a dynamic low-rank projection in one softmax."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from relearn.layers.long_short_core import Form, Norms, attend, attend_one_query, heads_first
from relearn.layers.on_device import full_precision, wide
from relearn.layers.self_attention import check_heads, merge


class LongShortAttention(nn.Module):
    r"""Bidirectional long-short attention of H heads, linear in the number n of tokens (Zhu, 2022, sections 5.2.2 to 5.2.4).

    .. math::
        H_t = \mathrm{softmax}\Big(\tfrac{1}{\sqrt{d}}\, q_t\, [\mathrm{LN}_L(K_{S(t)});\ \mathrm{LN}_G(\bar K)]^\top\Big)
              [\mathrm{LN}_L(V_{S(t)});\ \mathrm{LN}_G(\bar V)], \quad
        \bar K = P^\top \mathrm{LN}_L(K), \quad P = \mathrm{softmax}_{\text{tokens}}(X W^P)

    (equation 5.7; equation 5.6 without ``dual_norm``) in every head, d = D/H. S(t) contains the w tokens of t's own segment and
    ⌊w/2⌋ on either side (one if w = 1), 2w in all (:class:`~relearn.layers.segments.Segments`).

    ==========  ==============================  ================  ================
    symbol      meaning                         code              shape
    ==========  ==============================  ================  ================
    Q, K, V     one map for all heads           ``qkv``           (3D, D)
    W^P         scores of the projection        ``score.weight``  (H r, D)
    LN_L, LN_G  shared by keys and values       ``local_norm``    d, or D
                                                ``global_norm``
    W^O         output                          ``proj``          (D, D)
    ==========  ==============================  ================  ================

    ``window=0`` is the dynamic projection alone (equation 5.4), ``rank=0`` the window alone. Any n is allowed, including
    n < w and n < r.

    The text writes LN of one head's keys, so the norms act on each head's own d numbers, with weights shared by the
    heads; ``norm_per_head=False`` normalises all D together, as the released code does.

    Class token: the first token sees all tokens and is seen by all. It is normalised by LN_L and belongs neither to P nor to a
    window; the text specifies nothing else. With ``as_released=True`` its key and value join the compressed ones, and it
    attends to its own unnormalised key and value and to the outputs of the other tokens, as keys and values.

    A padded token (``mask``) affects no other token, and its output is the bias of ``proj``.

    With ``fused`` (a plain attribute), first derivatives store no logits (:class:`~relearn.layers.window_mix.WindowMix`). False
    uses ordinary tensor operations, which ``torch.func`` accepts; so does a training step with ``attention_dropout``.

    Args:
        dim: width D, a multiple of ``heads``.
        heads: H.
        window: w.
        rank: r.
        dual_norm: apply LN_L and LN_G.
        norm_per_head: see above; None: True, or False if ``as_released``.
        class_token: 1 if the first token is a class token, otherwise 0.
        dropout: dropout probability of the output, in training mode.
        attention_dropout: probability of dropping an attention weight, in training mode.
        as_released: the released code's variant: norms over all of D, and the class token as described above.
        bias: biases of Q, K, V and the output. The scores have none, because it would cancel.
        eps: ε of the norms.

    Raises:
        ValueError: numbers out of range; window and rank both 0; in a call, wrong shapes, no token, or a mask that is not
            boolean or that hides a whole sequence or its class token.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        window: int = 8,
        rank: int = 32,
        dual_norm: bool = True,
        norm_per_head: bool | None = None,
        class_token: int = 0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        as_released: bool = False,
        bias: bool = True,
        eps: float = 1e-5,
        fused: bool = True,
    ) -> None:
        super().__init__()
        check_heads(dim, heads)
        for name, value in {"window": window, "rank": rank}.items():
            if value < 0:
                raise ValueError(f"{name}: {value} (allowed: 0 or more)")
        if window == rank == 0:
            raise ValueError("window and rank: both 0 (allowed: at least one positive)")
        if class_token not in (0, 1):
            raise ValueError(f"class_token: {class_token} (allowed: 0 or 1)")
        for name, share in {"dropout": dropout, "attention_dropout": attention_dropout}.items():
            if not 0 <= share < 1:
                raise ValueError(f"{name}: {share} (allowed: 0 <= p < 1)")
        if not eps > 0:
            raise ValueError(f"eps: {eps} (allowed: a positive number)")
        self.dim, self.heads, self.window, self.rank = dim, heads, window, rank
        self.class_token, self.as_released, self.fused = class_token, as_released, fused
        self.dropout, self.attention_dropout = dropout, attention_dropout
        self.qkv = nn.Linear(dim, 3 * dim, bias=bias)
        self.score = nn.Linear(dim, heads * rank, bias=False) if rank else None
        self.proj = nn.Linear(dim, dim, bias=bias)
        per_head = not as_released if norm_per_head is None else norm_per_head
        width = dim // heads if per_head else dim
        long = rank or (class_token and as_released)
        self.local_norm = nn.LayerNorm(width, eps=eps) if dual_norm else None
        self.global_norm = nn.LayerNorm(width, eps=eps) if dual_norm and long else None
        self.form = Form(heads, window, rank, class_token, eps, as_released)

    def forward(self, x: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """Return (B, n, D) for x (B, n, D), class token first if there is one; mask: bool (B, n), True = real."""
        self._check(x, mask)
        if mask is not None:
            x = x.masked_fill(~mask[..., None], 0)
        drop = self.attention_dropout if self.training else 0.0
        queries, pairs = heads_first(self.qkv(x), self.heads)
        scores = None if self.score is None else wide(self.score(x[:, self.class_token :]))
        with full_precision(x):
            given = queries, pairs, scores, mask, self.norms, self.form
            own = self.fused and not torch.compiler.is_compiling()
            found = attend(*given, attention_dropout=drop, fused=own)
            if self.class_token and self.as_released:
                keys, values = (torch.cat([one[:, :, :1], found], 2) for one in pairs)
                found = torch.cat([attend_one_query(queries[:, :, :1], keys, values, mask, drop), found], 2)
            mixed = merge(found).to(x.dtype)
        if mask is not None:
            mixed = mixed.masked_fill(~mask[..., None], 0)
        return dropout(self.proj(mixed), self.dropout, self.training)

    @property
    def norms(self) -> Norms:
        """Return weights and biases of LN_L and LN_G."""
        return Norms(
            *(
                None if norm is None else getattr(norm, name)
                for norm in (self.local_norm, self.global_norm)
                for name in ("weight", "bias")
            )
        )

    def _check(self, x: Tensor, mask: Tensor | None) -> None:
        least = 1 + self.class_token
        if x.dim() != 3 or x.shape[-1] != self.dim or x.shape[1] < least:
            raise ValueError(f"x: shape {tuple(x.shape)} (allowed: (B, n, {self.dim}) with n >= {least})")
        if mask is None:
            return
        if mask.dtype != torch.bool:
            raise ValueError(f"mask: dtype {mask.dtype} (allowed: torch.bool, True = real)")
        if mask.shape != x.shape[:2]:
            raise ValueError(f"mask: shape {tuple(mask.shape)} (allowed: {tuple(x.shape[:2])})")
        empty = ~mask[:, self.class_token :].any(1)
        if torch.compiler.is_compiling():  # a graph can only assert, without naming the sequence
            torch._assert_async(
                ~empty.any(), "mask: a sequence is all padding (allowed: a real token in each)"
            )
            if self.class_token:
                torch._assert_async(mask[:, 0].all(), "mask: a class token is padding (allowed: real)")
            return
        if mask.is_meta:
            return
        if empty.any():
            raise ValueError(
                f"mask: sequence {int(empty.nonzero()[0])} is all padding (allowed: at least one real token)"
            )
        if self.class_token and not mask[:, 0].all():
            raise ValueError(
                f"mask: class token of sequence {int((~mask[:, 0]).nonzero()[0])} is padding (allowed: real)"
            )

    def extra_repr(self) -> str:
        return f"heads={self.heads}, window={self.window}, rank={self.rank}, class_token={self.class_token}"
