r"""The largest singular value of a map that is known by its products alone, with a certificate.

Golub and Kahan's bidiagonalisation with full reorthogonalisation, restarted from the best vector found. After k pairs of products
there are orthonormal :math:`U_k, V_{k+1}` with :math:`J^\top U_k = V_{k+1} B^\top`, B of size k x (k + 1) and bidiagonal. With
:math:`(\sigma, a, b)` the largest singular triple of B,

.. math:: u = U_k a, \quad v = V_{k+1} b, \quad J^\top u = \sigma v, \quad r = \|J v - \sigma u\|_2

so that :math:`\sigma = \|J^\top u\|_2 \le \|J\|_2` always, and some singular value of J lies within r of σ. k = 1 is power iteration
(kim2020, equation 11); larger k needs fewer products where singular values lie close together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

REACH = 1e-3  # share of chance in a start that the caller gives: it may be orthogonal to the vector sought


@dataclass(frozen=True)
class SingularValue:
    """A lower bound on the norm of a map, and how good it is.

    Attributes:
        value: σ, never above the norm but by rounding.
        iterations: pairs of products used.
        converged: ``residual`` is at most the tolerance.
        residual: r/σ.
        left, right: u and v of unit length; None for a map that is 0.
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
    """σ of v ↦ ``push(v)``, u ↦ ``pull(u)`` for flat vectors.

    Args:
        start: (n,), where to begin; a little chance is added to it.
        tolerance: the relative residual wanted.
        iterations: the most pairs of products.
        basis: k, pairs between two restarts; it keeps 2k + 1 vectors.
        generator: of the chance, on the CPU.

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
        if sigma == 0:  # the start was rounding's own: J v without Jᵀ of it
            return SingularValue(0.0, count, True, 0.0)
        u = _combined(lefts, a[:, 0])
        v = _combined(rights, b[0])


def _bidiagonal(
    push: Callable[[Tensor], Tensor],
    pull: Callable[[Tensor], Tensor],
    v: Tensor,
    u: Tensor,
    alpha: float,
    basis: int,
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """U_k, V_{k+1} and B, for J v = alpha u; k is less than ``basis`` where the vectors span all there is to reach."""
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
    """w less its part in the span; twice, as once leaves rounding errors as large as what is left."""
    for _ in range(2):
        for one in basis:
            w = w - (one @ w) * one
    return w


def _combined(vectors: list[Tensor], weights: Tensor) -> Tensor:
    total = torch.zeros_like(vectors[0])
    for vector, weight in zip(vectors, weights.tolist()):
        total = total + weight * vector
    return total / total.norm()


def _length(w: Tensor) -> float:
    length = float(w.norm())
    if not math.isfinite(length):
        raise ValueError(f"a product with the Jacobian has norm {length}; allowed: finite numbers")
    return length
