r"""Largest singular value, with a certificate, of a linear map that is available only through products.

Golub-Kahan bidiagonalisation with full reorthogonalisation, restarted from the best vector found. After k pairs of products
there are orthonormal :math:`U_k, V_{k+1}` with :math:`J^\top U_k = V_{k+1} B^\top`, where B is k x (k + 1) and bidiagonal. With
the largest singular triple :math:`(\sigma, a, b)` of B,

.. math:: u = U_k a, \quad v = V_{k+1} b, \quad J^\top u = \sigma v, \quad r = \|J v - \sigma u\|_2

so :math:`\sigma = \|J^\top u\|_2 \le \|J\|_2` always, and some singular value of J lies within r of σ. k = 1 is power iteration
(kim2020, equation 11); larger k needs fewer products if singular values are close together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

REACH = 1e-3  # random component added to a given start, which might be orthogonal to the wanted vector


@dataclass(frozen=True)
class SingularValue:
    """A lower bound on the norm of a map, and its accuracy.

    Attributes:
        value: σ, never above the norm except by rounding.
        iterations: number of product pairs used.
        converged: whether ``residual`` is at most the tolerance.
        residual: r/σ.
        left, right: u and v of unit length; None for the zero map.
    """

    value: float
    iterations: int
    converged: bool
    residual: float
    left: Tensor | None = None
    right: Tensor | None = None


def largest_singular_value(
    push: Callable[[Tensor], Tensor],
    pull: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    tolerance: float,
    iterations: int,
    basis: int,
    generator: torch.Generator,
) -> SingularValue:
    """Return σ of v ↦ ``push(v)``, u ↦ ``pull(u)`` for flat vectors.

    Args:
        start: (n,), initial vector; a small random component is added to it.
        tolerance: target relative residual.
        iterations: maximum number of product pairs.
        basis: k, pairs between two restarts; 2k + 1 vectors are stored.
        generator: CPU generator of the random component.

    Raises:
        ValueError: products that are not finite.
    """
    chance = torch.randn(start.shape, generator=generator, dtype=torch.float64).to(start)
    chance = chance / chance.norm()
    v = chance if start.norm() == 0 else start / start.norm() + REACH * chance
    v = v / v.norm()
    sigma, residual, count = 0.0, math.inf, 0
    u: Tensor | None = None
    while True:
        w = push(v)
        length = _length(w)
        if u is None and length == 0:
            return SingularValue(0.0, count, True, 0.0)
        if u is not None:
            residual = float((w - sigma * u).norm()) / sigma
            if residual <= tolerance or count >= iterations:
                return SingularValue(sigma, count, residual <= tolerance, residual, u, v)
        lefts, rights, matrix = _bidiagonal(push, pull, v, w / length, length, min(basis, iterations - count))
        count += len(lefts)
        a, s, b = torch.linalg.svd(matrix)
        sigma = float(s[0])
        if sigma == 0:  # J v was nonzero only by rounding
            return SingularValue(0.0, count, True, 0.0)
        u = _combine(lefts, a[:, 0])
        v = _combine(rights, b[0])


def _bidiagonal(
    push: Callable[[Tensor], Tensor],
    pull: Callable[[Tensor], Tensor],
    v: Tensor,
    u: Tensor,
    alpha: float,
    basis: int,
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Return U_k, V_{k+1} and B, for J v = alpha u; k is less than ``basis`` if the vectors span the whole reachable space."""
    rights, lefts, alphas = [v], [u], [alpha]
    betas: list[float] = []
    least = 16 * torch.finfo(v.dtype).eps
    while True:
        w = _without(pull(lefts[-1]), rights)
        beta = _length(w)
        scale = max(*alphas, *betas, beta)
        if beta <= least * scale:
            betas.append(0.0)
            rights.append(torch.zeros_like(v))
            break
        betas.append(beta)
        rights.append(w / beta)
        if len(lefts) == basis:
            break
        w = _without(push(rights[-1]), lefts)
        alpha = _length(w)
        if alpha <= least * scale:
            break
        alphas.append(alpha)
        lefts.append(w / alpha)
    k = len(lefts)
    matrix = torch.zeros(k, k + 1, dtype=torch.float64)
    matrix[range(k), range(k)] = torch.tensor(alphas, dtype=torch.float64)
    matrix[range(k), range(1, k + 1)] = torch.tensor(betas, dtype=torch.float64)
    return lefts, rights, matrix


def _without(w: Tensor, basis: list[Tensor]) -> Tensor:
    """Remove from w its projection onto the span; twice, since once leaves rounding errors as large as the remainder."""
    for _ in range(2):
        for one in basis:
            w = w - (one @ w) * one
    return w


def _combine(vectors: list[Tensor], weights: Tensor) -> Tensor:
    total = torch.zeros_like(vectors[0])
    for vector, weight in zip(vectors, weights.tolist()):
        total = total + weight * vector
    return total / total.norm()


def _length(w: Tensor) -> float:
    length = float(w.norm())
    if not math.isfinite(length):
        raise ValueError(f"a product with the Jacobian has norm {length}; allowed: finite numbers")
    return length
