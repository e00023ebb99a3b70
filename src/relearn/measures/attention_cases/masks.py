r"""Masks for which the bound of tied L2 attention holds (kim2020, appendix G prints the condition with the wrong sign: K6).

Let M be the set of hidden pairs (i, j). Theorem 3.2 still holds if every token sees itself, (i, i) not in M; the paper
prints (i, i) in M. For row i, N may be replaced by the number of tokens that it sees. If a token half-way between
two others does not see itself, then in closed form

.. math:: \frac{\partial F_i}{\partial x_i} = 2 \sum_h (W^{V,h} W^{O,h})^\top A_h\, \mathrm{Cov}_i(x)\, A_h,

with A_h = W^{Q,h} W^{Q,h\top}/s and the covariance Cov_i under the row's probabilities. This grows without bound with the distance R of the
others. For D = H = 1 with all weights 1 and three tokens 0, R, -R it is 2 R², and the largest row sum of the Jacobian tends to 4 R² - 1.

Tokens: x_0 = 0, the others alternate between R u and -R u, where u is a fixed direction with largest entry 1. Masks: none; causal;
neighbours (|i - j| at most 1); random (each pair visible with probability 1/2, the diagonal always); diagonal (all but itself).

=============  =============================================================================================================
column         meaning
=============  =============================================================================================================
mask           as above
weights        unit: D = H = 1, all weights 1; random: D and H as given
length ...     N, D, H; spread: R
self_visible   whether every token sees itself, the condition of the bound
norm           exact :math:`\|J_F\|_\infty`
bound          theorem 3.2 at p = inf for N tokens
row_share      largest ratio of the norm of block row i to the bound for the number of tokens that row i sees
predicted      norm of the block (0, 0) by the formula above; this column and the next are only filled for diagonal
formula_error  largest difference between exact block and formula, divided by the formula's largest entry (absolute if that is 0)
holds          self_visible: norm <= bound and row_share <= 1; otherwise formula_error at most 1e-9
printed_holds  norm <= bound, which the paper claims for masks that hide every token from itself; empty for other masks
=============  =============================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relearn.measures.attention_cases.exact import exact
from relearn.measures.lipschitz.jacobian import jacobian

COLUMNS = (
    *("mask", "weights", "length", "dim", "heads", "spread", "self_visible"),
    *("norm", "bound", "row_share", "predicted", "formula_error", "holds", "printed_holds"),
)
MASKS = ("none", "causal", "neighbours", "random", "diagonal")
FORMULA = 1e-9
ROUNDING = 1e-9
BLOCK = 1 << 18  # number of Jacobian entries computed at a time


def cases(
    make: Callable[[int, int], nn.Module],
    *,
    lengths: Sequence[int],
    dims: Sequence[int],
    heads: int,
    spreads: Sequence[float],
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Return one row (:data:`COLUMNS`) for every mask, layer (unit, then random), length and spread.

    Args:
        make: (width, heads) → a tied L2 layer, initialised from torch's global generator.

    Raises:
        ValueError: fewer than two tokens (a single token hidden from itself sees nothing).
    """
    rows = []
    for length in lengths:
        if length < 2:
            raise ValueError(f"lengths: {length} (allowed: at least 2 tokens)")
        for weights, dim, count in [("unit", 1, 1), *(("random", dim, heads) for dim in dims)]:
            layer = _layer(make, weights, dim, count, seed)
            for name in MASKS:
                case = {"mask": name, "weights": weights, "length": length, "dim": dim, "heads": count}
                visible = mask(name, length, seed)
                rows += [
                    case | {"spread": spread} | _case(layer, tokens(length, dim, spread, seed), visible)
                    for spread in spreads
                ]
    return [{column: row[column] for column in COLUMNS} for row in rows]


def mask(name: str, length: int, seed: int = 0) -> Tensor:
    """Return the mask (N, N), True = row i sees token j.

    Raises:
        ValueError: an unknown name.
    """
    itself = torch.eye(length, dtype=torch.bool)
    everything = torch.ones(length, length, dtype=torch.bool)
    if name not in MASKS:
        raise ValueError(f"mask: {name!r} (allowed: {', '.join(MASKS)})")
    if name == "random":
        return itself | (torch.rand(length, length, generator=torch.Generator().manual_seed(seed)) < 0.5)
    return {
        "none": everything,
        "causal": everything.tril(),
        "neighbours": everything.tril(1).triu(-1),
        "diagonal": ~itself,
    }[name]


def tokens(length: int, dim: int, spread: float, seed: int = 0) -> Tensor:
    """Return the tokens (N, D): 0, R u, -R u, R u, ..."""
    direction = torch.randn(dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    places = torch.tensor([0.0, *(1.0 - 2 * (j % 2) for j in range(length - 1))], dtype=torch.float64)
    return torch.outer(places, spread * direction / direction.abs().max())


def predicted_block(layer: Any, x: Tensor, visible: Tensor) -> Tensor:
    """Evaluate the formula for the block (0, 0), (D, D), of a token that does not see itself."""
    wq, wv, wo = layer.maps()
    a = wq @ wq.mT / wv.shape[-1] ** 0.5
    found = torch.zeros(x.shape[1], x.shape[1], dtype=x.dtype)
    for h, share in enumerate(layer.probabilities(x, mask=visible)[0, :, 0]):
        centred = x - share @ x
        covariance = centred.T @ (share[:, None] * centred)
        outer = wv[h] @ wo.unflatten(0, (len(wv), -1))[h]
        found += 2 * outer.T @ a[h] @ covariance @ a[h]
    return found


def _layer(make: Callable[[int, int], nn.Module], weights: str, dim: int, heads: int, seed: int) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = exact(make(dim, heads))
    if weights == "unit":
        for one in layer.parameters():
            one.fill_(1.0)
    return layer


def _case(layer: Any, x: Tensor, visible: Tensor) -> dict[str, Any]:
    length, dim = x.shape
    at_once = max(1, BLOCK // (x.numel() * dim))  # block rows per call
    parts = [
        jacobian(lambda z, own=own: layer(z, mask=visible)[own], x)  # type: ignore[misc]
        for own in torch.arange(length).split(at_once)
    ]
    rows = torch.cat([part.abs().sum(1).unflatten(0, (-1, dim)).amax(1) for part in parts])
    bound = float(layer.lipschitz_bound(length))
    counts = visible.sum(1).tolist()
    limits = torch.stack([layer.lipschitz_bound(length, visible=count) for count in counts])
    norm, share = float(rows.max()), float((rows / limits).max())
    row: dict[str, Any] = {"norm": norm, "bound": bound, "row_share": share}
    if bool(visible.diagonal().all()):
        holds = norm <= bound * (1 + ROUNDING) and share <= 1 + ROUNDING
        empty = dict.fromkeys(("predicted", "formula_error", "printed_holds"))
        return row | {"self_visible": True, "holds": holds} | empty
    formula = predicted_block(layer, x, visible)
    scale = float(formula.abs().max()) or 1.0
    error = float((parts[0][:dim, :dim] - formula).abs().max()) / scale
    return row | {
        "self_visible": False,
        "predicted": float(formula.abs().sum(1).max()),
        "formula_error": error,
        "holds": error <= FORMULA,
        "printed_holds": norm <= bound * (1 + ROUNDING),
    }
