r"""Attention of tokens to a memory of another width, with dot products or squared distances as logits."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from relearn.layers.l2_attention import central_token
from relearn.layers.on_device import full_precision, wide
from relearn.layers.self_attention import check_heads, check_mask, merge, with_bias

Logits = Literal["dot_product", "l2"]


class CrossAttention(nn.Module):
    r"""Multi-head cross-attention.

    .. math::
        F(X, Y, Z) = [P^h Z W^{V,h}]_{h=1..H}\, W^O, \qquad
        P^h_{ij} = \mathrm{softmax}_j(\ell(x_i^\top W^{Q,h}, y_j^\top W^{K,h})), \qquad s = \sqrt{D/H}

    ===============  ===========================================  ==========================================
    ``logits``       :math:`\ell(q, k)`                           source
    ===============  ===========================================  ==========================================
    ``dot_product``  :math:`q \cdot k / s`                        Vaswani et al. 2017, section 3.2.2
    ``l2``           :math:`-\|q - k\|_2^2 / s`                   kim2020, equation 10, with a memory as keys
    ===============  ===========================================  ==========================================

    ======  =====================  ==========  ================
    symbol  meaning                code        shape
    ======  =====================  ==========  ================
    X       source of queries      ``x``       (B, T, D)
    Y       source of keys         ``keys``    (B, S, ``kdim``)
    Z       source of values       ``values``  (B, S, ``vdim``)
    ======  =====================  ==========  ================

    Neither form has a Lipschitz constant, so there is no contractive one. In tied L2 self-attention a token sees itself at
    distance 0, which bounds the covariance of the keys under its probabilities (kim2020, theorem 3.2). A query does not see
    itself in a memory. With two keys at distance r and a query half-way between them, the derivative grows like r².

    Args:
        dim: width D of queries and output, a multiple of ``heads``.
        heads: H.
        logits: see above.
        kdim, vdim: widths of keys and values; None: D.
        dropout: probability of dropping an attention weight, in training mode.
        bias: whether the four maps have biases.

    Raises:
        ValueError: an invalid size, probability or ``logits``; in a call, wrong shapes, or a mask that is not boolean, does not
            broadcast to (B, H, T, S), or hides everything from a query.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        logits: Logits = "dot_product",
        kdim: int | None = None,
        vdim: int | None = None,
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        super().__init__()
        check_heads(dim, heads, dropout)
        if logits not in get_args(Logits):
            raise ValueError(f"logits: {logits!r} (allowed: {', '.join(get_args(Logits))})")
        self.dim, self.heads, self.logits, self.dropout = dim, heads, logits, dropout
        self.kdim, self.vdim = dim if kdim is None else kdim, dim if vdim is None else vdim
        if min(self.kdim, self.vdim) < 1:
            raise ValueError(f"kdim, vdim: {self.kdim}, {self.vdim} (allowed: at least 1)")
        self.beta = (dim // heads) ** -0.5 * (2 if logits == "l2" else 1)
        self.q = nn.Linear(dim, dim, bias=bias)
        self.k = nn.Linear(self.kdim, dim, bias=bias)
        self.v = nn.Linear(self.vdim, dim, bias=bias)
        self.out = nn.Linear(dim, dim, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the maps Xavier-uniformly and the biases with 0."""
        for name, parameter in self.named_parameters():
            nn.init.zeros_(parameter) if name.endswith("bias") else nn.init.xavier_uniform_(parameter)

    def forward(
        self, x: Tensor, keys: Tensor, values: Tensor | None = None, *, mask: Tensor | None = None
    ) -> Tensor:
        """Return the output (B, T, D); ``values`` None: the keys; ``mask``: boolean, True = visible."""
        values = keys if values is None else values
        q, k, bias, seen = self._logits(x, keys, values, mask)
        v = self._split(self.v(values))
        width = v.shape[-1]
        if bias is not None:
            q, k, v = with_bias(q, k, bias, v)
        p = self.dropout if self.training else 0.0
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=p, scale=self.beta)
        return self.out(merge(mixed[..., :width]))

    def probabilities(self, x: Tensor, keys: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """Return the attention weights (B, H, T, S) before dropout; rows sum to 1."""
        q, k, bias, seen = self._logits(x, keys, None, mask)
        with full_precision(q):  # autocast would cast the product back to half precision
            q, k = wide(q), wide(k)
            logits = q @ k.mT if bias is None else q @ k.mT + bias
            if seen is not None:
                logits = logits.masked_fill(~seen, -torch.inf)
            return (self.beta * logits).softmax(-1)

    def _logits(
        self, x: Tensor, keys: Tensor, values: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Return queries, keys, one number b per key or None (logits: beta (q k + b)), and the mask with four axes."""
        self._check("x", x, self.dim)
        self._check("keys", keys, self.kdim)
        if values is not None:
            self._check("values", values, self.vdim)
            if values.shape[1] != keys.shape[1]:
                raise ValueError(
                    f"values: {values.shape[1]} tokens (allowed: as many as keys, {keys.shape[1]})"
                )
        seen = None
        if mask is not None:
            full = (x.shape[0], self.heads, x.shape[1], keys.shape[1])
            seen = check_mask(mask, full, causal=False, must_see_itself=False)
        if self.logits == "dot_product":
            return self._split(self.q(x)), self._split(self.k(keys)), None, seen
        # Distances are invariant under shifts, but float32 arithmetic is not: keys and queries are taken relative to one key.
        centre = central_token(keys, seen, False).detach()
        k = self._split(linear(keys - centre, self.k.weight))
        q = self._split(self.q(x) - self.k(centre))
        return q, k, wide(k).square().sum(-1).unsqueeze(-2) / -2, seen

    def _check(self, name: str, x: Tensor, width: int) -> None:
        if x.dim() != 3 or x.shape[2] != width or x.shape[1] == 0:
            raise ValueError(f"{name}: shape {tuple(x.shape)} (allowed: (B, N, {width}) with N >= 1)")

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, logits={self.logits}, kdim={self.kdim}, vdim={self.vdim}"
