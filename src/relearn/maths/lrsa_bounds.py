r"""Upper bounds on derivatives of Lipschitz-regularised self-attention that hold at given inputs (ye2023, appendix B).

.. math:: S_{ij} = -\alpha\, \frac{\|W_Q^\top x_i - W_K^\top x_j\|_2^2}{q\, m}, \qquad P = \mathrm{softmax}_j(S), \qquad
          q = \|X W_Q\|_F, \quad m = \max_l \|x_l\|_2

======= ============================ =============================================================================
symbol  meaning                      code, shape
======= ============================ =============================================================================
a, b    ‖W_Q‖_2 and ‖W_K‖_2          of ``wq``, ``wk`` (..., D, d)
q, m    the two denominators         ``q``, ``m``: numbers or (...); a layer with eps > 0 passes √(q² + eps²), √(m² + eps²)
c       α (a + b)²
N       tokens                       ``length``
======= ============================ =============================================================================

None of these is a Lipschitz constant: S and P are the same for X and tX, so their derivatives are unbounded near
X = 0 (errata, Y5). With eps in both roots P has a Lipschitz constant (:func:`global_probability_bound`); S and P X still have none.
If two rows share the largest norm, m is not differentiable; one-sided derivatives satisfy the same bounds.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from relearn.maths.lambert import whole_length
from relearn.maths.norms import spectral_norm

SCORE_FORMS = ("printed", "corrected")
PROBABILITY_FORMS = ("last", "printed", "corrected", "tight")


def score_bound(
    wq: Tensor, wk: Tensor, *, alpha: float, q: Tensor | float, m: Tensor | float, form: str = "corrected"
) -> Tensor:
    r"""Upper bound on the largest :math:`\|\partial S_{it} / \partial x_k\|_2`, unless form is "printed".

    ========== ===================== =================================================
    form       value                 holds
    ========== ===================== =================================================
    printed    3 c / q               only if q is treated as a constant (errata, Y3)
    corrected  (c / q)(3 + a m / q)  yes
    ========== ===================== =================================================

    Returns:
        (...), differentiable.

    Raises:
        ValueError: an unknown form, maps that do not fit, an alpha that is not positive.
    """
    a, b = _norms(wq, wk, alpha)
    _check_form(form, SCORE_FORMS)
    c, q, m = alpha * (a + b) ** 2, _like(q, a), _like(m, a)
    return c / q * (3 if form == "printed" else 3 + a * m / q)


def probability_bound(
    wq: Tensor,
    wk: Tensor,
    *,
    alpha: float,
    q: Tensor | float,
    m: Tensor | float,
    length: int,
    form: str = "tight",
    size: Tensor | float | None = None,
) -> Tensor:
    r"""Upper bound on the largest :math:`\|\partial P_{ij} / \partial x_k\|_2`, unless form is "last" or "printed".

    ========== ===================================================== ===================================================
    form       value                                                 holds
    ========== ===================================================== ===================================================
    last       6 c / (‖X‖_F ‖W_Q‖_F)                                 no: the last inequality is reversed (errata, Y2)
    printed    6 c / q                                               only if q is treated as a constant (Y3)
    corrected  (c / 2q)(3 + a m / q)                                 yes
    tight      c/q + min(c a m / 2q², κ a/q) + min(c / 2q, κ/m)      yes; κ = :func:`log_share_bound` of N
    ========== ===================================================== ===================================================

    "tight" is ours (docs/errata.md, Y3): scaling all scores of a row changes P by at most κ per unit of log q or
    log m, however large the scores are.

    Args:
        size: ‖X‖_F, used only by "last".

    Returns:
        (...), differentiable; 0 for one token, except for the printed forms.

    Raises:
        ValueError: as :func:`score_bound`; "last" without size; a length below 1.
    """
    a, b = _norms(wq, wk, alpha)
    _check_form(form, PROBABILITY_FORMS)
    kappa = log_share_bound(length)
    c, q, m = alpha * (a + b) ** 2, _like(q, a), _like(m, a)
    if form == "last":
        if size is None:
            raise ValueError("size: None (allowed: the Frobenius norm of X, where form is 'last')")
        return 6 * c / (torch.linalg.matrix_norm(wq) * size)
    if form == "printed":
        return 6 * c / q
    if length == 1:
        return torch.zeros_like(c / q)
    if form == "corrected":
        return c / (2 * q) * (3 + a * m / q)
    return (
        c / q + torch.minimum(c * a * m / (2 * q**2), kappa * a / q) + torch.minimum(c / (2 * q), kappa / m)
    )


def global_probability_bound(wq: Tensor, wk: Tensor, *, alpha: float, eps: float, length: int) -> Tensor:
    r"""Bound every :math:`\|\partial P_{ij} / \partial x_k\|_2` at every X for eps > 0 by (c + κ a + min(c/2, κ)) / eps.

    This is the "tight" form with both roots at their minimum. It is large; its purpose is to show that P is Lipschitz.

    Raises:
        ValueError: as :func:`probability_bound`; an eps that is not positive.
    """
    if not 0 < eps < math.inf:
        raise ValueError(f"eps: {eps} (allowed: a positive number; without it there is no such bound)")
    a, b = _norms(wq, wk, alpha)
    kappa = log_share_bound(length)
    c = alpha * (a + b) ** 2
    return (c + kappa * a + (c / 2).clamp_max(kappa)) / eps * (length > 1)


def output_bound(
    wq: Tensor, wk: Tensor, *, alpha: float, q: Tensor | float, m: Tensor | float, length: int
) -> Tensor:
    r"""Upper bound on the 2-norm of the Jacobian of :math:`X \mapsto P X` over all tokens; ours (errata, Y5).

    .. math:: \sqrt N + 2 \alpha \rho\, b\, [a + \sqrt N (a + b)] + 2 \sqrt N\, \kappa\, (a \rho + 1), \qquad \rho = m / q

    and 1 for N = 1. It depends on X only through ρ, which is invariant under scaling of X but unbounded: rows can be long
    in the kernel of W_Q.

    Returns:
        (...), differentiable.

    Raises:
        ValueError: as :func:`probability_bound`.
    """
    a, b = _norms(wq, wk, alpha)
    kappa = log_share_bound(length)
    rho = _like(m, a) / _like(q, a)
    root = math.sqrt(length)
    if length == 1:
        return torch.ones_like(a * rho)
    return root + 2 * alpha * rho * b * (a + root * (a + b)) + 2 * root * kappa * (a * rho + 1)


def log_share_bound(length: int) -> float:
    r"""κ: the largest :math:`P_j\, |\ln P_j + H(P)|` over distributions P on N points, H the entropy in nats.

    .. math:: \kappa(N) = \max_p\, p (1 - p) \ln\frac{(N - 1)\, p}{1 - p} = \frac{p (1-p)}{2p - 1}
              \quad\text{at the root of}\quad \ln\frac{(N-1)\,p}{1-p} = \frac{1}{2p - 1},\; p > \tfrac12

    It is 0 for N = 1, 0.2239 for N = 2, and below (1 + ln N)/4. Sums of these terms over j, each multiplied by a factor of
    modulus at most 1, stay below 2κ.

    Raises:
        ValueError: a length below 1.
    """
    n = whole_length(length)
    if n == 1:
        return 0.0
    low, high = 0.5, 1.0
    for _ in range(100):
        p = (low + high) / 2
        if p in (low, high):
            break
        if math.log(n - 1) + math.log(p / (1 - p)) < 1 / (2 * p - 1):
            low = p
        else:
            high = p
    return low * (1 - low) / (2 * low - 1)


def _norms(wq: Tensor, wk: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    if wq.ndim < 2 or wq.shape != wk.shape:
        raise ValueError(
            f"wq, wk: shapes {tuple(wq.shape)}, {tuple(wk.shape)} (allowed: (..., D, d), both alike)"
        )
    if not 0 < alpha < math.inf:
        raise ValueError(f"alpha: {alpha} (allowed: a positive number)")
    return spectral_norm(wq, check_finite=False), spectral_norm(wk, check_finite=False)


def _like(number: Tensor | float, a: Tensor) -> Tensor:
    return torch.as_tensor(number, dtype=a.dtype, device=a.device)


def _check_form(form: str, forms: tuple[str, ...]) -> None:
    if form not in forms:
        raise ValueError(f"form: {form!r} (allowed: {', '.join(forms)})")
