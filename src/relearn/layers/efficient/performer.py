"""Performer: softmax attention by positive orthogonal random features (FAVOR+).

Choromanski et al., "Rethinking Attention with Performers" (2021), section 2.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from relearn.layers.efficient.linear import feature_mean
from relearn.layers.efficient.token_attention import TokenAttention, zero_padding
from relearn.layers.on_device import full_precision, wide


class PerformerAttention(TokenAttention):
    r"""Attention whose weights equal the softmax's in expectation over the random features.

    .. math::
        \phi(z) = \tfrac{1}{\sqrt m} \big[e^{\omega_r \cdot z - |z|^2 / 2 - c} + \epsilon\big]_{r=1..m}, \qquad
        E_\omega[\phi(z) \cdot \phi(z')] = e^{z \cdot z' - c - c'} \quad (\epsilon = 0)

    with z = q/w^{1/4} or k/w^{1/4}, inserted into :func:`~relearn.layers.efficient.linear.feature_mean`, where c cancels
    up to ε. c is the largest exponent of each query or, for keys, the largest over a sequence and head; it prevents overflow.

    ω has ``features`` rows, drawn in blocks of w orthogonal directions with the lengths of normal vectors, and is shared by all
    heads. It is a buffer that is saved with the state; only :meth:`redraw` changes it. (The benchmark code of Xiong et al. uses the
    authors' "generalised" form with relu instead of the exponential; this is the form of the paper's section 2.)

    Facts (tests/layers/efficient/test_performer.py): equals the n x n formula with the same ω; rows of a block are orthogonal;
    the kernel averaged over many draws is the exponential.

    Args:
        dim, heads, max_length, dropout, bias: see :class:`~relearn.layers.efficient.token_attention.TokenAttention`;
            ``dropout`` has no effect, because no attention weight is formed.
        features: m, per head; 256 in zhu2022's table 5.1.
        eps: ε.

    Raises:
        ValueError: fewer than one feature, a negative eps, or arguments that the base class rejects.
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
        """Draw a new ω from torch's global generator."""
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
            return feature_mean(asked, zero_padding(held, mask), wide(zero_padding(v, mask))).to(x.dtype)


def exponents(z: Tensor, omega: Tensor) -> Tensor:
    """Return ω z - |z|²/2, (B, H, n, m)."""
    return z @ omega.T - z.square().sum(-1, keepdim=True) / 2


def orthogonal_rows(rows: int, width: int) -> Tensor:
    """Draw a matrix (rows, width) whose rows are N(0, I) marginally and orthogonal within each block of ``width`` rows."""
    blocks = [torch.linalg.qr(torch.randn(width, width)) for _ in range(-(-rows // width))]
    # the sign of R's diagonal makes Q uniform on the orthogonal group
    directions = torch.cat([(q * r.diagonal().sign()).T for q, r in blocks])[:rows]
    return directions * torch.randn(rows, width).norm(dim=1, keepdim=True)
