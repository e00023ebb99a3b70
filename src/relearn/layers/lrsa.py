r"""Lipschitz-regularised self-attention: squared distances divided by the norm of the whole input.

Ye, Ma, Cao and Tang, "Mitigating Transformer Overconfidence via Lipschitz Regularization" (2023), supplement, appendix B.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from relearn.layers.on_device import wide
from relearn.layers.self_attention import SelfAttention
from relearn.maths.lrsa_bounds import output_bound
from relearn.maths.norms import spectral_norm


class LRSA(SelfAttention):
    r"""LRSA (equation 3), in each of H heads.

    .. math::
        S_{ij} = -\alpha\, \frac{\|x_i^\top W_Q - x_j^\top W_K\|_2^2}{q\, m}, \quad
        q = \sqrt{\|X W_Q\|_F^2 + \epsilon^2}, \quad m = \sqrt{\max_l \|x_l\|_2^2 + \epsilon^2}, \quad
        F(X) = [\mathrm{softmax}(S)\, X W_V]_{h=1..H}\, W_O

    ======  ==================================  ==========  ==========
    symbol  meaning                             code        weight
    ======  ==================================  ==========  ==========
    W_Q     queries, D/H columns per head       ``q``       (D, D)
    W_K     keys                                ``k``       (D, D)
    W_V     values                              ``v``       (D, D)
    W_O     output                              ``out``     (D, D)
    ======  ==================================  ==========  ==========

    The rows ``h * w : (h + 1) * w``, w = D/H, of ``q.weight`` are the transpose of head h's W_Q; no map has a bias.
    q is computed per head and m per sequence, both over all tokens. With eps = 0, the paper's form, S is the same
    for X and tX, and all-zero tokens give NaN.

    The supplement specifies neither the value path nor the heads, α and eps; these choices are ours, and so is the bound: the
    layer has no Lipschitz constant, with or without eps, and :meth:`output_bound` holds for the given inputs only (errata, Y2
    to Y5).

    Facts (tests/layers/test_lrsa.py): equals a slow loop over the formula; without eps, F(tX) = t F(X) for t > 0; Jacobians
    stay below the bound; zero, large and tiny inputs give finite outputs and gradients in float32 and bfloat16.

    Args:
        dim: width D, a multiple of ``heads``.
        heads: H.
        alpha: α, which the paper does not state. q grows like √N, so S is of order 1 if α is of order √N.
        eps: ε of both denominators, inside the square root.
        dropout: probability of dropping an attention weight, in training mode.
        fused: see :class:`~relearn.layers.self_attention.SelfAttention`.

    Raises:
        ValueError: alpha is not positive, eps is negative, or the base class rejects an argument; in a call, a mask or
            ``causal`` (both denominators involve every token).
    """

    beta = 1.0

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        alpha: float,
        eps: float = 1e-6,
        dropout: float = 0.0,
        fused: bool = True,
    ) -> None:
        super().__init__(dim, heads, dropout, fused)
        if not 0 < alpha < math.inf:
            raise ValueError(f"alpha: {alpha} (allowed: a positive number)")
        if not 0 <= eps < math.inf:
            raise ValueError(f"eps: {eps} (allowed: 0 or a positive number)")
        self.alpha, self.eps = alpha, eps
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.reset_parameters()

    def project(
        self, x: Tensor, rows: slice, mask: Tensor | None, causal: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        if mask is not None or causal:
            found = "causal: True" if causal else "mask: a tensor"
            raise ValueError(f"{found} (allowed: neither; LRSA's denominators see every token)")
        queries, keys = self.split(self.q(x)), self.split(self.k(x))
        size, longest = self._roots(queries, x)
        # S = 2α (q_i/q)(k_j/m) - α |k_j|²/(q m), up to a constant per row. Each factor is divided by its own denominator, so that
        # none overflows where the other is small.
        near = wide(keys) / longest
        bias = (near * near).sum(-1).unsqueeze(-2) * (-self.alpha * longest / size)
        asked = (2 * self.alpha * wide(queries[:, :, rows]) / size).to(x.dtype)
        return asked, near.to(x.dtype), bias, self.split(self.v(x)), None

    def scores(self, x: Tensor) -> Tensor:
        """Return S of equation 3, (B, H, N, N), for inspection; x (B, N, D) or (N, D)."""
        tokens = self._add_batch_axis(x)
        queries, keys = self.split(self.q(tokens)), self.split(self.k(tokens))
        size, longest = self._roots(queries, tokens)
        gaps = (wide(queries).unsqueeze(3) - wide(keys).unsqueeze(2)).square().sum(-1)
        return -self.alpha * gaps / size / longest

    def denominators(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return q (B, H) and m (B,) of x (B, N, D) or (N, D)."""
        tokens = self._add_batch_axis(x)
        size, longest = self._roots(self.split(self.q(tokens)), tokens)
        return size[..., 0, 0], longest[:, 0, 0, 0]

    def output_bound(self, x: Tensor) -> Tensor:
        r"""Return an upper bound (B,) on the 2-norm of the Jacobian of F at these inputs, without dropout.

        .. math:: \Big(\sum_h L_h^2\, \|W_V^h\|_2^2\Big)^{1/2} \|W_O\|_2

        with L_h from :func:`relearn.maths.lrsa_bounds.output_bound`. Differentiable in the weights and in x.
        """
        size, longest = self.denominators(x)
        wq, wk, wv = (wide(one.weight).unflatten(0, (self.heads, -1)).mT for one in (self.q, self.k, self.v))
        each = output_bound(wq, wk, alpha=self.alpha, q=size, m=longest[:, None], length=x.shape[-2])
        each = each * spectral_norm(wv, check_finite=False)
        return torch.linalg.vector_norm(each, dim=-1) * spectral_norm(
            wide(self.out.weight), check_finite=False
        )

    def _roots(self, queries: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return q (B, H, 1, 1) and m (B, 1, 1, 1), in float32 or better."""
        size = wide(queries).square().sum((-2, -1), keepdim=True)
        longest = wide(x).square().sum(-1).amax(-1)[:, None, None, None]
        return (size + self.eps**2).sqrt(), (longest + self.eps**2).sqrt()
