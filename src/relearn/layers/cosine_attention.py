"""Scaled cosine similarity attention: queries, keys and values are normalised to (almost) unit length."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from relearn.layers.cosine_core import CosineCore, Form, cosine_attention, normalise
from relearn.layers.on_device import own_backward
from relearn.layers.self_attention import check_heads, merge, refuse_where
from relearn.maths.cosine_bounds import cosine_bound


class CosineAttention(nn.Module):
    r"""Multi-head scaled cosine similarity attention (qi2023, section 4.1.2, appendices A.2 and H).

    .. math::
        \hat u = \frac{u}{\sqrt{\|u\|^2 + \epsilon}}, \qquad
        P^h = \mathrm{softmax}(\tau\, \hat Q^h \hat K^{h\top} + b^h), \qquad
        F(X) = \frac{\nu}{H} [P^1 \hat V^1, \ldots, P^H \hat V^H]\, W^O

    where the rows of Q^h, K^h, V^h are :math:`W^{\top} x_i` (plus a bias) and the hat normalises each row.

    ==========  =========================================  =========  ====================
    symbol      meaning                                    code       shape
    ==========  =========================================  =========  ====================
    Q, K, V     one map; rows of Q, then K, then V         ``qkv``    (3D, D)
    W^O         output                                     ``proj``   (D, D)
    b           position bias, an argument of the call     ``bias``   (H, N, N)
    τ, ν, ε     constants, not learned                     same names
    ==========  =========================================  =========  ====================

    The logits go through torch's ``scaled_dot_product_attention``. On a CPU torch has no fused gradient for a bias, so
    the backward pass is that of :class:`~relearn.layers.cosine_core.CosineCore`; apart from the bias and mask passed by
    the caller, it allocates no N x N tensor over all sequences. With ``fused`` = False (a plain attribute) the layer uses
    ordinary tensor operations, which ``torch.func`` accepts. Norms are computed in float32 for half-precision inputs.

    With normalised values the map is Lipschitz, for any bias and mask
    (:meth:`lipschitz_bound`). The released code differs from the paper: it does not normalise V, uses τ = 10, and has
    neither ν nor 1/H, so its layer has no Lipschitz constant. It corresponds to
    ``normalise_values=False, tau=10.0, average_heads=False``. The paper states neither ν nor ε; 1 and 1e-6 are our choice.

    Args:
        dim: width D, a multiple of ``heads``.
        heads: H.
        tau: τ; 12 in the paper's table 6.
        nu: ν, the factor of the output.
        eps: ε, inside the square root.
        normalise_values: normalise V as well.
        average_heads: apply the factor 1/H (section 4.1.2 scales the heads by one over their number).
        qkv_bias: whether Q, K and V have biases.
        project: apply W^O and its bias; if False, the output is the concatenated heads, as in theorem 1.
        fused: see above.

    Raises:
        ValueError: ``heads`` does not divide ``dim``; τ, ν or ε is not positive; in a call, no token, wrong
            shapes, or a mask that is not boolean or hides everything from a row.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        tau: float = 12.0,
        nu: float = 1.0,
        eps: float = 1e-6,
        normalise_values: bool = True,
        average_heads: bool = True,
        qkv_bias: bool = True,
        project: bool = True,
        fused: bool = True,
    ) -> None:
        super().__init__()
        check_heads(dim, heads)
        for name, value in {"tau": tau, "nu": nu, "eps": eps}.items():
            if not 0 < value < math.inf:
                raise ValueError(f"{name}: {value} (allowed: a positive number)")
        self.dim, self.heads, self.tau, self.nu, self.eps = dim, heads, tau, nu, eps
        self.normalise_values, self.average_heads, self.fused = normalise_values, average_heads, fused
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim) if project else nn.Identity()

    @property
    def form(self) -> Form:
        """The layer's constants in the form expected by :mod:`relearn.layers.cosine_core`."""
        return Form(self.heads, self.tau, self.eps, self.gain, self.normalise_values)

    @property
    def gain(self) -> float:
        """ν/H with ``average_heads``, otherwise ν."""
        return self.nu / self.heads if self.average_heads else self.nu

    def forward(self, x: Tensor, *, bias: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Return the output (B, N, D).

        Args:
            x: tokens (B, N, D).
            bias: added to the logits, (H, N, N); differentiable.
            mask: boolean, True = visible, of shape (N, N) or (W, N, N). W must divide B, and sequence b uses mask b mod
                W (the windows of one image are consecutive). Each row must see at least one token.
        """
        rows = self._rows(x)
        added = self._added(bias, mask, x.shape[0], x.shape[1], rows.dtype)
        if not self.fused:
            return self.proj(cosine_attention(rows, added, self.form))
        if bias is not None and added is not None and own_backward(x):
            return self.proj(CosineCore.apply(rows, added, self.form))
        q, k, v = self._hats(rows)
        batch, heads, length, width = q.shape
        if added is not None:
            if len(added) > 1:
                # windows count as heads, and the batch of images shares one tensor of masks
                q, k, v = (one.reshape(-1, len(added) * heads, length, width) for one in (q, k, v))
            added = added.expand(-1, heads, -1, -1).reshape(1, -1, length, length)
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=added, scale=self.tau)
        return self.proj(merge(mixed.reshape(batch, heads, length, width)) * self.gain)

    def probabilities(self, x: Tensor, *, bias: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Return the attention weights (B, H, N, N), for inspection; rows sum to 1."""
        q, k, _ = self._hats(self._rows(x))
        added = self._added(bias, mask, x.shape[0], x.shape[1], q.dtype)
        logits = self.tau * (q @ k.mT)
        if added is not None:
            logits = logits + added.repeat(x.shape[0] // len(added), 1, 1, 1)
        return logits.softmax(-1)

    def maps(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return W^Q, W^K and W^V, each (H, D, D/H), as differentiable views of the weights."""
        q, k, v = self.qkv.weight.view(3, self.heads, -1, self.dim).mT
        return q, k, v

    def lipschitz_bound(self, length: int, p: str = "two", form: str = "tight") -> Tensor:
        """Return an upper bound on the Lipschitz constant of F for ``length`` tokens, valid for any bias and mask.

        Args:
            length: N.
            p: norm, "two" or "inf".
            form: see :func:`~relearn.maths.cosine_bounds.cosine_bound`; "printed" is not a valid bound for p = inf.

        Raises:
            ValueError: the values are not normalised, or ``p`` or ``form`` is unknown.
        """
        if not self.normalise_values:
            raise ValueError(
                "normalise_values: False (allowed for a bound: True; otherwise there is no Lipschitz constant)"
            )
        more: dict[str, Any] = dict(tau=self.tau, nu=self.gain, eps=self.eps, p=p, form=form)
        wq, wk, wv = (one.double() for one in self.maps())
        wo = self.proj.weight.double().T if isinstance(self.proj, nn.Linear) else None
        return cosine_bound(wq, wk, wv, length, wo=wo, **more)

    def _rows(self, x: Tensor) -> Tensor:
        """Return the rows of Q, K and V, (B, N, 3D)."""
        if x.dim() != 3 or x.shape[-1] != self.dim or x.shape[1] == 0:
            raise ValueError(f"x: shape {tuple(x.shape)} (allowed: (B, N, {self.dim}) with N >= 1)")
        return self.qkv(x)

    def _hats(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return normalised Q and K, and V normalised if required, each (B, H, N, w)."""
        u = rows.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        hats = normalise(u if self.normalise_values else u[:2], self.eps)
        return hats[0], hats[1], hats[2] if self.normalise_values else u[2]

    def _added(
        self, bias: Tensor | None, mask: Tensor | None, batch: int, length: int, dtype: torch.dtype
    ) -> Tensor | None:
        """Return the additive bias and mask of the logits, (W, H or 1, N, N), or None."""
        square = (length, length)
        if bias is not None and tuple(bias.shape) != (self.heads, *square):
            raise ValueError(f"bias: shape {tuple(bias.shape)} (allowed: ({self.heads}, {length}, {length}))")
        added = None if bias is None else bias.to(dtype)[None]
        if mask is None:
            return added
        if mask.dtype != torch.bool:
            raise ValueError(f"mask: dtype {mask.dtype} (allowed: torch.bool, True = may be seen)")
        if (
            mask.dim() not in (2, 3)
            or tuple(mask.shape[-2:]) != square
            or (mask.dim() == 3 and batch % len(mask))
        ):
            raise ValueError(
                f"mask: shape {tuple(mask.shape)} (allowed: ({length}, {length}) or (W, {length}, {length}), W a "
                f"divisor of {batch})"
            )
        windows = mask.view(-1, 1, *square)
        if not mask.is_meta:  # used to count products
            refuse_where(~windows.any(-1), "row", "sees nothing (allowed: at least one token a row)")
        zero = torch.zeros((), dtype=dtype, device=mask.device) if added is None else added
        return torch.where(windows, zero, -torch.inf)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, tau={self.tau}, nu={self.nu}, eps={self.eps}, values={self.normalise_values}"
