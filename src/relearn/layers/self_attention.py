r"""Base class of the multi-head self-attentions: heads, masks, and two ways to compute the layer.

A layer has logits :math:`\beta\,(q_i \cdot k_j + b_j)` for token i attending to token j: the dot product has no b,
the squared distance has :math:`b_j = -|k_j|^2/2` (its other square, :math:`|q_i|^2`, is constant along a row and cancels
in the softmax).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, linear, pad, scaled_dot_product_attention

from relearn.layers.on_device import full_precision, wide


class SelfAttention(nn.Module):
    r"""Multi-head self-attention; subclasses define the kernel.

    .. math:: y_i = [\sum_j \mathrm{softmax}_j(\beta (q_i \cdot k_j + b_j))\, v_j + r]_{h=1..H}\, W^O

    ======  =====================  ==========  ==============
    symbol  meaning                code        shape
    ======  =====================  ==========  ==============
    x       tokens                 ``x``       (B, N, D)
    q, k    queries and keys       ``q k``     (B, H, N, w)
    v       values                 ``v``       (B, H, N, D/H)
    b       one number per key     ``bias``    (B, H, 1, N)
    r       added to every row     ``rest``    (B, H, 1, D/H)
    β       factor of the logits   ``beta``    a number
    ======  =====================  ==========  ==============

    With ``fused`` (a plain attribute that may be changed at any time) the N x N probabilities are never stored: torch's
    ``scaled_dot_product_attention`` computes them in blocks. It supports only first derivatives in reverse mode. Without
    ``fused`` the layer uses ordinary tensor operations, which ``torch.func`` (jvp, vjp, vmap) and double backward accept.

    ``torch.compile`` and ``torch.export`` trace the layer as one graph. A mask whose values are wrong then makes the graph raise
    ``RuntimeError`` instead of ``ValueError``, because the values are known only when the graph runs.

    Non-finite inputs are not filtered. They make all outputs of their own sequence NaN, even of rows that do not see them (0
    times NaN is NaN), but affect no other sequence.

    A subclass provides ``beta``, the maps ``v`` and ``out``, and :meth:`project`.

    Raises:
        ValueError: ``heads`` does not divide ``dim``; ``dropout`` is outside [0, 1); in a call: no token, wrong shapes, or a
            mask that is not boolean, does not broadcast to (B, H, N, N), or hides everything from a row.
    """

    beta: float
    v: nn.Linear
    out: nn.Linear

    def __init__(self, dim: int, heads: int, dropout: float, fused: bool) -> None:
        super().__init__()
        check_heads(dim, heads, dropout)
        self.dim, self.heads, self.dropout, self.fused = dim, heads, dropout, fused

    def reset_parameters(self) -> None:
        """Initialise the maps Xavier-uniformly (each as one matrix over all heads) and the biases with 0."""
        for name, parameter in self.named_parameters():
            nn.init.zeros_(parameter) if name.endswith("bias") else nn.init.xavier_uniform_(parameter)

    def forward(self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """Return the output, shaped like ``x``, (B, N, D) or (N, D).

        ``mask`` is boolean, True = visible, and broadcasts to (B, H, N, N).
        """
        tokens = self._add_batch_axis(x)
        seen = self._check_mask(mask, tokens, causal)
        q, k, bias, v, rest = self.project(tokens, slice(None), seen, causal)
        mixed = (self._fused if self.fused else self._plain)(q, k, bias, v, seen, causal and mask is None)
        return self._output(mixed, rest, tokens.shape[1], causal or mask is not None).view(x.shape)

    def row(self, x: Tensor, i: int, *, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """Return ``forward(x)[:, i]``, (B, D) or (D,), without ``fused`` and without an N x N tensor."""
        tokens = self._add_batch_axis(x)
        length = tokens.shape[1]
        if not -length <= i < length:
            raise ValueError(f"i: {i} (allowed: a token of {length})")
        seen = self._check_mask(mask, tokens, causal)
        here = i % length
        rows = slice(here, here + 1)
        if seen is not None:
            seen = seen if seen.shape[2] == 1 else seen[:, :, rows]
        elif causal:
            tokens = tokens[:, : here + 1]
        q, k, bias, v, rest = self.project(tokens, rows, seen, causal)
        mixed = self._plain(q, k, bias, v, seen, causal=False)
        y = self._output(mixed, rest, length, causal or mask is not None)
        return y.view(*x.shape[:-2], self.dim)

    def probabilities(self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """Return the attention weights (B, H, N, N) before dropout, for inspection; rows sum to 1."""
        tokens = self._add_batch_axis(x)
        seen = self._check_mask(mask, tokens, causal)
        q, k, bias, *_ = self.project(tokens, slice(None), seen, causal)
        return self._weights(q, k, bias, seen, causal and mask is None)

    def project(
        self, x: Tensor, rows: slice, mask: Tensor | None, causal: bool
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor | None]:
        """Return queries of the tokens ``rows``; keys, b and values of all tokens; r. b and r may be None."""
        raise NotImplementedError

    def split(self, x: Tensor) -> Tensor:
        """Reshape (B, N, H w) to (B, H, N, w)."""
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def _output(self, mixed: Tensor, rest: Tensor | None, length: int, masked: bool) -> Tensor:
        """Apply the last map to mixtures (B, H, T, D/H): (B, T, D)."""
        weight, bias = self._last_map(length, masked)
        y = linear(merge(mixed), weight, bias)
        return y if rest is None else y + linear(merge(rest), weight)

    def _last_map(self, length: int, masked: bool) -> tuple[Tensor, Tensor | None]:
        return self.out.weight, self.out.bias

    @property
    def must_see_itself(self) -> bool:
        """Whether every token must see itself: True for a contractive layer, whose bound holds only then."""
        return False

    def _add_batch_axis(self, x: Tensor) -> Tensor:
        if x.dim() not in (2, 3) or x.shape[-1] != self.dim:
            raise ValueError(f"x: shape {tuple(x.shape)} (allowed: (B, N, {self.dim}) or (N, {self.dim}))")
        if x.shape[-2] == 0:
            raise ValueError(f"x: shape {tuple(x.shape)}, no token (allowed: N >= 1)")
        return x if x.dim() == 3 else x[None]

    def _check_mask(self, mask: Tensor | None, x: Tensor, causal: bool) -> Tensor | None:
        """Return the mask, including the causal one, with four axes; None without a mask, since kernels handle causality."""
        if mask is None:
            return None
        full = (x.shape[0], self.heads, x.shape[1], x.shape[1])
        return check_mask(mask, full, causal=causal, must_see_itself=self.must_see_itself)

    def _weights(
        self, q: Tensor, k: Tensor, bias: Tensor | None, mask: Tensor | None, causal: bool
    ) -> Tensor:
        with full_precision(q):  # autocast would cast the product back to half precision
            q, k = wide(q), wide(k)
            logits = q @ k.mT if bias is None else q @ k.mT + bias
            if causal:
                mask = triangle(q.shape[2], q.device)
            if mask is not None:
                logits = logits.masked_fill(~mask, -torch.inf)
            return (self.beta * logits).softmax(-1)

    def _plain(
        self, q: Tensor, k: Tensor, bias: Tensor | None, v: Tensor, mask: Tensor | None, causal: bool
    ) -> Tensor:
        weights = self._weights(q, k, bias, mask, causal)
        return dropout(weights, self.dropout, self.training).to(v.dtype) @ v

    def _fused(
        self, q: Tensor, k: Tensor, bias: Tensor | None, v: Tensor, mask: Tensor | None, causal: bool
    ) -> Tensor:
        width = v.shape[-1]
        if bias is not None:
            q, k, v = with_bias(q, k, bias, v)
        mixed = scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=causal,
            scale=self.beta,
        )
        return mixed[..., :width]


def with_bias(q: Tensor, k: Tensor, bias: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Extend queries, keys and values such that plain dot products of the new ones are q k + b.

    A key carries b in an extra column, where a query has a 1. A float mask would have the same effect, but fused kernels
    compute no gradient for it. In half precision b takes two columns, its rounded value and the remainder; otherwise its
    rounding error would exceed that of the products. Values are padded with zeros to the same width; off the CPU all three
    are padded to a width that the kernels accept.
    """
    head = bias.mT.to(k.dtype)
    columns = [head]
    if k.dtype in (torch.float16, torch.bfloat16):
        columns.append((bias.mT.float() - head.float()).detach().to(k.dtype))
    width = max(k.shape[-1] + len(columns), v.shape[-1])
    if k.device.type != "cpu":
        width += -width % 8
    more = width - k.shape[-1] - len(columns)
    ones = q.new_ones(()).expand(*q.shape[:-1], len(columns))
    if more:
        columns.append(k.new_zeros(()).expand(*k.shape[:-1], more))
        ones = pad(ones, (0, more))
    return torch.cat([q, ones], -1), torch.cat([k, *columns], -1), pad(v, (0, width - v.shape[-1]))


def check_heads(dim: int, heads: int, dropout: float = 0.0) -> None:
    """Raise ValueError unless ``heads`` divides ``dim`` and ``dropout`` is in [0, 1)."""
    if heads < 1 or dim < 1 or dim % heads:
        raise ValueError(f"heads: {heads} of width {dim} (allowed: a divisor of the width)")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout: {dropout} (allowed: 0 <= p < 1)")


def merge(x: Tensor) -> Tensor:
    """Reshape (B, H, N, w) to (B, N, H w)."""
    return x.transpose(1, 2).flatten(2)


def triangle(length: int, device: torch.device) -> Tensor:
    """Return the causal mask (N, N): token i sees j <= i."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def check_mask(
    mask: Tensor, full: tuple[int, int, int, int], *, causal: bool, must_see_itself: bool
) -> Tensor:
    """Check a boolean mask, add the causal one, and give it four axes that broadcast to ``full`` = (B, H, N, N).

    Raises:
        ValueError: the mask is not boolean or has another shape; a row sees nothing; with ``must_see_itself``, a token is
            hidden from itself.
    """
    if mask.dtype != torch.bool:
        raise ValueError(f"mask: dtype {mask.dtype} (allowed: torch.bool, True = may be seen)")
    shape = (1,) * (4 - mask.dim()) + tuple(mask.shape)
    if len(shape) != 4 or any(found not in (1, wanted) for found, wanted in zip(shape, full)):
        raise ValueError(f"mask: shape {tuple(mask.shape)} (allowed: what broadcasts to {full})")
    mask = mask.reshape(shape)
    if causal:
        mask = mask & triangle(full[3], mask.device)
    refuse_where(~mask.any(-1), "row", "sees nothing (allowed: at least one token a row)")
    if must_see_itself:
        refuse_where(
            ~mask.expand(*mask.shape[:2], *full[2:]).diagonal(dim1=-2, dim2=-1),
            "token",
            "is hidden from itself (allowed in a contractive layer: every token sees itself; its bound does not hold otherwise)",
        )
    return mask


def refuse_where(wrong: Tensor, who: str, why: str) -> None:
    """Raise if an entry of ``wrong`` (B, H, N) is True; a compiled graph raises when it runs, without the row's index.

    Raises:
        ValueError: some entry is True.
    """
    if torch.compiler.is_compiling():
        torch._assert_async(~wrong.any(), f"mask: some {who} {why}")
    elif not wrong.is_meta and wrong.any():
        b, h, i = wrong.nonzero()[0].tolist()
        raise ValueError(f"mask: {who} {i} of sequence {b}, head {h}, {why}")
