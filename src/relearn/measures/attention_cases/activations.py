r"""Lipschitz constants of activation functions (qi2023, section 2, appendix A.1 and figure 2; erratum Q3).

For a differentiable f on the real line, :math:`\mathrm{Lip}(f) = \sup_x |f'(x)|`. The supremum is searched on a grid and at every
point where f'' changes sign, with derivatives by autograd. Outside [-10, 10] each of these slopes tends monotonically to its limit,
0 or 1.

=============  ============================================================================================================
activation     sigmoid | tanh | relu | gelu, :math:`x \Phi(x)` | gelu_sigmoid, :math:`x\, \sigma(1.702\, x)`, the form used
               in appendix A.1 | gelu_tanh
=============  ============================================================================================================
column         meaning
place          section 2 (all are 1-Lipschitz) | appendix A.1 (numbers)
at, norm       where the largest \|f'\| was found, and its value
secant         largest \|f(x) - f(y)\| / \|x - y\| over random pairs and a close pair around ``at``
bound          Lip(f) by its formula, for GELU :func:`relearn.maths.network_bounds.gelu_constant`
printed        the number printed at that place in the paper
holds          norm = bound, and secant does not exceed it and reaches it up to finite-difference error
printed_holds  section 2: norm <= 1; appendix A.1: norm, rounded to the printed digits, equals the printed number
=============  ============================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from relearn.maths.network_bounds import gelu_constant

COLUMNS = (*("activation", "place", "at", "norm", "secant", "bound", "printed", "holds", "printed_holds"),)
CURVE_COLUMNS = ("activation", "x", "value", "slope")
SECTION, APPENDIX = "section 2", "appendix A.1"
REACH, GRID, CLOSE = 10.0, 4001, 1e-3
ROUNDING, DIFFERENCES = 1e-9, 1e-5
Function = Callable[[Tensor], Tensor]


def gelu_sigmoid(x: Tensor) -> Tensor:
    """Return x sigmoid(1.702 x)."""
    return x * torch.sigmoid(1.702 * x)


FUNCTIONS: dict[str, Function] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": functional.relu,
    "gelu_sigmoid": gelu_sigmoid,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
}
PRINTED: dict[str, dict[str, str]] = {
    SECTION: dict.fromkeys(FUNCTIONS, "1"),
    APPENDIX: {"sigmoid": "0.25", "tanh": "1", "relu": "1"}
    | dict.fromkeys(("gelu_sigmoid", "gelu", "gelu_tanh"), "1.0998"),
}
"""Place in the paper → activation → printed number, the same for all forms of GELU."""


def cases(
    *, pairs: int, seed: int = 0, functions: Mapping[str, Function] = FUNCTIONS
) -> list[dict[str, Any]]:
    """Return one row (:data:`COLUMNS`) for every activation and every place in the paper that mentions it.

    Args:
        pairs: number of random pairs, from N(0, 9).
        functions: name (a key of :data:`FUNCTIONS`) → function to examine.

    Raises:
        ValueError: no pairs, or an unknown activation.
    """
    if pairs < 1:
        raise ValueError(f"pairs is {pairs}; allowed: 1 or more")
    rows = []
    for name, function in functions.items():
        if name not in FUNCTIONS:
            raise ValueError(f"activation {name!r}; allowed: {', '.join(FUNCTIONS)}")
        at, norm = steepest(function)
        secant = largest_secant(function, at, pairs, seed)
        bound = constant(name)
        same = abs(norm - bound) <= ROUNDING * bound
        near = bound * (1 - DIFFERENCES) <= secant <= bound * (1 + ROUNDING)
        for place, said in PRINTED.items():
            printed = said[name]
            agrees = norm <= 1 + ROUNDING if place == SECTION else rounds_to(norm, printed)
            values = (name, place, at, norm, secant, bound, float(printed), same and near, agrees)
            rows.append(dict(zip(COLUMNS, values)))
    return rows


def curves(
    *, reach: float, points: int, functions: Mapping[str, Function] = FUNCTIONS
) -> list[dict[str, Any]]:
    """Return value and slope (:data:`CURVE_COLUMNS`) at ``points`` numbers from -reach to reach.

    Raises:
        ValueError: a reach that is not positive, or fewer than 2 points.
    """
    if not reach > 0 or points < 2:
        raise ValueError(f"reach is {reach}, points {points}; allowed: above 0, and 2 or more")
    x = symmetric(reach, points)
    return [
        dict(zip(CURVE_COLUMNS, (name, *numbers)))
        for name, function in functions.items()
        for numbers in zip(x.tolist(), function(x).tolist(), slope(function, x).tolist())
    ]


def symmetric(reach: float, points: int) -> Tensor:
    """Return ``points`` evenly spaced numbers from -reach to reach; for an odd count, the middle one is exactly 0."""
    return reach * torch.arange(1 - points, points, 2, dtype=torch.float64) / (points - 1)


def constant(name: str) -> float:
    """Lip(f) by formula: σ'(0) = σ(0)(1 - σ(0)), tanh'(0) = 1, ReLU'(x) = 1 for x > 0, GELU by :func:`gelu_constant`."""
    if name in ("tanh", "relu"):
        return 1.0
    if name == "sigmoid":
        half = float(torch.sigmoid(torch.zeros((), dtype=torch.float64)))
        return half * (1 - half)
    return gelu_constant(name.removeprefix("gelu").removeprefix("_") or "erf")


def slope(function: Function, x: Tensor) -> Tensor:
    """Return f'(x), entry by entry."""
    x = x.detach().requires_grad_()
    return torch.autograd.grad(function(x).sum(), x)[0]


def bend(function: Function, x: Tensor) -> Tensor:
    """Return f''(x), entry by entry; 0 where f' is constant."""
    x = x.detach().requires_grad_()
    (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    if not first.requires_grad:
        return torch.zeros_like(x)
    return torch.autograd.grad(first.sum(), x)[0]


def steepest(function: Function) -> tuple[float, float]:
    """Return the point of the largest |f'| in [-10, 10] and its value; the first point in case of ties."""
    from scipy.optimize import brentq

    def second(x: float) -> float:
        return float(bend(function, torch.tensor(x, dtype=torch.float64)))

    grid = symmetric(REACH, GRID)
    bends = bend(function, grid)
    turns = (bends[:-1] * bends[1:] < 0).nonzero().flatten().tolist()
    found = [float(brentq(second, float(grid[i]), float(grid[i + 1]), xtol=1e-14)) for i in turns]
    places = torch.cat([grid, torch.tensor(found, dtype=torch.float64)])
    slopes = slope(function, places).abs()
    best = int(slopes.argmax())
    return float(places[best]), float(slopes[best])


def largest_secant(function: Function, at: float, pairs: int, seed: int = 0) -> float:
    """Return the largest |f(x) - f(y)| / |x - y| over ``pairs`` random pairs and the pair ``at`` ± 0.0005."""
    drawn = 3 * torch.randn(2, pairs, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    close = torch.tensor([[at - CLOSE / 2], [at + CLOSE / 2]], dtype=torch.float64)
    x, y = torch.cat([drawn, close], dim=1)
    return float(((function(x) - function(y)) / (x - y)).abs().max())


def rounds_to(value: float, printed: str) -> bool:
    """Return whether ``value``, rounded half up to the digits of ``printed``, equals ``printed``."""
    wanted = Decimal(printed)
    return Decimal(value).quantize(wanted, ROUND_HALF_UP) == wanted
