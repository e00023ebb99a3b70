"""Components of the Lipschitz bound of a whole LipsFormer: activation, CenterNorm, residual branches (theorem 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from relearn.maths.norms import spectral_norm

GELUS = ("erf", "sigmoid", "tanh")


def gelu_constant(form: str = "erf") -> float:
    r"""The Lipschitz constant of GELU, i.e. its largest slope, computed rather than tabulated.

    =======  ==================================================  ========  =====================================
    form     GELU(x)                                             constant  point of the largest slope
    =======  ==================================================  ========  =====================================
    erf      :math:`x \Phi(x)`                                   1.128904  :math:`x = \sqrt 2`, where the second
                                                                           derivative (2 - x²)φ(x) changes sign
    sigmoid  :math:`x\, \sigma(1.702\, x)`                       1.099839  :math:`z \tanh(z/2) = 2`, z = 1.702 x
    tanh     :math:`\frac x2 (1 + \tanh(\sqrt{2/\pi} (x +        1.128993  found numerically
             0.044715 x^3)))`
    =======  ==================================================  ========  =====================================

    qi2023 lists GELU among the 1-Lipschitz functions in section 2, and states the second number in appendix A.1 (errata,
    Q3).

    Raises:
        ValueError: an unknown form.
    """
    from scipy.optimize import brentq

    if form not in GELUS:
        raise ValueError(f"form is {form!r}; allowed: {', '.join(GELUS)}")
    if form == "erf":
        x = math.sqrt(2)
        return (1 + math.erf(x / math.sqrt(2))) / 2 + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    if form == "sigmoid":
        z = float(brentq(lambda one: one * math.tanh(one / 2) - 2, 1, 4, xtol=1e-14))
        share = 1 / (1 + math.exp(-z))
        return share * (1 + z * (1 - share))
    a, b = math.sqrt(2 / math.pi), 0.044715

    def slopes(x: float) -> tuple[float, float]:
        """Return the first and second derivative."""
        t = math.tanh(a * (x + b * x**3))
        inner, inner_slope = a * (1 + 3 * b * x * x), 6 * a * b * x
        bend = (1 - t * t) * (inner_slope - 2 * t * inner * inner)
        return (1 + t) / 2 + x / 2 * (1 - t * t) * inner, (1 - t * t) * inner + x / 2 * bend

    return slopes(float(brentq(lambda one: slopes(one)[1], 1, 2, xtol=1e-14)))[0]


def centre_norm_constant(dim: int, weight: Tensor | None = None, p: str = "two") -> Tensor:
    r"""The exact Lipschitz constant of CenterNorm (qi2023, section 4.1.1).

    .. math:: \tfrac{D}{D-1}\, \|\mathrm{diag}(\gamma) (I - \tfrac1D \mathbf 1 \mathbf 1^\top)\|_p

    For γ = 1 and p = 2 it is D/(D-1), which the paper prints and then treats as 1. For γ = 1 and p = ∞ it is 2 (errata, Q4).
    For other γ it is at most max|γ| times as large for p = 2, and equals 2 max|γ| for p = ∞.

    Args:
        dim: D.
        weight: γ (D,), or None for all 1. For p = 2 the singular values of a D x D matrix are computed.

    Returns:
        A scalar in the precision of γ, or float64; differentiable in γ.

    Raises:
        ValueError: D is below 2, γ has another shape, or p is unknown.
    """
    if isinstance(dim, bool) or dim != dim // 1 or dim < 2:
        raise ValueError(f"dim is {dim!r}: a whole number of at least 2 is needed")
    if p not in ("two", "inf"):
        raise ValueError(f"p is {p!r}; allowed: two, inf")
    if weight is not None and tuple(weight.shape) != (dim,):
        raise ValueError(f"weight has shape {tuple(weight.shape)}: ({dim},) is needed")
    gamma = torch.ones(dim, dtype=torch.float64) if weight is None else weight
    if p == "inf":
        return 2 * gamma.abs().amax()
    stretch = dim / (dim - 1)
    if weight is None:
        return gamma.new_tensor(stretch)
    return stretch * spectral_norm(gamma.diag() - gamma[:, None] / dim)


def residual_bound(
    branches: Sequence[float],
    *,
    alpha: float | Sequence[float] | None = None,
    others: Sequence[float] = (),
    form: str = "corrected",
) -> float:
    r"""Upper bound on the Lipschitz constant of a network of residual branches (qi2023, theorem 2, equations 19 and 20).

    ==========  ==================================================================  ==========================
    form        bound, with M branches f_i                                          holds for
    ==========  ==================================================================  ==========================
    printed     :math:`e^\kappa`, :math:`\kappa = \max_i \mathrm{Lip}(f_i)`         branches alone, α = 1/M
    corrected   :math:`\prod_i (1 + |\alpha_i| \mathrm{Lip}(f_i)) \prod_j L_j`      everything
    ==========  ==================================================================  ==========================

    L_j are the constants of everything outside the residual branches: every CenterNorm (:func:`centre_norm_constant`), stem,
    merges, head. The paper assumes that all of them are 1. M counts branches, not blocks: with b branches per block and α one over
    the number of blocks, the bound can reach :math:`e^{b \kappa}` (errata, Q13). Activations are part of their branch's constant. For
    training with rescaled DropPath, pass α/(1 - p).

    Args:
        branches: Lip(f_i), one per branch.
        alpha: max|α| of every branch, one number for all, or None for 1/M.
        others: the L_j; not used by "printed".

    Returns:
        The bound; infinity if it overflows a float.

    Raises:
        ValueError: no branch, a negative constant or NaN, a wrong number of α or one that is not finite, or an unknown form.
    """
    if form not in ("printed", "corrected"):
        raise ValueError(f"form is {form!r}; allowed: printed, corrected")
    for name, numbers in (("branches", branches), ("others", others)):
        if not all(one >= 0 for one in numbers):
            raise ValueError(f"{name}: {list(numbers)} (allowed: numbers of at least 0)")
    if not branches:
        raise ValueError("branches: none (allowed: at least one constant)")
    if alpha is None:
        alpha = 1 / len(branches)
    weights = [float(alpha)] * len(branches) if isinstance(alpha, int | float) else list(alpha)
    if len(weights) != len(branches):
        raise ValueError(f"alpha: {len(weights)} numbers (allowed: one, or {len(branches)}, one per branch)")
    if not all(math.isfinite(one) for one in weights):
        raise ValueError(f"alpha: {weights} (allowed: finite numbers)")
    if form == "printed":
        return _exp(max(branches))
    logs = [math.log1p(abs(a) * one) if a else 0.0 for a, one in zip(weights, branches)]
    bound = math.prod(others) * _exp(math.fsum(logs))
    if math.isfinite(bound):
        return bound
    return 0.0 if 0 in others else _exp(math.fsum([*logs, *map(math.log, others)]))


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf
