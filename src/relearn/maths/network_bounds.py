"""What a whole LipsFormer's Lipschitz bound is made of: activation, CenterNorm, residual branches (theorem 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from relearn.maths.norms import spectral_norm

GELUS = ("erf", "sigmoid", "tanh")


def gelu_constant(form: str = "erf") -> float:
    r"""The Lipschitz constant of GELU: the largest slope, computed, not tabulated.

    =======  ==================================================  ========  =====================================
    form     GELU(x)                                             constant  where the slope is largest
    =======  ==================================================  ========  =====================================
    erf      :math:`x \Phi(x)`                                   1.128904  :math:`x = \sqrt 2`: there the second
                                                                           derivative (2 - x²)φ(x) changes sign
    sigmoid  :math:`x\, \sigma(1.702\, x)`                       1.099839  :math:`z \tanh(z/2) = 2`, z = 1.702 x
    tanh     :math:`\frac x2 (1 + \tanh(\sqrt{2/\pi} (x +        1.128993  found numerically
             0.044715 x^3)))`
    =======  ==================================================  ========  =====================================

    qi2023 counts GELU among the 1-Lipschitz functions in section 2 and gives the second number in appendix A.1 (errata,
    Q3).

    Raises:
        ValueError: another form.
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
        """First and second derivative."""
        t = math.tanh(a * (x + b * x**3))
        inner, inner_slope = a * (1 + 3 * b * x * x), 6 * a * b * x
        bend = (1 - t * t) * (inner_slope - 2 * t * inner * inner)
        return (1 + t) / 2 + x / 2 * (1 - t * t) * inner, (1 - t * t) * inner + x / 2 * bend

    return slopes(float(brentq(lambda one: slopes(one)[1], 1, 2, xtol=1e-14)))[0]


def centre_norm_constant(dim: int, weight: Tensor | None = None, p: str = "two") -> Tensor:
    r"""The Lipschitz constant of CenterNorm, exact (qi2023, section 4.1.1).

    .. math:: \tfrac{D}{D-1}\, \|\mathrm{diag}(\gamma) (I - \tfrac1D \mathbf 1 \mathbf 1^\top)\|_p

    γ = 1: D/(D-1) for p = 2, which the paper prints and then takes for 1; 2 for p = ∞ and every D (errata, Q4).
    Otherwise at most max|γ| times that for p = 2, and 2 max|γ| for p = ∞.

    Args:
        dim: D.
        weight: γ (D,), or None: all 1. For p = 2 a D x D matrix is decomposed.

    Returns:
        A scalar in the precision of γ, or float64; differentiable in γ.

    Raises:
        ValueError: D below 2, a γ of another shape, another p.
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

    L_j are the constants of all that is not a residual branch: every CenterNorm (:func:`centre_norm_constant`), stem,
    merges, head. The paper takes all of them for 1. Branches count, not blocks: a block with b branches and α one over
    the number of blocks can reach :math:`e^{b \kappa}` (errata, Q13). Activations belong to their branch's constant. In
    training with DropPath that rescales, give α/(1 - p).

    Args:
        branches: Lip(f_i), one a branch.
        alpha: max|α| of every branch, one for all, or None: 1/M.
        others: the L_j; not used by "printed".

    Returns:
        The bound; infinity where it is too large for a float.

    Raises:
        ValueError: no branch, a negative constant or NaN, another number of α, another form.
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
        raise ValueError(f"alpha: {len(weights)} numbers (allowed: one, or {len(branches)}, one a branch)")
    if form == "printed":
        return _exp(max(branches))
    logs = [math.log1p(abs(a) * one) for a, one in zip(weights, branches)]
    return math.prod(others) * _exp(math.fsum(logs))


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf
