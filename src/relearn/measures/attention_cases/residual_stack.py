r"""Stacks of residual branches and theorem 2 of qi2023: :math:`\mathrm{Lip} \le e^\kappa` if α is one over the number of branches.

=============  ==========================================================================================================
case           stack
=============  ==========================================================================================================
lipsformer     blocks of an attention and a feed-forward branch, each followed by CenterNorm; weights with largest singular
               value 1; the largest norm over several draws of tokens
constant       one block of two constant branches (κ = 0), each followed by CenterNorm: norm (D/(D-1))² (erratum Q13)
identity       blocks of three branches f(x) = x without norm, α = 1 / number of BLOCKS: norm (1 + α)^(3 blocks)
negative       one branch f(x) = -x with α = -0.9: the printed bound 1 + max(α) is 0.1 (Q11)
=============  ==========================================================================================================

=============  ==========================================================================================================
column         meaning
=============  ==========================================================================================================
blocks ...     blocks, total number of branches, N, D, α, ε (for lipsformer)
kappa          largest bound on a branch: theorem 1 (tight) and W^O; for feed-forward the constant of GELU
norm           exact :math:`\|J\|_2` of the stack
product        product of the blocks' exact norms at their inputs
printed        :math:`e^\kappa`; for negative 1 + max(α) Lip f
corrected      :math:`\prod (1 + |\alpha| \mathrm{Lip} f_i) \prod_{\mathrm{CN}} \frac{D}{D-1}`
holds          norm <= product <= corrected
printed_holds  norm <= printed
=============  ==========================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from relearn.maths.network_bounds import centre_norm_constant, gelu_constant, residual_bound
from relearn.maths.spectral_draw import spectral_normal_
from relearn.measures.attention_cases.exact import exact
from relearn.measures.lipschitz.jacobian import jacobian_norm

COLUMNS = (
    *("case", "blocks", "branches", "length", "dim", "alpha", "eps"),
    *("kappa", "norm", "product", "printed", "corrected", "holds", "printed_holds"),
)
ROUNDING = 1e-9
DRAWS = 4
Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Parts:
    """Constructors of the parts, each initialised from torch's global generator.

    Attributes:
        attention: (width, heads, ε) → a layer with ``lipschitz_bound(length)`` and linear layers.
        norm: width → CenterNorm.
        join: (width, α) → the module that adds a branch to the stream: ``join(x, branch)``.
    """

    attention: Callable[[int, int, float], nn.Module]
    norm: Callable[[int], nn.Module]
    join: Callable[[int, float], nn.Module]


def cases(
    parts: Parts,
    *,
    blocks: Sequence[int],
    lengths: Sequence[int],
    dims: Sequence[int],
    heads: int,
    eps: Sequence[float],
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Return one row (:data:`COLUMNS`) for every stack above; constant uses ``dims``, and identity uses ``blocks``.

    Raises:
        ValueError: fewer than one block.
    """
    if any(count < 1 for count in blocks):
        raise ValueError(f"blocks: {list(blocks)} (allowed: at least 1)")
    rows = []
    for count in blocks:
        for length in lengths:
            for dim in dims:
                rows += [_lipsformer(parts, count, length, dim, heads, one, seed) for one in eps]
        rows.append(_identity(parts, count))
    rows += [_constant(parts, dim) for dim in sorted({2, *dims})]
    rows.append(_negative(parts))
    return [{column: row.get(column) for column in COLUMNS} for row in rows]


def _lipsformer(
    parts: Parts, count: int, length: int, dim: int, heads: int, eps: float, seed: int
) -> dict[str, Any]:
    alpha = 1 / (2 * count)
    stack: list[Map] = []
    constants: list[float] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _ in range(count):
            attention = exact(parts.attention(dim, heads, eps))
            feed = exact(nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)))
            for layer in (*attention.modules(), *feed.modules()):
                if isinstance(layer, nn.Linear):
                    spectral_normal_(layer.weight)
            constants += [float(attention.lipschitz_bound(length)), gelu_constant()]
            halves = [_half(parts, dim, alpha, branch, norm=True) for branch in (attention, feed)]
            stack.append(_chain(halves))
        tokens = torch.randn(DRAWS, 1, length, dim, dtype=torch.float64)
    # the last draw is close to the origin, where attention is steepest
    scale = torch.ones(DRAWS, 1, 1, 1, dtype=torch.float64)
    scale[-1] = eps**0.5
    measured = [_measure(stack, one) for one in scale * tokens]
    row = {"case": "lipsformer", "blocks": count, "length": length, "dim": dim, "alpha": alpha, "eps": eps}
    norms = [float(centre_norm_constant(dim))] * (2 * count)
    return row | _judge(measured, constants, alpha, norms)


def _constant(parts: Parts, dim: int) -> dict[str, Any]:
    shift = torch.ones(dim, dtype=torch.float64)
    halves = [_half(parts, dim, 0.5, lambda x: shift.expand_as(x), norm=True) for _ in range(2)]
    x = torch.randn(1, 1, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    norms = [float(centre_norm_constant(dim))] * 2
    row = {"case": "constant", "blocks": 1, "length": 1, "dim": dim, "alpha": 0.5}
    return row | _judge([_measure([_chain(halves)], x)], [0.0, 0.0], 0.5, norms)


def _identity(parts: Parts, count: int) -> dict[str, Any]:
    block = _chain([_half(parts, 2, 1 / count, lambda x: x, norm=False)] * 3)
    row = {"case": "identity", "blocks": count, "length": 1, "dim": 2, "alpha": 1 / count}
    x = torch.ones(1, 1, 2, dtype=torch.float64)
    return row | _judge([_measure([block] * count, x)], [1.0] * (3 * count), 1 / count, [])


def _negative(parts: Parts) -> dict[str, Any]:
    half = _half(parts, 2, -0.9, lambda x: -x, norm=False)
    row = {"case": "negative", "blocks": 1, "length": 1, "dim": 2, "alpha": -0.9}
    judged = _judge([_measure([half], torch.ones(1, 1, 2, dtype=torch.float64))], [1.0], -0.9, [])
    printed = 1 - 0.9
    return row | judged | {"printed": printed, "printed_holds": judged["norm"] <= printed}


def _half(parts: Parts, dim: int, alpha: float, branch: Map, *, norm: bool) -> Map:
    join = exact(parts.join(dim, alpha))
    join.alpha.fill_(alpha)  # the float64 value, not one rounded to float32
    after: Map = exact(parts.norm(dim)) if norm else nn.Identity()
    return lambda x: after(join(x, branch(x)))


def _chain(maps: Sequence[Map]) -> Map:
    def run(x: Tensor) -> Tensor:
        for one in maps:
            x = one(x)
        return x

    return run


def _measure(stack: Sequence[Map], x: Tensor) -> tuple[float, float]:
    """Return the norm of the whole stack, and the product of the blocks' norms at their inputs."""
    whole = jacobian_norm(_chain(stack), x, "two", method="exact").value
    product = 1.0
    for block in stack:
        product *= jacobian_norm(block, x, "two", method="exact").value
        x = block(x)
    return whole, product


def _judge(
    measured: Sequence[tuple[float, float]], constants: Sequence[float], alpha: float, norms: Sequence[float]
) -> dict[str, Any]:
    printed = residual_bound(constants, form="printed")
    corrected = residual_bound(constants, alpha=alpha, others=norms)
    up = 1 + ROUNDING
    norm, product = (max(column) for column in zip(*measured))
    return {
        "branches": len(constants),
        "kappa": max(constants),
        "norm": norm,
        "product": product,
        "printed": printed,
        "corrected": corrected,
        "holds": all(one <= many * up for one, many in measured) and product <= corrected * up,
        "printed_holds": norm <= printed * up,
    }
