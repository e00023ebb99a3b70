"""Upper bounds on the Lipschitz constant of scaled cosine similarity attention, for p = 2 and p = ∞."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from relearn.maths.lambert import whole_length
from relearn.maths.norms import inf_norm, spectral_norm

FORMS = ("printed", "corrected", "tight")


def cosine_bound(
    wq: Tensor,
    wk: Tensor,
    wv: Tensor,
    length: int,
    *,
    tau: float,
    nu: float,
    eps: float,
    wo: Tensor | None = None,
    p: str = "two",
    form: str = "tight",
) -> Tensor:
    r"""Upper bound on Lip_p of cosine attention with normalised values (qi2023, theorem 1), except "printed" for p = ∞.

    For one head with N tokens of D numbers and width d, the bound is :math:`\nu \epsilon^{-1/2}` times

    ============  =================================================================================================
    p, form       bound
    ============  =================================================================================================
    two, printed  :math:`2 N (N-1) \tau \|W^K\|_2 + 2 (N-1) \tau \|W^Q\|_2 + 2 N \|W^V\|_2`; valid
    two, tight    :math:`\sqrt N \tau \|W^K\|_2 + \tau \|W^Q\|_2 + \sqrt N \|W^V\|_2`
    inf, printed  :math:`N^2 \sqrt D \tau \|W^K\|_\infty + N \sqrt D \tau \|W^Q\|_\infty + 2 N \|W^{V\top}\|_\infty`;
                  WRONG: the transposes are missing (errata, Q9), and 2 is too small for d > 67 (Q10)
    inf, corr.    :math:`N^2 \sqrt D \tau \|W^{K\top}\|_\infty + N \sqrt D \tau \|W^{Q\top}\|_\infty
                  + \max(2, c_d) N \|W^{V\top}\|_\infty`
    inf, tight    :math:`\tau (m^K + m^Q) + c_d \|W^{V\top}\|_\infty`, with
                  :math:`m = \min(\sqrt D \|W\|_2, \sqrt d \|W^\top\|_\infty)`
    ============  =================================================================================================

    with c_d from :func:`unit_factor`. For p = 2, "corrected" equals "printed". The tight forms are ours (derived in
    docs/bounds-with-proofs.md, T1 and T2); for a single token, whose attention weight is always 1, their τ terms vanish. All valid
    forms hold for any bias of the logits, any mask, and any bias of the maps.

    Heads are combined by the root of the sum of squares for p = 2 and by the maximum for p = ∞; "printed" sums them
    (appendix A.2). W^O multiplies by :math:`\|W^O\|_2` or :math:`\|W^{O\top}\|_\infty`.

    Args:
        wq, wk, wv: (..., H, D, d).
        length: N. The bound grows with N, so it also holds for shorter sequences.
        tau, nu, eps: τ, ν, ε; ν includes any factor for the number of heads.
        wo: (..., H d, E), or None if the output is the concatenated heads.
        p: norm, "two" or "inf".
        form: printed, corrected or tight.

    Returns:
        (...), differentiable in the weights.

    Raises:
        ValueError: an unknown p or form, N below 1, shapes that do not fit, τ, ν or ε that is not positive, NaN or
            infinity in the weights.
    """
    n = whole_length(length)
    _check(wq, wk, wv, wo, {"tau": tau, "nu": nu, "eps": eps})
    for name, word, allowed in (("p", p, ("two", "inf")), ("form", form, FORMS)):
        if word not in allowed:
            raise ValueError(f"{name} is {word!r}; allowed: {', '.join(allowed)}")
    dim, width = wq.shape[-2:]
    key, query, value = _terms(n, dim, width, p, form)
    maps = (wk, wq, wv)
    if p == "two":
        k, q, v = (spectral_norm(one) for one in maps)
    else:
        k, q, v = (inf_norm(one.mT) for one in maps)
        if form == "printed":
            k, q = inf_norm(wk), inf_norm(wq)
        if form == "tight":
            wide, narrow = math.sqrt(dim), math.sqrt(width)
            k, q = (torch.minimum(wide * spectral_norm(w), narrow * row) for w, row in ((wk, k), (wq, q)))
    heads = nu * eps**-0.5 * (tau * (key * k + query * q) + value * v)
    if form == "printed":
        together = heads.sum(-1)
    else:
        together = torch.linalg.vector_norm(heads, dim=-1) if p == "two" else heads.amax(-1)
    if wo is None:
        return together
    return together * (spectral_norm(wo) if p == "two" else inf_norm(wo.mT))


def unit_factor(width: int) -> float:
    r"""Return c_d: the largest ∞-norm of the derivative of :math:`u \mapsto u / \sqrt{\|u\|^2 + \epsilon}` on R^d, times √ε.

    .. math:: c_d = \tfrac23 (B + 1)^{3/2} (3 B)^{-1/2}, \quad B = (\sqrt d - 1) / 2; \qquad c_d = 1 \text{ for } d \le 4

    The paper's equation 17 has 2 instead, which c_d exceeds for d ≥ 68 (errata, Q6); for p = 2 the constant is 1.

    Raises:
        ValueError: d is not an integer of at least 1.
    """
    d = whole_length(width, "width")
    if d <= 4:
        return 1.0
    b = (math.sqrt(d) - 1) / 2
    return 2 / 3 * (b + 1) ** 1.5 / math.sqrt(3 * b)


def _terms(n: int, dim: int, width: int, p: str, form: str) -> tuple[float, float, float]:
    """Return the factors of the key, query and value norms, without τ ν ε^(-1/2)."""
    if form == "tight":
        several = float(n > 1)
        if p == "two":
            return several * math.sqrt(n), several, math.sqrt(n)
        return several, several, unit_factor(width)
    if p == "two":
        return 2 * n * (n - 1), 2 * (n - 1), 2 * n
    last = 2.0 if form == "printed" else max(2.0, unit_factor(width))
    return n * n * math.sqrt(dim), n * math.sqrt(dim), last * n


def _check(wq: Tensor, wk: Tensor, wv: Tensor, wo: Tensor | None, numbers: dict[str, float]) -> None:
    for name, value in numbers.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} is {value!r}: a positive finite number is needed")
    fits = wq.ndim >= 3 and 0 not in wq.shape and wq.shape == wk.shape == wv.shape
    if not fits or (wo is not None and (wo.ndim < 2 or wo.shape[-2] != wv.shape[-3] * wv.shape[-1])):
        found = ", ".join(str(tuple(one.shape)) for one in (wq, wk, wv, *([] if wo is None else [wo])))
        raise ValueError(
            f"wq, wk, wv, wo {found} do not fit: (..., H, D, d) three times, (..., H d, E) are needed"
        )
