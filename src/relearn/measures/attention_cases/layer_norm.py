r"""Lipschitz constants of LayerNorm (ye2023, appendix A) compared with exact Jacobians; check of the failing proof step (Y1).

Inputs of N numbers:

==========  =============================================================================================================
input       description
==========  =============================================================================================================
constant    all entries equal; the 2-norm is largest here for every scale γ
extremal    maximises the largest row sum for γ = 1
normal      spread times a fixed normal draw
lone        √eps times (N-1, -1, ..., -1): for N = 3 the counter-example of Y1
==========  =============================================================================================================

==================  ======================================================================================================
column              meaning
==================  ======================================================================================================
gamma               ones | random (normal, fixed) | single (one entry 1, others 0)
input, dim, spread  as above; N; spread for normal, otherwise empty
eps, p              added to the variance; inf | two
norm                exact norm of the Jacobian
printed             the paper's bound; empty for p = two
corrected           "corrected" (inf) or "largest" (two) of :mod:`relearn.maths.layer_norm_bounds`
constant            "exact" of that module
rank_one            :math:`\|zz^\top\|_\infty / \|z\|_2^2`, z = x - μ; empty for constant inputs and p = two
rank_one_printed    N - 2, which the proof substitutes for it if N > 2
holds               norm <= constant <= corrected (<= printed), with equality to constant where the input attains it;
                    rank_one <= (1 + √N)/2
printed_holds       rank_one <= N - 2; empty if rank_one is empty or N = 2
==================  ======================================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from relearn.maths.layer_norm_bounds import bound_inf, bound_two, extremal_input
from relearn.measures.lipschitz.jacobian import jacobian

COLUMNS = (
    *("gamma", "input", "dim", "spread", "eps", "p", "norm", "printed", "corrected", "constant"),
    *("rank_one", "rank_one_printed", "holds", "printed_holds"),
)
GAMMAS = ("ones", "random", "single")
ROUNDING = 1e-8


def cases(
    *, dims: Sequence[int], eps: float, spreads: Sequence[float], seed: int = 0
) -> list[dict[str, Any]]:
    """Return one row (:data:`COLUMNS`) for every width, scale, input and p.

    Raises:
        ValueError: a width below 2, for which LayerNorm is constant.
    """
    rows = []
    for dim in dims:
        if dim < 2:
            raise ValueError(f"dims: {dim} (allowed: at least 2)")
        cloud = torch.randn(dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        inputs = [
            ("constant", None, torch.ones_like(cloud)),
            ("extremal", None, extremal_input(dim, eps)),
            ("lone", None, math.sqrt(eps) * lone(dim)),
            *(("normal", spread, spread * cloud) for spread in spreads),
        ]
        for kind in GAMMAS:
            gamma = scale(kind, dim, seed)
            for name, spread, x in inputs:
                found = jacobian(lambda z, gamma=gamma, dim=dim: layer_norm(z, (dim,), gamma, eps=eps), x)  # type: ignore[misc]
                case = {"gamma": kind, "input": name, "dim": dim, "spread": spread, "eps": eps}
                rows += [case | _inf(found, case, gamma, x), case | _two(found, case, gamma)]
    return [{column: row[column] for column in COLUMNS} for row in rows]


def scale(kind: str, dim: int, seed: int = 0) -> Tensor:
    """Return γ (N,).

    Raises:
        ValueError: an unknown kind.
    """
    if kind not in GAMMAS:
        raise ValueError(f"gamma: {kind!r} (allowed: {', '.join(GAMMAS)})")
    if kind == "ones":
        return torch.ones(dim, dtype=torch.float64)
    if kind == "single":
        return torch.eye(dim, dtype=torch.float64)[0]
    return torch.randn(dim, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)


def lone(dim: int) -> Tensor:
    """Return (N - 1, -1, ..., -1)."""
    return torch.tensor([dim - 1.0] + [-1.0] * (dim - 1), dtype=torch.float64)


def rank_one(x: Tensor) -> float | None:
    """Return max_i |z_i| ‖z‖_1 / ‖z‖_2², or None if z = 0."""
    z = x - x.mean()
    square = float(z @ z)
    return float(z.abs().max() * z.abs().sum()) / square if square else None


def _inf(found: Tensor, case: dict[str, Any], gamma: Tensor, x: Tensor) -> dict[str, Any]:
    dim, eps = case["dim"], case["eps"]
    norm = float(found.abs().sum(1).max())
    printed, corrected, constant = (
        float(bound_inf(gamma, eps, form=form)) for form in ("printed", "corrected", "exact")
    )
    term = rank_one(x)
    limit = (1 + math.sqrt(dim)) / 2
    ordered = _below(norm, constant) and _below(constant, corrected) and _below(corrected, printed)
    attained = case["input"] != "extremal" or case["gamma"] == "random" or _below(constant, norm)
    return {
        "p": "inf",
        "norm": norm,
        "printed": printed,
        "corrected": corrected,
        "constant": constant,
        "rank_one": term,
        "rank_one_printed": dim - 2 if dim > 2 else None,
        "holds": ordered and attained and (term is None or _below(term, limit)),
        "printed_holds": None if term is None or dim == 2 else _below(term, dim - 2),
    }


def _two(found: Tensor, case: dict[str, Any], gamma: Tensor) -> dict[str, Any]:
    norm = float(torch.linalg.matrix_norm(found, ord=2))
    corrected, constant = (float(bound_two(gamma, case["eps"], form=form)) for form in ("largest", "exact"))
    attained = case["input"] != "constant" or _below(constant, norm)
    return {
        "p": "two",
        "norm": norm,
        "printed": None,
        "corrected": corrected,
        "constant": constant,
        "rank_one": None,
        "rank_one_printed": None,
        "holds": _below(norm, constant) and _below(constant, corrected) and attained,
        "printed_holds": None,
    }


def _below(small: float, large: float) -> bool:
    return small <= large * (1 + ROUNDING)
