r"""Scaled cosine similarity attention compared with theorem 1 of qi2023: printed, corrected and tight bounds.

=============  ==========================================================================================================
case           inputs
=============  ==========================================================================================================
random         random tokens and maps; tokens are multiplied by spread √ε
ascent         the same tokens after gradient ascent on the norm
lone           one token at the origin: the value term is attained (p = two)
values         all queries attend to one token whose value is at the origin: the value term √N ‖W^V‖ ε^(-1/2) is attained
keys           two keys at the origin with different values, all others elsewhere: attains 1/√2 of the key term
transposes     erratum Q9: W^K is a column of 36 ones, d = 1: the printed p = inf bound is exceeded
width          Q10: one token, W^V the identity of size 81: the printed factor 2 is exceeded
=============  ==========================================================================================================

Jacobians depend on the tokens only through x/√ε, so ε does not change any ratio.

=============  ==========================================================================================================
column         meaning
=============  ==========================================================================================================
p              two | inf
length ...     N, D, d (width of a head), H, τ, ε; spread: only for random and ascent
norm           exact :math:`\|J_F\|_p`
printed ...    bounds of :func:`~relearn.maths.cosine_bounds.cosine_bound`
share          norm / tight
holds          norm <= corrected and norm <= tight
printed_holds  norm <= printed
=============  ==========================================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relearn.maths.cosine_bounds import FORMS, cosine_bound
from relearn.measures.attention_cases.exact import exact
from relearn.measures.lipschitz.ascent import ascend
from relearn.measures.lipschitz.jacobian import jacobian_norm

COLUMNS = (
    *("case", "p", "length", "dim", "width", "heads", "tau", "eps", "spread"),
    *("norm", *FORMS, "share", "holds", "printed_holds"),
)
ROUNDING = 1e-9
FAR = 1e6  # in units of √ε: large enough that normalisation is exact up to rounding
Make = Callable[[int, int, float, float], nn.Module]


def cases(
    make: Make,
    *,
    lengths: Sequence[int],
    dims: Sequence[int],
    heads: int,
    taus: Sequence[float],
    spreads: Sequence[float],
    eps: float = 1e-6,
    steps: int = 40,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Return two rows (:data:`COLUMNS`), p = two and inf, for every case.

    Args:
        make: (width, heads, τ, ε) → a layer whose output is the concatenated heads, with normalised values; ``maps()``
            returns W^Q, W^K, W^V (H, D, d), and ``qkv`` holds all three in one linear layer.
        lengths, dims, heads, taus, spreads: grid of the cases random and ascent; values and keys use lengths and taus.
        steps: number of ascent steps.

    Raises:
        ValueError: a length below 1.
    """
    rows = []
    for case in _cases(make, lengths, dims, heads, taus, spreads, eps, seed):
        name, function, weights, x, numbers = case
        for p in ("two", "inf"):
            place = x
            if name == "ascent":
                place = ascend(function, x, p=p, steps=steps, lr=0.1 * math.sqrt(eps), seed=seed).inputs
            norm = max(jacobian_norm(function, one[None], p, method="exact").value for one in place)
            rows.append(_row(name, p, norm, weights, x.shape[1], numbers))
    return rows


def _cases(
    make: Make,
    lengths: Sequence[int],
    dims: Sequence[int],
    heads: int,
    taus: Sequence[float],
    spreads: Sequence[float],
    eps: float,
    seed: int,
) -> Iterator[tuple[str, nn.Module | Callable[[Tensor], Tensor], tuple[Tensor, ...], Tensor, dict[str, Any]]]:
    if any(length < 1 for length in lengths):
        raise ValueError(f"lengths: {list(lengths)} (allowed: at least 1 token)")
    unit = math.sqrt(eps)
    draw = torch.Generator().manual_seed(seed)
    for tau in taus:
        for dim in dims:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                layer = exact(make(dim, heads, tau, eps))
                for parameter in layer.parameters():
                    nn.init.normal_(parameter)
                layer.qkv.bias.zero_()
            for length in lengths:
                tokens = torch.randn(1, length, dim, generator=draw, dtype=torch.float64)
                for spread in spreads:
                    numbers = {"tau": tau, "eps": eps, "spread": spread}
                    for name in ("random", "ascent"):
                        yield name, layer, layer.maps(), spread * unit * tokens, numbers
        for length in lengths:
            for name in ("values", "keys"):
                if length > 1:
                    yield _single(name, *attained(name, length, unit), tau, eps)
    eye = torch.eye(3, dtype=torch.float64)
    yield _single("lone", torch.zeros(1, 3, dtype=torch.float64), eye, eye, eye, taus[0], eps)
    yield _single("transposes", *transposes(unit), 1.0, eps)
    wide = torch.full((1, 81), 0.1).double()
    wide[0, 0] = 0.8
    none = torch.zeros(81, 81).double()
    yield _single("width", unit * wide, none, none, torch.eye(81).double(), taus[0], eps)


def attained(name: str, length: int, unit: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return tokens (N, 3) and W^Q, W^K, W^V of width 1 for ``values`` and ``keys``."""
    x = torch.zeros(length, 3, dtype=torch.float64)
    x[:, 0], x[:, 1] = FAR, -FAR  # every query is 1, every key -1
    if name == "values":
        x[0, 1] = FAR
    else:
        x[:, 2] = FAR
        x[:2, 1], x[1, 2] = 0.0, -FAR
    q, k, v = torch.eye(3, dtype=torch.float64).split(1, dim=1)
    return unit * x, q, k, v


def transposes(unit: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return erratum Q9's tokens (2, 36) and its maps of width 1; ``unit`` is √ε."""
    wk, wq, wv, x = (torch.zeros(shape, dtype=torch.float64) for shape in [(36, 1)] * 3 + [(2, 36)])
    wk += 1
    wq[0], wv[1] = 0.01, 0.01
    x[0, :3], x[1, :2] = torch.tensor([1e4, 1e4, -2e4]), torch.tensor([1e4, -1e4])
    return unit * x, wq, wk, wv


def single_head(x: Tensor, wq: Tensor, wk: Tensor, wv: Tensor, tau: float, eps: float) -> Tensor:
    """Evaluate the definition for maps of any width, which no layer supports: x (B, N, D), output (B, N, d)."""

    def hat(u: Tensor) -> Tensor:
        return u / (u.square().sum(-1, keepdim=True) + eps).sqrt()

    return (tau * hat(x @ wq) @ hat(x @ wk).mT).softmax(-1) @ hat(x @ wv)


def _single(name: str, x: Tensor, wq: Tensor, wk: Tensor, wv: Tensor, tau: float, eps: float) -> Any:
    numbers = {"tau": tau, "eps": eps, "spread": None}
    weights = wq[None], wk[None], wv[None]
    return name, lambda z: single_head(z, wq, wk, wv, tau, eps), weights, x[None], numbers


def _row(
    name: str, p: str, norm: float, weights: tuple[Tensor, ...], length: int, numbers: dict[str, Any]
) -> dict[str, Any]:
    heads, dim, width = weights[0].shape
    wq, wk, wv = weights
    bounds = {
        form: float(
            cosine_bound(wq, wk, wv, length, tau=numbers["tau"], nu=1, eps=numbers["eps"], p=p, form=form)
        )
        for form in FORMS
    }
    up = 1 + ROUNDING
    row = {"case": name, "p": p, "length": length, "dim": dim, "width": width, "heads": heads, **numbers}
    row |= {"norm": norm, **bounds, "share": norm / bounds["tight"]}
    row["holds"] = norm <= bounds["corrected"] * up and norm <= bounds["tight"] * up
    row["printed_holds"] = norm <= bounds["printed"] * up
    return {column: row[column] for column in COLUMNS}
