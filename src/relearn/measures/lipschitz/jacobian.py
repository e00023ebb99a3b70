r"""Jacobian of any function or module at a point, and its norm for p = 2 and p = ∞, a lower bound on a Lipschitz constant.

.. math:: \mathrm{Lip}_p(f) = \sup_x \|J_f(x)\|_p, \qquad \|J\|_2 = \sigma_{\max}(J), \qquad
          \|J\|_\infty = \max_i \sum_j |J_{ij}|

Inputs and outputs of any shape are treated as flat vectors (kim2020, equation 2 and theorem 2.1). Facts
(tests/measures/lipschitz/test_jacobian.py): both methods agree with dense linear algebra on attention, convolutions and
functions that torch cannot differentiate in forward mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from relearn.maths.operator_norm import changing
from relearn.measures.lipschitz.products import Products
from relearn.measures.lipschitz.singular_value import largest_singular_value

DENSE = 1 << 16  # maximum number of entries of a Jacobian that ``auto`` writes out
ROWS = 32  # rows computed at a time; more hardly saves time, and each needs the memory of f's backward pass


@dataclass(frozen=True)
class JacobianNorm:
    """The norm of one Jacobian.

    Attributes:
        value: exact, or for ``free`` and p = 2 a lower bound within ``residual`` (relative) of some singular value.
        iterations: number of product pairs (p = 2, free), otherwise number of computed Jacobian rows.
        converged: whether the residual is within the tolerance; always true for exact values.
        residual: ‖Jv - σu‖₂/σ; 0 for exact values.
        direction: v with the shape of x, the right singular vector (p = 2, free), to warm-start the next search.
    """

    value: float
    iterations: int
    converged: bool
    residual: float
    direction: Tensor | None = None


def require_fixed(f: Callable[[Tensor], Tensor]) -> None:
    """ValueError for a module that draws or uses statistics of the batch; what other callables draw is not seen."""
    if isinstance(f, nn.Module) and (why := changing(f)):
        raise ValueError(f"f: {why}")


def jacobian(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return all ∂f(x)_i/∂x_j, (f(x).numel(), x.numel()), by ``torch.func.jacrev``.

    Functions that ``torch.func`` does not support (old custom autograd functions, kernels without a batching rule) are differentiated
    row by row.

    Raises:
        ValueError: what :func:`require_fixed` rejects.
    """
    require_fixed(f)
    x = x.detach()
    try:
        found = torch.func.jacrev(f, chunk_size=ROWS)(x)
    except RuntimeError:
        found = torch.cat(list(Products(f, x).rows(1)))
    return found.detach().reshape(-1, x.numel())


def jacobian_norm(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    p: str = "two",
    *,
    method: str = "auto",
    tolerance: float = 1e-4,
    iterations: int = 500,
    basis: int = 8,
    block: int = ROWS,
    start: Tensor | None = None,
    mode: str = "auto",
    seed: int = 0,
) -> JacobianNorm:
    r"""‖J_f(x)‖_p at one point, for any function from a tensor to a tensor.

    =========  ==================================================================  ========================================
    ``free``   method                                                              memory in addition to f's derivatives
    =========  ==================================================================  ========================================
    p = two    Golub-Kahan-Lanczos on Jv and Jᵀu, restarted                        ``2 basis + 1`` vectors
    p = inf    rows of J, ``block`` at a time, are summed and discarded            ``block`` times x and f's graph
    =========  ==================================================================  ========================================

    Args:
        f: a module in eval mode, or any callable that draws nothing; computed in the precision of x.
        x: any shape, floating point.
        p: "two" or "inf".
        method: "exact" (the whole Jacobian), "free" (never stored), or "auto": exact up to 2^16 entries.
        tolerance: relative residual below which p = two counts as converged, see
            :mod:`~relearn.measures.lipschitz.singular_value`. In float32 not much less than 1e-5 is attainable.
        iterations: maximum number of product pairs. If they do not suffice, this is reported in the result, not raised.
        basis: number of pairs between two restarts; 1 is power iteration.
        block: number of rows computed at a time.
        start: initial guess of the right singular vector, with the shape of x.
        mode: how products are computed, see :mod:`~relearn.measures.lipschitz.products`.
        seed: seed of the random start.

    Raises:
        ValueError: an unknown p, method or mode; a number out of range; products that are not finite; what
            :func:`require_fixed` rejects.
    """
    require_fixed(f)
    for name, word, allowed in (("p", p, ("two", "inf")), ("method", method, ("auto", "exact", "free"))):
        if word not in allowed:
            raise ValueError(f"{name}: {word!r} (allowed: {', '.join(allowed)})")
    if tolerance <= 0 or iterations < 1 or basis < 1 or block < 1:
        found = f"tolerance {tolerance}, iterations {iterations}, basis {basis}, block {block}"
        raise ValueError(f"{found} (allowed: a positive tolerance, at least 1 of the others)")
    if method == "auto":
        with torch.no_grad():
            outputs = f(x).numel()
        method = "exact" if outputs * x.numel() <= DENSE else "free"
    if method == "exact":
        return _exact(jacobian(f, x), p)
    products = Products(f, x, mode)
    if p == "inf":
        return _by_rows(products, block)
    best = largest_singular_value(
        lambda v: products.push(v.view(x.shape)).reshape(-1),
        lambda u: products.pull(u.view(products.output.shape)).reshape(-1),
        (torch.zeros_like(x) if start is None else start.to(x)).reshape(-1),
        tolerance=tolerance,
        iterations=iterations,
        basis=basis,
        generator=torch.Generator().manual_seed(seed),
    )
    direction = None if best.right is None else best.right.view(x.shape)
    return JacobianNorm(best.value, best.iterations, best.converged, best.residual, direction)


def _exact(matrix: Tensor, p: str) -> JacobianNorm:
    matrix = matrix.to(torch.promote_types(matrix.dtype, torch.float32))  # torch has no half-precision SVD
    _finite(float(matrix.abs().max()))
    norm = matrix.abs().sum(1).max() if p == "inf" else torch.linalg.matrix_norm(matrix, 2)
    return JacobianNorm(_finite(float(norm)), len(matrix), True, 0.0)


def _by_rows(products: Products, block: int) -> JacobianNorm:
    sums = torch.cat([rows.abs().sum(1) for rows in products.rows(block)])
    return JacobianNorm(_finite(float(sums.max())), len(sums), True, 0.0)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"the norm of the Jacobian is {value}; allowed: finite derivatives")
    return value
