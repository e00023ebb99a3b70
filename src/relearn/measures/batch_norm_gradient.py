r"""Effect of batch normalisation on the variance of a gradient: the exact law, and the failure of the printed bound.

zhu2022, section 4.4.1, equations 4.3 to 4.7. Consider one feature over a batch of n samples, with a weight rescaled by s > 0:

.. math::
    \hat y_i = \frac{s(x_i-\mu)}{\sqrt v}, \qquad v = s^2\sigma^2+\epsilon, \qquad
    \frac{\partial L}{\partial (s x_i)} = \frac{\gamma}{n\sqrt v}
        \Bigl[n D_i - \sum_j D_j - \hat y_i \sum_j D_j \hat y_j\Bigr]
    \quad (4.5, \text{ exact for every } \epsilon)

===================  =====================================================  ==================
symbol               meaning                                                code
===================  =====================================================  ==================
x                    inputs of the layer at s = 1, one row per sample       ``x`` (n, d)
D                    gradient at the layer's output, dL/dy                  ``upstream`` (n, d)
s, :math:`\gamma`    scale of the preceding weight, weight of the layer     ``scale``, ``gamma``
:math:`\sigma^2, v`  variance of x (divisor n); scaled variance plus eps    ``variance`` is s²σ²
r                    fraction s²σ²/v of v; 1 at ε = 0                       ``share``
===================  =====================================================  ==================

**The law.** Let the D_j be independent of y and of each other, with equal variance and any mean, and γ = 1. The bracket is linear in D
with the matrix :math:`M = I - \frac1n 11^T - \frac1n \hat y\hat y^T`. Since 1 and ŷ are orthogonal and :math:`|\hat y|^2 = n r`, M is
the identity minus the projection onto 1 minus r times the projection onto ŷ. So M1 = 0 (the mean of D has no effect) and
:math:`\mathrm{Var}[\partial L/\partial(s x_i) \mid y] = (M^2)_{ii}\, \mathrm{Var}[D]/v`, that is

.. math::
    \text{for sample } i: \; \frac{n-1-(2-r)\,\hat y_i^2}{n v}\,\mathrm{Var}[D], \qquad
    \text{mean over the batch}: \; \frac{n-2+(1-r)^2}{n v}\,\mathrm{Var}[D].

At ε = 0 (r = 1) these are n(n-1-y_i²)/(n² v) and n(n-2)/(n² v). The layer amplifies exactly if v < (n-2+(1-r)²)/n.

**The printed form.** Equation 4.6 ends with n(n-1)/(n² v) as a lower bound (the relation sign is lost; 4.7 needs ≥), and 4.7 claims
amplification for s²σ² < n(n-1)/n². Since n-1-(2-r)ŷ_i² ≤ n-1, that value is in fact an upper bound, for every sample and for the mean.
The mean attains it only in the limit r → 0, where ε dominates the variance. The derivation fails at the auxiliary inequality below 4.6
(erratum Z7): the sum of the terms dropped there is negative.

Facts (tests/measures/test_batch_norm_gradient.py): 4.5 agrees with autograd; both laws are the exact second moments of autograd's
Jacobian for every ε; at n = 2 and ε = 0 the gradient vanishes; a lone outlier (y_i² = n-1) receives no gradient at ε = 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

COLUMNS = (
    "n",
    "variance",
    "eps",
    "measured",
    "standard_error",
    "exact",
    "printed",
    "holds",
    "printed_holds",
    "magnified",
    "printed_says_magnified",
    "formula_error",
)
SIZES = (2, 3, 4, 16, 128)
VARIANCES = (0.25, 0.6, 0.9, 4.0)
ERRORS = 4.0  # allowed deviation of a measured value, in standard errors
ROUNDING = 1e-9


def input_gradient(
    x: Tensor, upstream: Tensor, *, gamma: float = 1.0, scale: float = 1.0, eps: float = 0.0
) -> Tensor:
    """Return dL/d(s x), (n, d), by equation 4.5 with its garbled fraction corrected.

    Raises:
        ValueError: shapes that differ, fewer than 2 samples, a scale that is not positive, a negative ``eps``, or a feature that is
        constant at ``eps`` 0.
    """
    normalised, v = _normalised(x, scale, eps)
    if upstream.shape != x.shape:
        raise ValueError(f"upstream: shape {tuple(upstream.shape)}; allowed: that of x, {tuple(x.shape)}")
    bracket = len(x) * upstream - upstream.sum(0) - normalised * (upstream * normalised).sum(0)
    return gamma / (len(x) * v.sqrt()) * bracket


def autograd_gradient(
    x: Tensor, upstream: Tensor, *, gamma: float = 1.0, scale: float = 1.0, eps: float = 0.0
) -> Tensor:
    """Compute :func:`input_gradient` by torch's batch normalisation in training mode and autograd, as an independent check.

    torch rejects ``eps`` 0; the smallest normal number is used instead, which changes only variances of that size.
    """
    scaled = (scale * x).detach().requires_grad_()
    weight = torch.full_like(x[0], gamma)
    tiny = torch.finfo(x.dtype).tiny
    out = torch.nn.functional.batch_norm(scaled, None, None, weight, training=True, eps=max(eps, tiny))
    return torch.autograd.grad(out, scaled, upstream)[0]


def sample_ratio(x: Tensor, *, scale: float = 1.0, eps: float = 0.0) -> Tensor:
    """Return Var[dL/d(s x_i) | y] / Var[D] of every sample, (n, d): (n - 1 - (2 - r) ŷ_i²) / (n v), for γ = 1."""
    normalised, v = _normalised(x, scale, eps)
    share = 1 - eps / v
    return (len(x) - 1 - (2 - share) * normalised.square()) / (len(x) * v)


def exact_ratio(n: int, variance: float, *, eps: float = 0.0) -> float:
    """Return the mean of :func:`sample_ratio` over a batch of n samples: (n - 2 + (1 - r)²) / (n v); independent of the data.

    ``variance`` is that of the scaled input, s²σ². For γ ≠ 1, multiply by γ².
    """
    v = _scaled_variance(n, variance, eps)
    return (n - 2 + (eps / v) ** 2) / (n * v)


def printed_ratio(n: int, variance: float, *, eps: float = 0.0) -> float:
    """Return n(n - 1) / (n² v), the value of equation 4.6, printed as a lower bound; it is an upper bound of :func:`exact_ratio`."""
    return (n - 1) / (n * _scaled_variance(n, variance, eps))


def cases(
    *,
    sizes: Sequence[int] = SIZES,
    variances: Sequence[float] = VARIANCES,
    eps: float = 0.0,
    draws: int = 4000,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Return one row (:data:`COLUMNS`) for every batch size and scaled input variance.

    Each of ``draws`` features has its own inputs and output gradients: x is normal, standardised over the batch and scaled to
    the exact variance; D is normal with mean 1 and variance 1. The gradients come from autograd, in float64 on the CPU. ``measured`` is
    the variance of dL/d(s x_i) over the draws, averaged over i (not around an assumed mean), with its ``standard_error``; Var[D] is 1.
    ``holds``: measured is within 4 standard errors of ``exact``. ``printed_holds``: measured is at most 4 standard errors below the
    ``printed`` bound. ``magnified``: exact > 1; ``printed_says_magnified``: s²σ² < n(n - 1)/n², the condition of 4.7.
    ``formula_error``: largest difference of 4.5 from autograd, relative to the largest gradient (absolute if that is below 1).

    Raises:
        ValueError: fewer than 2 samples or draws, a variance that is not positive, a negative ``eps``.
    """
    if draws < 2:
        raise ValueError(f"draws: {draws} (allowed: at least 2)")
    generator = torch.Generator().manual_seed(seed)
    return [_case(int(n), float(variance), eps, draws, generator) for n in sizes for variance in variances]


def _case(n: int, variance: float, eps: float, draws: int, generator: torch.Generator) -> dict[str, Any]:
    exact, printed = exact_ratio(n, variance, eps=eps), printed_ratio(n, variance, eps=eps)
    x = torch.randn(n, draws, generator=generator, dtype=torch.float64)
    x = (x - x.mean(0)) / x.std(0, correction=0)
    upstream = 1 + torch.randn(n, draws, generator=generator, dtype=torch.float64)
    scale = math.sqrt(variance)
    found = autograd_gradient(x, upstream, scale=scale, eps=eps)
    formula = input_gradient(x, upstream, scale=scale, eps=eps)
    squares = (found - found.mean(1, keepdim=True)).square().mean(0) * draws / (draws - 1)
    measured, error = float(squares.mean()), float(squares.std() / math.sqrt(draws))
    slack = ERRORS * error + ROUNDING
    row = {
        "n": n,
        "variance": variance,
        "eps": eps,
        "measured": measured,
        "standard_error": error,
        "exact": exact,
        "printed": printed,
        "holds": abs(measured - exact) <= slack,
        "printed_holds": measured >= printed - slack,
        "magnified": exact > 1,
        "printed_says_magnified": variance < (n - 1) / n,
        "formula_error": float((found - formula).abs().max() / found.abs().max().clamp(min=1.0)),
    }
    return {column: row[column] for column in COLUMNS}


def _normalised(x: Tensor, scale: float, eps: float) -> tuple[Tensor, Tensor]:
    """Return ŷ (n, d) and v (d,)."""
    if x.dim() != 2 or len(x) < 2:
        raise ValueError(f"x: shape {tuple(x.shape)}; allowed: (n, d) with at least 2 samples")
    if not 0 < scale < math.inf:
        raise ValueError(f"scale: {scale} (allowed: positive)")
    if eps < 0:
        raise ValueError(f"eps: {eps} (allowed: 0 or more)")
    centred = scale * (x - x.mean(0))
    v = centred.square().mean(0) + eps
    if not bool((v > 0).all()):
        raise ValueError("x: a feature is constant over the batch; at eps 0 it has no normalised form")
    return centred / v.sqrt(), v


def _scaled_variance(n: int, variance: float, eps: float) -> float:
    if n < 2:
        raise ValueError(f"n: {n} (allowed: at least 2 samples)")
    if not 0 < variance < math.inf:
        raise ValueError(f"variance: {variance} (allowed: positive)")
    if eps < 0:
        raise ValueError(f"eps: {eps} (allowed: 0 or more)")
    return variance + eps
