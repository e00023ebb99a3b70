r"""Inversion of x + c f(x) by fixed-point iteration: convergence and error history for any residual map f.

.. math:: y = g(x) = x + c f(x), \qquad x_0 = y, \qquad x_{k+1} = y - c f(x_k)

kim2020, section 5.2 and appendix J (figures 3, 5, 6), plots the largest reconstruction error over a batch per iteration, with
self-attention as f; the condition of section 4.1, Lip(c f) < 1, is sufficient.

=======================  ==================================================================  =========================
quantity                 formula                                                             code
=======================  ==================================================================  =========================
residual of a sample     :math:`r_k = \|y - g(x_k)\|`, needs no true x                       ``residuals`` (K + 1, B)
error of a sample        :math:`\|x_k - x\|`                                                 ``errors`` (K + 1, B)
rate                     :math:`\rho = c L`, L a Lipschitz constant of f in the same norm    ``rate``
guaranteed error         :math:`r_k / (1 - \rho)`                                            ``error_bounds`` (K + 1, B)
=======================  ==================================================================  =========================

Norms are over a whole sample; p = inf is its largest entry. If ρ ≥ 1, a small residual alone proves nothing: g may not be
injective, and the x found may differ from the true one.

**An invalid constant.** The value printed in theorem 3.2 for p = 2 is not a Lipschitz constant if some :math:`\|W^{Q,h}\|_2 > 1` (erratum
K1). Example: one token, D = H = 1, W^Q = 2, W^V = W^O = 1. L2 attention is F(x) = 4x and the printed value is 2, so the map
divided by it is 2x, and the iteration for y = 1 gives 1, -1, 3, -5, 11, -21, diverging from the inverse 1/3. With the corrected
value 4 the map is x, the boundary case; any c < 1 then contracts.

The result carries no gradient; :class:`relearn.layers.invertible_residual.InvertibleResidual` has a differentiable inverse.

Facts (tests/measures/test_inversion.py): the rate is exact for a multiple of the identity and a bound for every linear map; with
Lip > 1 the iteration may diverge or stall; samples do not influence each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from relearn.maths import fixed_point


@dataclass(frozen=True)
class Inversion:
    """Result of :func:`invert` for B samples and K updates. ``error_bounds`` and ``rate`` are None without a Lipschitz constant."""

    x: Tensor
    residuals: Tensor
    errors: Tensor | None
    error_bounds: Tensor | None
    updates: Tensor
    converged: Tensor
    rate: float | None

    @property
    def iterations(self) -> int:
        """K, the number of updates of the slowest sample."""
        return len(self.residuals) - 1


def invert(
    f: Callable[[Tensor], Tensor],
    y: Tensor,
    *,
    c: float = 1.0,
    iterations: int = 50,
    tolerance: float = 0.0,
    lipschitz: float | None = None,
    start: Tensor | None = None,
    truth: Tensor | None = None,
    norm: str = "inf",
    batched: bool = True,
) -> Inversion:
    """Solve x + c f(x) = y for x by x <- y - c f(x), and record the whole history.

    For a map g instead of its residual, pass ``lambda x: g(x) - x`` as f.

    Args:
        f: a module or function that preserves the shape and treats samples independently.
        y: (B, ...); with ``batched=False`` one sample of any shape (the histories are then (K + 1,)).
        iterations: maximum number of updates; the histories are shorter if every sample stops earlier.
        tolerance: a sample stops at the first iterate with a residual of at most this. With 0 it runs to an exact fixed point of the
            arithmetic or to the last iteration.
        lipschitz: a Lipschitz constant of f in ``norm``. If given, c times it must be below 1, which guarantees convergence.
        start: x_0; default y.
        truth: the true x, for ``errors``.
        norm: ``inf``, ``two`` or ``one``, over a whole sample.

    Raises:
        ValueError: a rate c L of 1 or more; y, start or truth not finite or of another shape; f(x) of another shape;
        counts and tolerances below 0.
    """
    rate = None if lipschitz is None else fixed_point.require_contraction(abs(c) * lipschitz)
    found = fixed_point.solve(
        f,
        y,
        c=c,
        iterations=iterations,
        tolerance=tolerance,
        start=start,
        truth=truth,
        norm=norm,
        batched=batched,
    )
    bounds = None if rate is None else found.residuals / (1 - rate)
    return Inversion(found.x, found.residuals, found.errors, bounds, found.updates, found.converged, rate)
