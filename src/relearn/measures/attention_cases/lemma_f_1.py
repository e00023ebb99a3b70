r"""L2 attention with W^K ≠ W^Q has no Lipschitz constant (kim2020, lemma F.1), and the coefficient printed there (erratum K4).

One head, :math:`y_j = W^{Q\top} x_i - W^{K\top} x_j`. The construction takes any x_i and places all other tokens such that
:math:`y_j = -y_i`, which is possible because W^K has full rank. All :math:`|y_j|` are then equal, row i attends uniformly, and for
:math:`\tilde f(X) = P X` and :math:`j \ne i`

.. math:: W^{K\top}\, \frac{\partial \tilde f_i}{\partial x_j} = \frac2s\, \tilde K\, W^{K\top} + \frac1N W^{K\top}, \qquad
          \tilde K = -\frac{2}{N^2}\, y_i y_i^\top.

The paper prints the coefficient :math:`-(2N - 2)/N^2`, which is correct only for N = 2. It also states that y_i can be any vector,
since W^K ≠ W^Q. In fact :math:`y_i = (W^Q - W^K)^\top x_i`, so y_i is in the image of that matrix. A difference of
rank 1 already makes the Jacobian unbounded (erratum K5). Control: the tied layer stays below its bound at the same tokens.

=============  ===================================================================================================
column         meaning
=============  ===================================================================================================
attention      l2 (untied), l2_tied (the control, W^K := W^Q); both with A_h
weights        random; rank_one: W^K = I, W^Q = I + e_1 e_1^T (only for D > 1)
length, dim    N, D (one head)
spread         :math:`|y_i|_2`
rank           of W^Q - W^K
coefficient    from the exact Jacobian: :math:`y_i^\top \tilde K y_i / |y_i|^4`; this and the next three are empty for l2_tied
exact          :math:`-2/N^2`
printed        :math:`-(2N - 2)/N^2`
formula_error  largest absolute difference of :math:`\tilde K` from the formula, divided by the formula's largest entry
norm           exact :math:`\|J_F\|_\infty` of the layer, with its W^V and W^O
bound          theorem 3.2 at p = inf for the tied layer
holds          l2: formula_error at most 1e-6, and norm larger than at the next smaller spread; l2_tied: norm <= bound
printed_holds  the coefficient equals the printed one to 1e-6; empty for l2_tied
=============  ===================================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relearn.measures.attention_cases.exact import exact
from relearn.measures.lipschitz.jacobian import jacobian, jacobian_norm

COLUMNS = (
    *("attention", "weights", "length", "dim", "spread", "rank"),
    *("coefficient", "exact", "printed", "formula_error", "norm", "bound", "holds", "printed_holds"),
)
KINDS = ("l2", "l2_tied")
FORMULA = 1e-6  # the tokens are far apart, so differences of logits have few accurate digits
ROUNDING = 1e-9


def cases(
    make: Mapping[str, Callable[[int, int], nn.Module]],
    *,
    lengths: Sequence[int],
    dims: Sequence[int],
    spreads: Sequence[float],
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Return one row (:data:`COLUMNS`) for every attention, pair of weights, length, width and spread.

    Args:
        make: name in :data:`KINDS` → function (width, heads) → layer, initialised from torch's global generator.
        spreads: in ascending order.

    Raises:
        ValueError: fewer than two tokens.
    """
    rows = []
    for length in lengths:
        if length < 2:
            raise ValueError(f"lengths: {length} (allowed: at least 2 tokens)")
        for dim in dims:
            for weights in ("random", "rank_one") if dim > 1 else ("random",):
                untied, tied = _layers(make, dim, weights, seed)
                direction = torch.randn(
                    dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
                )
                before = 0.0
                for spread in spreads:
                    x, y = construction(untied.q.weight, untied.k.weight, length, spread, direction)
                    found = [_untied(untied, x, y, before), _tied(tied, x)]
                    before = found[0]["norm"]
                    rank = int(torch.linalg.matrix_rank(untied.q.weight - untied.k.weight))
                    case = {"weights": weights, "length": length, "dim": dim, "spread": spread, "rank": rank}
                    rows += [row | case for row in found]
    return [{column: row[column] for column in COLUMNS} for row in rows]


def construction(
    q: Tensor, k: Tensor, length: int, spread: float, direction: Tensor
) -> tuple[Tensor, Tensor]:
    """Return tokens x (N, D) with y_j = -y_0 for all j > 0 and |y_0| = spread, and y_0 (D,).

    Args:
        q, k: the transposes of W^Q and W^K, (D, D); k of full rank.
        direction: direction of x_0, (D,), not in the kernel of q - k.
    """
    first = direction * (spread / torch.linalg.vector_norm((q - k) @ direction))
    y = (q - k) @ first
    others = torch.linalg.solve(k, q @ first + y)
    return torch.cat([first[None], others.expand(length - 1, -1)]), y


def coefficient_matrix(layer: Any, x: Tensor) -> Tensor:
    r"""Return :math:`\tilde K` for row 0 and token 1, (D, D), from the exact Jacobian of P X."""
    q_row = jacobian(lambda z: layer.probabilities(z)[0, 0, 0] @ z, x)
    width, k = x.shape[1], layer.k.weight
    block = q_row[:, width : 2 * width]
    share = torch.eye(width, dtype=x.dtype) / len(x)
    return math.sqrt(width) / 2 * (k @ block @ torch.linalg.inv(k) - share)


def _layers(
    make: Mapping[str, Callable[[int, int], nn.Module]], dim: int, weights: str, seed: int
) -> tuple[Any, Any]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        untied, tied = (exact(make[kind](dim, 1)) for kind in KINDS)
    with torch.no_grad():
        if weights == "rank_one":
            untied.k.weight.copy_(torch.eye(dim))
            untied.q.weight.copy_(torch.eye(dim))
            untied.q.weight[0, 0] += 1
        for name in ("q", "v", "out"):
            getattr(tied, name).weight.copy_(getattr(untied, name).weight)
    return untied, tied


def _untied(layer: Any, x: Tensor, y: Tensor, before: float) -> dict[str, Any]:
    n = len(x)
    found, formula = coefficient_matrix(layer, x), -2 / n**2 * torch.outer(y, y)
    coefficient = float(y @ found @ y / (y @ y) ** 2)
    error = float((found - formula).abs().max() / formula.abs().max())
    norm = jacobian_norm(layer, x, "inf").value
    printed = -(2 * n - 2) / n**2
    return {
        "attention": "l2",
        "coefficient": coefficient,
        "exact": -2 / n**2,
        "printed": printed,
        "formula_error": error,
        "norm": norm,
        "bound": None,
        "holds": error <= FORMULA and norm > before,
        "printed_holds": abs(coefficient / printed - 1) <= FORMULA,
    }


def _tied(layer: Any, x: Tensor) -> dict[str, Any]:
    norm, bound = jacobian_norm(layer, x, "inf").value, float(layer.lipschitz_bound(len(x)))
    empty = ("coefficient", "exact", "printed", "formula_error", "printed_holds")
    own = {"attention": "l2_tied", "norm": norm, "bound": bound, "holds": norm <= bound * (1 + ROUNDING)}
    return own | dict.fromkeys(empty)
