r"""Lipschitz constants of LayerNorm with a positive epsilon, for p = ∞ and p = 2 (ye2023, appendix A).

.. math:: \mathrm{LN}(x) = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta, \qquad x \in \mathbb{R}^N

With w = (x - μ)/‖x - μ‖₂ and t = σ²/(σ² + ε) in [0, 1) the Jacobian is

.. math:: J = \sqrt{\tfrac{1 - t}{\varepsilon}}\; \mathrm{diag}(\gamma) \Bigl[I - \tfrac1N \mathbf 1 \mathbf 1^\top - t\, w w^\top\Bigr].
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from relearn.maths.norms import spectral_norm

FORMS_INF = ("printed", "corrected", "exact")
FORMS_TWO = ("largest", "exact")


def bound_inf(gamma: Tensor, eps: float, *, form: str = "exact") -> Tensor:
    r"""Lip_∞ of LayerNorm, or a bound on it: :math:`\max_i |\gamma_i|\, k(N) / \sqrt\varepsilon`.

    ========== =========================================== ================================================
    form       k(N)                                        holds
    ========== =========================================== ================================================
    printed    N                                           yes, but far too large (the proof fails at N = 3: Y1)
    corrected  g(2(N-1)/N, (√N - 1)/2)                     yes; equals the constant for N <= 7
    exact      max over s = 1..N of g(2r, √((1-1/N)sr) - r)  equals the constant; r = 1 - s/N
    ========== =========================================== ================================================

    :math:`g(A, B) = \max_{0 \le t \le 1} \sqrt{1-t}\,(A + tB)`. "corrected" and "exact" are ours; docs/errata.md (Y1)
    derives them. "exact" grows like :math:`\sqrt{N/27}`.

    Args:
        gamma: (..., N), the scale.
        eps: ε, added to the variance inside the square root.

    Returns:
        (...), differentiable in gamma.

    Raises:
        ValueError: gamma has no entries, eps is not positive (then there is no constant), or the form is unknown.
    """
    n = _check(gamma, eps, form, FORMS_INF)
    factor = {
        "printed": lambda: float(n),
        "corrected": lambda: _corrected(n),
        "exact": lambda: row_sum_constant(n),
    }
    return gamma.abs().amax(-1) * (factor[form]() / math.sqrt(eps))


def bound_two(gamma: Tensor, eps: float, *, form: str = "exact") -> Tensor:
    r"""Lip_2 of LayerNorm, or a bound on it; the paper states none.

    ========= ======================================================================= =======================
    form      value                                                                   holds
    ========= ======================================================================= =======================
    largest   :math:`\max|\gamma_i| / \sqrt\varepsilon`                               yes
    exact     :math:`\|\mathrm{diag}(\gamma)(I - 11^\top/N)\|_2 / \sqrt\varepsilon`   equals the constant
    ========= ======================================================================= =======================

    The two are equal if at least two entries attain the largest modulus, as in an untrained layer. The constant is the norm
    of the Jacobian at constant inputs; elsewhere t > 0 can only reduce it.

    Args, Returns, Raises:
        as in :func:`bound_inf`.
    """
    n = _check(gamma, eps, form, FORMS_TWO)
    if form == "largest":
        return gamma.abs().amax(-1) / math.sqrt(eps)
    matrix = torch.diag_embed(gamma) - gamma[..., None] / n
    return spectral_norm(matrix, check_finite=False) / math.sqrt(eps)


def row_sum_constant(n: int) -> float:
    """Return the exact k(N): the least upper bound of √ε ‖J‖_∞ over all inputs of N numbers for γ = 1.

    Row i has the absolute sum 2 √(1-t) max over sets K with i in K, |K| = s, of [1 - s/N + t wᵀMw]; the largest
    eigenvalue of the symmetric M on vectors of sum 0 is (√((1-1/N) s r) - r)/2.
    """
    return max(peak(a, b)[0] for a, b in _pairs(n))


def extremal_input(n: int, eps: float) -> Tensor:
    """Return x (N,), float64, for which row 0 of the Jacobian (γ = 1) has the absolute sum k(N)/√ε."""
    values = [peak(a, b) for a, b in _pairs(n)]
    s = 1 + max(range(n), key=lambda index: values[index][0])
    t = values[s - 1][1]
    if t == 0:
        return torch.zeros(n, dtype=torch.float64)
    first, group = torch.zeros(2, n, dtype=torch.float64)
    first[0], group[:s] = 1.0, 1.0
    first, group = first - first.mean(), group - group.mean()
    w = first / first.norm() - group / group.norm()
    return w / w.norm() * math.sqrt(n * eps * t / (1 - t))


def peak(a: float, b: float) -> tuple[float, float]:
    """Return the maximum of √(1-t) (a + t b) over t in [0, 1] for a, b >= 0, and the maximising t."""
    if 2 * b <= a:
        return a, 0.0
    return 2 / 3 * (a + b) ** 1.5 / math.sqrt(3 * b), (2 * b - a) / (3 * b)


def _corrected(n: int) -> float:
    return peak(2 * (n - 1) / n, (math.sqrt(n) - 1) / 2)[0]


def _pairs(n: int) -> list[tuple[float, float]]:
    """Return 2r and √((1-1/N) s r) - r for s = 1..N."""
    rest = [(s, 1 - s / n) for s in range(1, n + 1)]
    return [(2 * r, max(0.0, math.sqrt((1 - 1 / n) * s * r) - r)) for s, r in rest]


def _check(gamma: Tensor, eps: float, form: str, forms: tuple[str, ...]) -> int:
    if gamma.ndim < 1 or gamma.shape[-1] == 0:
        raise ValueError(f"gamma: shape {tuple(gamma.shape)} (allowed: (..., N) with N >= 1)")
    if not 0 < eps < math.inf:
        raise ValueError(
            f"eps: {eps} (allowed: a positive number; without it LayerNorm has no Lipschitz constant)"
        )
    if form not in forms:
        raise ValueError(f"form: {form!r} (allowed: {', '.join(forms)})")
    return gamma.shape[-1]
