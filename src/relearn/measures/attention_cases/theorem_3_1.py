r"""Dot-product attention has no Lipschitz constant: its Jacobian at a zero token (kim2020, theorem 3.1, appendices C and D).

At :math:`x_i = 0` row i attends uniformly, whatever the other tokens are, and with :math:`A_h = W^{K,h} W^{Q,h\top} / s`

.. math:: \frac{\partial F_i}{\partial x_i} = \sum_h (W^{V,h} W^{O,h})^\top \Bigl[\mathrm{Cov}(x)\, A_h + \tfrac1N I\Bigr]

where Cov is the covariance of the N tokens with weights 1/N, and W^{O,h} the rows of W^O for head h. It grows with the square of the
spread of the others. With biases the same holds at the x_i for which :math:`W^{Q,h\top} x_i + b^{Q,h} = 0` for every head; the bias of
the keys shifts all logits of a row equally (appendix D). Control: tied L2 attention stays below theorem 3.2's bound at the same tokens.

=============  ==========================================================================================
column         meaning
=============  ==========================================================================================
attention      dp, dp_bias (biases b^Q, b^K ~ N(0, 1)), l2_tied
length ...     N, D, H; spread: the other tokens are spread times a fixed normal draw
norm           exact :math:`\|J_F\|_\infty` at these inputs
block_norm     :math:`\|\partial F_i/\partial x_i\|_\infty`, exact, i = 0
predicted      the same by the formula above; empty for l2_tied
formula_error  largest difference between the two blocks, divided by the largest entry; empty for l2_tied
bound          theorem 3.2 at p = inf; empty for dp
holds          dp: formula_error at most 1e-9, and block_norm larger than at the next smaller spread; l2_tied: norm <= bound
=============  ==========================================================================================

The norm of the whole Jacobian is at least that of the block, but need not increase from one spread to the next: with biases, token i is
far away, and at a small spread the rows of the other tokens can be larger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relearn.measures.attention_cases.exact import exact
from relearn.measures.lipschitz.jacobian import jacobian, jacobian_norm

COLUMNS = (
    *("attention", "length", "dim", "heads", "spread"),
    *("norm", "block_norm", "predicted", "formula_error", "bound", "holds"),
)
KINDS = ("dp", "dp_bias", "l2_tied")
FORMULA = 1e-9
ROUNDING = 1e-9


def cases(
    make: Mapping[str, Callable[[int, int], nn.Module]],
    *,
    lengths: Sequence[int],
    dims: Sequence[int],
    heads: int,
    spreads: Sequence[float],
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Return one row (:data:`COLUMNS`) for every kind, length, width and spread.

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
            cloud = torch.randn(
                length - 1, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
            )
            for kind in KINDS:
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(seed)
                    layer = exact(make[kind](dim, heads))
                    if kind == "dp_bias":
                        nn.init.normal_(layer.q.bias)
                        nn.init.normal_(layer.k.bias)
                before = 0.0
                for spread in spreads:
                    row = _case(kind, layer, torch.cat([_zero_logits(kind, layer), spread * cloud]), before)
                    before = row["block_norm"]
                    rows.append({**row, "length": length, "dim": dim, "heads": heads, "spread": spread})
    return [{column: row[column] for column in COLUMNS} for row in rows]


def predicted_block(layer: Any, x: Tensor) -> Tensor:
    """Evaluate the formula for the block of token 0, (D, D), whose attention is uniform; x (N, D)."""
    wq, wk, wv, wo = layer.maps()
    centred = x - x.mean(0)
    covariance = centred.T @ centred / len(x)
    inner = covariance @ wk @ wq.mT / wq.shape[-1] ** 0.5 + torch.eye(x.shape[1], dtype=x.dtype) / len(x)
    outer = (wv @ wo.unflatten(0, (len(wv), -1))).mT
    return (outer @ inner).sum(0)


def _zero_logits(kind: str, layer: Any) -> Tensor:
    """Return the token (1, D) that attends uniformly: zero, or with biases the solution of W^Q^T x + b^Q = 0 for all heads."""
    weight: Tensor = layer.q.weight
    if kind != "dp_bias":
        return weight.new_zeros(1, weight.shape[1])
    return torch.linalg.solve(weight, -layer.q.bias)[None]


def _case(kind: str, layer: Any, x: Tensor, before: float) -> dict[str, Any]:
    norm = jacobian_norm(layer, x, "inf").value
    block = jacobian(lambda z: layer(z)[0], x)[:, : x.shape[1]]
    row: dict[str, Any] = {"attention": kind, "norm": norm, "block_norm": float(block.abs().sum(1).max())}
    if kind == "l2_tied":
        bound = float(layer.lipschitz_bound(len(x)))
        return row | {
            "predicted": None,
            "formula_error": None,
            "bound": bound,
            "holds": norm <= bound * (1 + ROUNDING),
        }
    formula = predicted_block(layer, x)
    error = float((block - formula).abs().max() / formula.abs().max())
    return row | {
        "predicted": float(formula.abs().sum(1).max()),
        "formula_error": error,
        "bound": None,
        "holds": error <= FORMULA and row["block_norm"] > before,
    }
