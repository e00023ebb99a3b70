r"""The log-determinant of I + c J, with J the Jacobian of a map f at a point, for each sample of a batch.

.. math:: \ln |\det(I + c J)| = \sum_{k \ge 1} \frac{(-1)^{k+1}}{k}\, \mathrm{tr}\,(c J)^k

The series converges if :math:`c\,\mathrm{Lip}(f) < 1`; then I + c J has a positive determinant.

=======  ==============================  =========================
symbol   meaning                         code, shape
=======  ==============================  =========================
f        treats samples independently    ``f``: (B, ...) → (B, ...)
n        entries per sample              ``x[0].numel()``
=======  ==============================  =========================

Behrmann et al. 2019 (i-ResNet), section 3.2; Chen et al. 2019 (residual flows), section 3.1, whose estimator of the infinite series
is unbiased.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class LogDeterminant:
    """Log-determinants of B samples.

    Attributes:
        value: (B,); the mean of the draws if estimated.
        variance: (B,), the estimated variance of ``value``: the draws' sample variance divided by their number. 0 if exact, NaN
            with a single draw.
        draws: number of draws; 0 if exact.
        terms: total number of products with the Jacobian.
    """

    value: Tensor
    variance: Tensor
    draws: int
    terms: int


def exact(f: Function, x: Tensor, c: float = 1.0) -> LogDeterminant:
    """Return the exact value from the full Jacobian, computed by n backward passes for the whole batch.

    Differentiable in x and in the weights of f if gradients are enabled and f is twice differentiable.

    Raises:
        ValueError: a determinant that is not positive or not finite, or ``torch.inference_mode``.
    """
    size = x[0].numel()
    pulled = _pulled(f, x)
    basis = torch.eye(size, dtype=x.dtype, device=x.device).view(size, 1, *x.shape[1:])
    rows = torch.stack(
        [pulled(one.expand_as(x)).flatten(1) for one in basis], 1
    )  # row i of each sample's Jacobian
    sign, value = torch.linalg.slogdet(torch.eye(size, dtype=x.dtype, device=x.device) + c * rows)
    if not bool((sign > 0).all() & value.isfinite().all()):
        raise ValueError(
            f"the determinants have signs {sign.tolist()} (allowed: positive and finite, as for c Lip(f) < 1)"
        )
    return LogDeterminant(value, torch.zeros_like(value.detach()), 0, size)


def estimate(
    f: Function,
    x: Tensor,
    c: float = 1.0,
    *,
    draws: int,
    keep: float,
    always: int = 4,
    generator: torch.Generator | None = None,
) -> LogDeterminant:
    r"""Return an unbiased estimate: Hutchinson's trace estimator and a series truncated at a random term.

    .. math:: \sum_{k=1}^{K} \frac{(-1)^{k+1}}{k}\, \frac{v^\top (cJ)^k v}{P(K \ge k)}, \qquad
              P(K \ge k) = q^{\max(0,\, k - m)}

    with independent random signs v = ±1. The variance is finite if :math:`q > (c\,\mathrm{Lip} f)^2`.

    Differentiable under the same conditions as :func:`exact`; the gradient is unbiased, too.

    Args:
        draws: number of pairs (v, K); each K serves the whole batch.
        keep: q, the probability that the series continues after a term.
        always: m, number of terms that are always computed.
        generator: CPU generator of v and K.

    Raises:
        ValueError: numbers out of range, or ``torch.inference_mode``.
    """
    if draws < 1 or always < 1 or not 0 < keep < 1:
        raise ValueError(
            f"draws {draws}, always {always}, keep {keep} (allowed: at least 1, at least 1, between 0 and 1)"
        )
    pulled = _pulled(f, x)
    found, terms = [], 0
    for _ in range(draws):
        sign = torch.randint(0, 2, x.shape, generator=generator).to(x) * 2 - 1
        w, total, weight, k = sign, x.new_zeros(x.shape[0]), 1.0, 0
        while True:
            k += 1
            w = c * pulled(w)
            total = total + (-1) ** (k + 1) / k / weight * (w * sign).flatten(1).sum(1)
            if k >= always:
                if float(torch.rand((), generator=generator)) >= keep:
                    break
                weight *= keep
        found.append(total)
        terms += k
    values = torch.stack(found)
    spread = values.detach().var(0) / draws if draws > 1 else torch.full_like(values[0].detach(), math.nan)
    return LogDeterminant(values.mean(0), spread, draws, terms)


def require_graph() -> None:
    """ValueError in inference mode, where ``torch.enable_grad`` records nothing and every derivative would be 0."""
    if torch.is_inference_mode_enabled():
        raise ValueError("inference_mode: found on, in which there is no derivative, allowed: torch.no_grad")


def _pulled(f: Function, x: Tensor) -> Function:
    """Return u ↦ Jᵀ u of each sample, with a graph if gradients are enabled."""
    require_graph()
    graph = torch.is_grad_enabled()
    with torch.enable_grad():
        at = x if graph and x.requires_grad else x.detach().requires_grad_()
        y = f(at)
    if y.shape != x.shape:
        raise ValueError(f"f(x): shape {tuple(y.shape)} (allowed: that of x, {tuple(x.shape)})")

    def pull(u: Tensor) -> Tensor:
        if not y.requires_grad:
            return torch.zeros_like(x)
        (found,) = torch.autograd.grad(y, at, u, retain_graph=True, create_graph=graph, allow_unused=True)
        return torch.zeros_like(x) if found is None else found

    return pull
