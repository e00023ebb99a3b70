r"""Distance of a target from the convex combinations of the poisons, shared by the polytope attacks.

.. math:: r(A, t, c) = \frac{\|t - \sum_j c_j a_j\|^2}{\|t\|^2}, \qquad c_j \ge 0, \ \textstyle\sum_j c_j = 1
"""

from __future__ import annotations

from torch import Tensor

from relearn.maths.simplex import simplex_least_squares


def relative_residual(features: Tensor, target: Tensor, coefficients: Tensor) -> Tensor:
    """r: features (..., k, d), target (..., d), coefficients (..., k) whose sum is one → (...)."""
    # Σ c = 1, so the target can be moved inside the sum, which avoids cancellation between large features
    residual = coefficients.unsqueeze(-2) @ (features - target.unsqueeze(-2))
    return residual.squeeze(-2).square().sum(-1) / target.square().sum(-1)


def convex_coefficients(features: Tensor, target: Tensor, last: Tensor | None) -> Tensor:
    """The c that minimises r, (..., k), without a graph: a loss may treat it as constant (envelope theorem)."""
    return simplex_least_squares(features.detach(), target.detach(), start=last)
