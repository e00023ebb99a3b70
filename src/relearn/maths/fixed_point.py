r"""Inverse of x + c f(x) by Banach's fixed-point iteration, for each sample separately.

.. math:: g(x) = x + c f(x) = y, \qquad x_0 = y, \qquad x_{k+1} = y - c f(x_k)

If f has the Lipschitz constant L in the chosen norm and the rate is :math:`\rho = c L < 1`, then g is a bijection. With
the residual :math:`r_k = \|x_{k+1} - x_k\| = \|y - g(x_k)\|`,

.. math:: \|x_k - x\| \le \rho^k\, \|x_0 - x\| \quad\text{and}\quad \|x_k - x\| \le r_k / (1 - \rho).

Behrmann et al. 2019 (i-ResNet), section 2; kim2020, section 4.1. Facts: tests/maths/test_fixed_point.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

NORMS = {"inf": math.inf, "two": 2.0, "one": 1.0}


@dataclass(frozen=True)
class FixedPoint:
    r"""Result of the iteration, for B samples; K is the number of updates of the slowest sample.

    ``x``: the last iterate, of the shape of y.
    ``residuals``: (K + 1, B), :math:`\|y - g(x_k)\|`, k = 0..K; the last row belongs to ``x``.
    ``errors``: (K + 1, B), :math:`\|x_k - x\|`; None if the true x is unknown.
    ``updates``: (B,), number of updates of each sample.
    ``converged``: (B,), whether the last residual is at most the tolerance.
    A sample whose next iterate is not finite keeps its last finite one, and its residual is infinite from then on.
    """

    x: Tensor
    residuals: Tensor
    errors: Tensor | None
    updates: Tensor
    converged: Tensor


def solve(
    f: Callable[[Tensor], Tensor],
    y: Tensor,
    *,
    c: float = 1.0,
    iterations: int = 50,
    tolerance: float = 0.0,
    start: Tensor | None = None,
    truth: Tensor | None = None,
    norm: str = "inf",
    batched: bool = True,
) -> FixedPoint:
    """Iterate x <- y - c f(x) without gradients. Every call of f receives all samples and must treat them independently.

    Args:
        f: maps a tensor of the shape of y to one of the same shape.
        y: (B, ...) or, with ``batched=False``, one sample of any shape.
        iterations: maximum number of updates. f is called once more, for the residual of the last iterate.
        tolerance: a sample stops at the first iterate whose residual is at most this; 0 stops only at an exact fixed point.
        start: x_0; default y.
        truth: the true x, used to compute the errors.
        norm: norm of a sample: ``inf`` largest entry, ``two`` Euclidean, ``one`` sum of absolute entries.

    Raises:
        ValueError: y, start or truth has a wrong shape or is not finite, f(x) has another shape, a count or tolerance is negative,
            or the norm is unknown.
    """
    _check(y, c, iterations, tolerance, norm, batched)
    x = y if start is None else _like(start, y, "start")
    known = None if truth is None else _like(truth, y, "truth")
    residuals, errors = [], []
    with torch.no_grad():
        y, x = y.detach(), x.detach().clone()
        residual = torch.full_like(sizes(y, norm, batched), math.inf)
        moving = torch.ones_like(residual, dtype=torch.bool)
        updates = torch.zeros_like(residual, dtype=torch.long)
        for k in range(iterations + 1):
            value = f(x)
            if value.shape != y.shape:
                raise ValueError(f"f(x): shape {tuple(value.shape)} (allowed: that of y, {tuple(y.shape)})")
            new = y - c * value
            step = sizes(new - x, norm, batched).nan_to_num(nan=math.inf, posinf=math.inf)
            residual = torch.where(moving, step, residual)
            residuals.append(residual)
            if known is not None:
                errors.append(sizes(x - known, norm, batched))
            moving = moving & (residual > tolerance) & residual.isfinite()
            if k == iterations or not bool(moving.any()):
                break
            x = torch.where(moving.reshape(-1, *[1] * (y.dim() - 1)) if batched else moving, new, x)
            updates += moving
    return FixedPoint(
        x, torch.stack(residuals), torch.stack(errors) if errors else None, updates, residual <= tolerance
    )


def updates_for(rate: float, tolerance: float, first: float = 1.0) -> int:
    r"""Return a guaranteed sufficient number of updates: the least k with :math:`\rho^k\, r_0 / (1 - \rho) \le` tolerance.

    Args:
        rate: ρ = c L, below 1.
        tolerance: bound on the error :math:`\|x_k - x\|`, positive.
        first: residual r_0 of x_0 (for x_0 = y: :math:`\|c f(y)\|`).

    Raises:
        ValueError: a rate outside [0, 1), a tolerance that is not positive, or a first residual that is negative or not finite.
    """
    require_contraction(rate)
    if not 0 < tolerance < math.inf:
        raise ValueError(f"tolerance: {tolerance} (allowed: positive)")
    if not 0 <= first < math.inf:
        raise ValueError(f"first: {first} (allowed: 0 or more)")
    needed = tolerance * (1 - rate)
    if first <= needed:
        return 0
    return 1 if rate == 0 else math.ceil(math.log(needed / first) / math.log(rate))


def require_contraction(rate: float) -> float:
    """Return the rate if it is in [0, 1).

    Raises:
        ValueError: it is not, so neither the inverse of x + c f(x) nor the convergence of the iteration is guaranteed.
    """
    if not 0 <= rate < 1:
        raise ValueError(
            f"c times the Lipschitz constant: {rate:.6g} (allowed with a guarantee: 0 <= rate < 1)"
        )
    return rate


def sizes(x: Tensor, norm: str, batched: bool = True) -> Tensor:
    """Return the norm of every sample, (B,), or of the whole tensor, ()."""
    flat = x.reshape(len(x), -1) if batched else x.reshape(-1)
    return torch.linalg.vector_norm(flat, NORMS[norm], dim=-1)


def _check(y: Tensor, c: float, iterations: int, tolerance: float, norm: str, batched: bool) -> None:
    if norm not in NORMS:
        raise ValueError(f"norm: {norm!r} (allowed: {', '.join(NORMS)})")
    if not y.is_floating_point():
        raise ValueError(f"y: dtype {y.dtype} (allowed: floating point)")
    if y.numel() == 0 or (batched and y.dim() < 1):
        raise ValueError(f"y: shape {tuple(y.shape)} (allowed: at least one sample, none empty)")
    if not bool(y.isfinite().all()):
        raise ValueError("y: holds NaN or infinity (allowed: finite)")
    if not math.isfinite(c):
        raise ValueError(f"c: {c} (allowed: finite)")
    if iterations < 0:
        raise ValueError(f"iterations: {iterations} (allowed: 0 or more)")
    if not tolerance >= 0:
        raise ValueError(f"tolerance: {tolerance} (allowed: 0 or more)")


def _like(x: Tensor, y: Tensor, name: str) -> Tensor:
    if x.shape != y.shape:
        raise ValueError(f"{name}: shape {tuple(x.shape)} (allowed: that of y, {tuple(y.shape)})")
    if not bool(x.isfinite().all()):
        raise ValueError(f"{name}: holds NaN or infinity (allowed: finite)")
    return x.to(y)
