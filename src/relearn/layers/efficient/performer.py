"""Performer: softmax attention by positive orthogonal random features (FAVOR+).

Choromanski et al., "Rethinking Attention with Performers" (2021), section 2.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from relearn.layers.efficient.linear import weighted
from relearn.layers.efficient.token_attention import TokenAttention, emptied, full_precision, wide


class PerformerAttention(TokenAttention):
    r"""Attention whose weights are, in the mean over the draws, those of the softmax.

    .. math::
        \phi(z) = \tfrac{1}{\sqrt m} \big[e^{\omega_r \cdot z - |z|^2 / 2 - c} + \epsilon\big]_{r=1..m}, \qquad
        E_\omega[\phi(z) \cdot \phi(z')] = e^{z \cdot z' - c - c'} \quad (\epsilon = 0)

    of z = q/w^{1/4} and k/w^{1/4}, in :func:`~relearn.layers.efficient.linear.weighted`'s quotient, where every c cancels
    but for ε: c is the largest exponent of a query, and of all keys of a sequence and head, so that nothing overflows.

    ω: ``features`` rows, drawn in blocks of w orthogonal directions with the lengths of normal vectors; one draw for all heads. It is a
    buffer, kept in the state, and drawn anew only by :meth:`redraw`. (The benchmark's code of Xiong et al. runs the authors'
    "generalised" form, with relu instead of the exponential; this is the form of the paper's section 2.)

    Facts (tests/layers/efficient/test_performer.py): equals the n x n formula with the same ω; rows of a block are orthogonal; with many
    draws the mean kernel is the exponential.

    Args:
        dim, heads, max_length, dropout, bias: see :class:`~relearn.layers.efficient.token_attention.TokenAttention`;
            ``dropout`` acts on nothing, for no weight is formed.
        features: m a head, 256 in zhu2022's table 5.1.
        eps: ε.

    Raises:
        ValueError: fewer than one feature, a negative eps; what the base class refuses.
    """

    omega: Tensor

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        max_length: int,
        features: int = 256,
        eps: float = 1e-4,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(dim, heads, max_length=max_length, dropout=dropout, bias=bias)
        if features < 1:
            raise ValueError(f"features: {features} (allowed: at least 1)")
        if eps < 0:
            raise ValueError(f"eps: {eps} (allowed: 0 or more)")
        self.features, self.eps = features, eps
        self.register_buffer("omega", orthogonal_rows(features, self.width))

    def redraw(self) -> None:
        """Draw ω anew, from torch's global generator."""
        self.omega.copy_(orthogonal_rows(self.features, self.width))

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = self.project(x)
        with full_precision(x):
            q, k = (wide(one) / self.width**0.25 for one in (q, k))
            omega = self.omega.to(q.dtype)
            asked, held = exponents(q, omega), exponents(k, omega)
            asked = asked - asked.amax(3, keepdim=True)
            if mask is not None:
                held = held.masked_fill(~mask[:, None, :, None], -torch.inf)
            held = held - held.amax((2, 3), keepdim=True)
            factor = 1 / math.sqrt(self.features)
            asked, held = (factor * (one.exp() + self.eps) for one in (asked, held))
            return weighted(asked, emptied(held, mask), wide(emptied(v, mask))).to(x.dtype)


def exponents(z: Tensor, omega: Tensor) -> Tensor:
    """ω z - |z|²/2, (B, H, n, m)."""
    return z @ omega.T - z.square().sum(-1, keepdim=True) / 2


def orthogonal_rows(rows: int, width: int) -> Tensor:
    """Rows (rows, width), each N(0, 1) in its distribution, orthogonal within each block of ``width``."""
    blocks = [torch.linalg.qr(torch.randn(width, width)) for _ in range(-(-rows // width))]
    # the sign of R's diagonal makes Q uniform among the orthogonal matrices
    directions = torch.cat([(q * r.diagonal().sign()).T for q, r in blocks])[:rows]
    return directions * torch.randn(rows, width).norm(dim=1, keepdim=True)
