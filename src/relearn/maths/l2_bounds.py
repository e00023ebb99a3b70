"""Upper bounds on the Lipschitz constant of tied multi-head L2 self-attention, for p = ∞ and p = 2."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from relearn.maths.lambert import covariance_bound, whole_length
from relearn.maths.norms import inf_norm, spectral_norm

FORMS = ("printed", "corrected", "tight", "unmasked", "tightest")


def bound_inf(
    wq: Tensor,
    wv: Tensor,
    wo: Tensor,
    length: int,
    *,
    scale: float | None = None,
    visible: int | None = None,
    check_finite: bool = True,
) -> Tensor:
    r"""Upper bound on Lip_∞ of tied L2 attention (kim2020, theorem 3.2).

    .. math:: \frac{4 \sqrt{w}\, c + 1}{s}\;
              \max_h \|W^{Q,h}\|_\infty \|W^{Q,h\top}\|_\infty\; \max_h \|W^{V,h\top}\|_\infty\; \|W^{O\top}\|_\infty,
              \qquad c = \varphi^{-1}(N - 1)

    The paper prints it for w = D/H, where √w = s and the first factor is 4c + 1/s. N tokens of D numbers, H heads:

    ======== ============== =====================================================
    wq       (..., H, D, w)  W^{Q,h} = W^{K,h}; w is D/H, or 2D/H in appendix M
    wv       (..., H, D, d)  W^{V,h}
    wo       (..., H d, E)   W^O
    ======== ============== =====================================================

    Args:
        length: N. The bound grows with N, so it also holds for shorter sequences.
        scale: s, the divisor of the logits and of A_h; default √d, i.e. √(D/H).
        visible: the largest number of keys that any row sees, used instead of N. Every row must see itself
            (appendix G prints this condition with the wrong sign: errata, K6).
        check_finite: False skips the check of every weight; NaN then gives NaN.

    Returns:
        (...), differentiable in the weights. Equal to the Lipschitz constant if N = 1 and D = H = 1.

    Raises:
        ValueError: length or visible is below 1, visible exceeds length, scale is not positive, shapes do
            not fit, or weights contain NaN or infinity.
    """
    s = _check(wq, wv, wo, length, scale)
    if visible is not None and whole_length(visible, "visible") > length:
        raise ValueError(f"visible is {visible}: at most length = {length} keys can be seen")
    c = covariance_bound(length if visible is None else visible)

    def largest(w: Tensor) -> Tensor:
        return inf_norm(w, check_finite=check_finite)

    queries = (largest(wq) * largest(wq.mT)).amax(-1)
    factor = (4 * math.sqrt(wq.shape[-1]) * c + 1) / s
    return factor * queries * largest(wv.mT).amax(-1) * largest(wo.mT)


def bound_two(
    wq: Tensor,
    wv: Tensor,
    wo: Tensor,
    length: int,
    *,
    form: str = "tightest",
    masked: bool = False,
    scale: float | None = None,
    check_finite: bool = True,
) -> Tensor:
    r"""Upper bound on Lip_2 of tied L2 attention, unless form is "printed".

    .. math:: \frac{g(N)}{s} \Big(\sum_h \|W^{Q,h}\|_2^4\, \|W^{V,h}\|_2^2\Big)^{1/2} \|W^O\|_2

    with g from :func:`growth`. The paper (kim2020, theorem 3.2) prints the square of ‖W^{Q,h}‖_2 instead of the fourth
    power; that is not a bound if some ‖W^{Q,h}‖_2 > 1 (errata, K1), and the form "printed" demonstrates this.
    The bound does not depend on the width of W^{Q,h}.

    Args:
        wq, wv, wo, length, scale, check_finite: as in :func:`bound_inf`.
        form: printed (WRONG), corrected, tight, unmasked or tightest.
        masked: whether some row does not see every key. Every row must still see itself.

    Returns:
        (...), differentiable in the weights.

    Raises:
        ValueError: as in :func:`bound_inf` and :func:`growth`.
    """
    s = _check(wq, wv, wo, length, scale)
    g = growth(length, form=form, masked=masked)

    def largest(w: Tensor) -> Tensor:
        return spectral_norm(w, check_finite=check_finite)

    heads = largest(wq) ** (1 if form == "printed" else 2) * largest(wv)
    return g / s * torch.linalg.vector_norm(heads, dim=-1) * largest(wo)


def growth(length: int, *, form: str = "tightest", masked: bool = False) -> float:
    r"""Return g(N), the growth of the p = 2 bound of L2 attention with the number of tokens. c = φ⁻¹(N - 1).

    ============== ============================================== ==================================
    form            g(N)                                           holds
    ============== ============================================== ==================================
    printed         √N (4c + 1)                                    with the corrected powers only
    corrected       √N (4c + 1)                                    every row sees itself
    tight           √N + 2c + 2 √(c c_1 (N - 1)), c_1 = W_0(1/e)   every row sees itself
    unmasked        2 N^{1/4} + 2c + 2 √(c (√N + 1) ln N)          every row sees all, N ≥ 3
    tightest        the smallest of the valid forms
    ============== ============================================== ==================================

    The forms "tight" and "unmasked" are ours; docs/bounds-with-proofs.md (K11) proves them.

    Raises:
        ValueError: length below 1, an unknown form, or "unmasked" with a mask or for N < 3.
    """
    n = whole_length(length)
    if form not in FORMS:
        raise ValueError(f"form is {form!r}; allowed: {', '.join(FORMS)}")
    if form == "unmasked" and (masked or n < 3):
        raise ValueError(
            f"form is 'unmasked': it holds for length ≥ 3 without a mask, not for length {n}"
            + (" with one" if masked else "")
        )
    c = covariance_bound(n)
    tight = math.sqrt(n) + 2 * c + 2 * math.sqrt(c * covariance_bound(2) * (n - 1))  # c_1 = W_0(1/e) = c(2)
    unmasked = math.inf
    if n >= 3 and not masked:
        unmasked = 2 * n**0.25 + 2 * c + 2 * math.sqrt(c * (math.sqrt(n) + 1) * math.log(n))
    if form in ("printed", "corrected"):
        return math.sqrt(n) * (4 * c + 1)
    return {"tight": tight, "unmasked": unmasked, "tightest": min(tight, unmasked)}[form]


def _check(wq: Tensor, wv: Tensor, wo: Tensor, length: int, scale: float | None) -> float:
    """Check shapes and numbers, and return the scale s."""
    whole_length(length)
    fits = wq.ndim >= 3 and wv.ndim >= 3 and wo.ndim >= 2 and 0 not in (*wq.shape, *wv.shape, *wo.shape)
    fits = fits and wq.shape[:-1] == wv.shape[:-1] and wo.shape[-2] == wv.shape[-3] * wv.shape[-1]
    if not fits:
        raise ValueError(
            f"wq {tuple(wq.shape)}, wv {tuple(wv.shape)}, wo {tuple(wo.shape)} do not fit: "
            "(..., H, D, w), (..., H, D, d), (..., H d, E) are needed"
        )
    s = math.sqrt(wv.shape[-1]) if scale is None else scale
    if not 0 < s < math.inf:
        raise ValueError(f"scale is {scale!r}: a positive finite number is needed")
    return s
