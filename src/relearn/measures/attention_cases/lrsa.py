r"""Derivatives of Lipschitz-regularised self-attention compared with the printed (ye2023, appendix B) and corrected bounds.

There is one head; value and output maps are the identity; eps = 0 except in the last case:

=====================  ==================================================================================================
case                   inputs
=====================  ==================================================================================================
reversed               erratum Y2, the last expression of the proof; rows (0.01, 1), (0.01, -1), (0, 2), W_Q = e_1, W_K = e_2
probability            Y3, the bound 6c/q on P; rows (0.001, 0), (0, 1), the same maps, α = 0.001
score                  Y3, the bound 3c/q on S; rows (0.01, 0), (0, 1), α = 1
row_sum                Y4, two parallel tokens of 900 numbers: the ∞-norm of a row is the sum of its absolute values
scale                  Y5, a fixed draw times t: P is unchanged, and its derivative is that at t = 1 divided by t
output                 Y5, rows (t, 1), (2t, -1), (0, 2): the derivative of P X is scale-invariant and grows as q/m decreases
random                 random X and maps over many orders of magnitude
published              197 tokens of 384 numbers, the size in the published networks: output, and the first row of P
eps                    the draw of ``scale`` with eps > 0, which bounds the derivative for all X
=====================  ==================================================================================================

=============  ==========================================================================================================
column         meaning
=============  ==========================================================================================================
quantity       score (S), probability (P): largest ‖∂S_ij/∂x_k‖ or ‖∂P_ij/∂x_k‖; output: ‖J‖_2 of X ↦ P X
norm_kind      two | one (sum of the row's absolute values, i.e. ‖·‖_∞ of a 1 x D matrix)
length ...     N, D, α, eps; spread: t, or the number of the draw
q, m           denominators of LRSA
norm           exact
printed        the printed bound under test; empty for output and eps
bound          the corrected bound: "tight" for probability (times √D for norm_kind one), the global bound for eps
holds          norm <= bound; for scale also: t times norm equals the norm at t = 1, to 1e-6
printed_holds  norm <= printed; empty if printed is empty
=============  ==========================================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relearn.maths.lrsa_bounds import (
    global_probability_bound,
    output_bound,
    probability_bound,
    score_bound,
)
from relearn.measures.attention_cases.exact import exact
from relearn.measures.lipschitz.jacobian import jacobian, jacobian_norm

COLUMNS = (
    *("case", "quantity", "norm_kind", "length", "dim", "alpha", "eps", "spread", "q", "m"),
    *("norm", "printed", "bound", "holds", "printed_holds"),
)
ROUNDING = 1e-9
SAME = 1e-6
TOKENS, WIDTH = 197, 384  # of DeiT III-S at 224 x 224
ITERATIONS = 50
Make = Callable[[int, float, float], nn.Module]


def cases(
    make: Make,
    *,
    lengths: Sequence[int],
    dims: Sequence[int],
    spreads: Sequence[float],
    draws: int,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Return one row (:data:`COLUMNS`) for every case above.

    Args:
        make: (width, α, eps) → a layer with one head and with ``scores``, ``probabilities`` and ``denominators``.
        lengths, dims: sizes of the cases scale, random and eps.
        spreads: values of t for scale, output and eps; the first must be 1.
        draws: number of draws per size for random.

    Raises:
        ValueError: spreads that do not start with 1.
    """
    if not spreads or spreads[0] != 1:
        raise ValueError(f"spreads: {list(spreads)} (allowed: 1, followed by others)")
    rows = [*counter_examples(make), *_outputs(make, spreads), *_published(make, seed)]
    for length in lengths:
        for dim in dims:
            rows += [*_scales(make, length, dim, spreads, seed), *_random(make, length, dim, draws, seed)]
    return [{column: row[column] for column in COLUMNS} for row in rows]


def counter_examples(make: Make) -> list[dict[str, Any]]:
    """Return the rows of the cases reversed, probability, score and row_sum."""
    e1, e2 = _column(2, 0), _column(2, 1)
    w = torch.full((900, 1), 1 / 30, dtype=torch.float64)

    def row(
        name: str, quantity: str, kind: str, x: Tensor, wq: Tensor, wk: Tensor, alpha: float
    ) -> dict[str, Any]:
        form = "last" if name == "reversed" else "printed"
        return {"case": name, "spread": None} | _row(make, quantity, kind, x, wq, wk, alpha, form=form)

    return [
        row("reversed", "probability", "two", _rows((0.01, 1), (0.01, -1), (0, 2)), e1, e2, 1.0),
        row("probability", "probability", "two", _rows((0.001, 0), (0, 1)), e1, e2, 0.001),
        row("score", "score", "two", _rows((0.01, 0), (0, 1)), e1, e2, 1.0),
        row("row_sum", "probability", "one", torch.cat([w.T, -1.01 * w.T]), w, -w, 0.5),
    ]


def _published(make: Make, seed: int) -> Iterator[dict[str, Any]]:
    x, wq, wk = _draw(TOKENS, WIDTH, torch.Generator().manual_seed(seed))
    root = math.sqrt(WIDTH)
    for quantity in ("output", "probability"):
        found = _row(make, quantity, "two", x, wq / root, wk / root, math.sqrt(TOKENS), queries=1)
        yield {"case": "published", "spread": None} | found


def _outputs(make: Make, spreads: Sequence[float]) -> Iterator[dict[str, Any]]:
    for t in spreads:
        x = _rows((t, 1), (2 * t, -1), (0, 2))
        found = _row(make, "output", "two", x, _column(2, 0), _column(2, 1), 1.0)
        yield {"case": "output", "spread": t} | found


def _scales(
    make: Make, length: int, dim: int, spreads: Sequence[float], seed: int
) -> Iterator[dict[str, Any]]:
    x, wq, wk = _draw(length, dim, torch.Generator().manual_seed(seed))
    first = math.nan
    for t in spreads:
        row = _row(make, "probability", "two", t * x, wq, wk, 1.0)
        first = row["norm"] if t == 1 else first
        same = abs(row["norm"] * t - first) <= SAME * first
        yield {"case": "scale", "spread": t} | row | {"holds": row["holds"] and same}
    for t in spreads:
        row = _row(make, "probability", "two", t * x, wq, wk, 1.0, eps=0.1)
        bound = float(global_probability_bound(wq, wk, alpha=1.0, eps=0.1, length=length))
        holds = row["norm"] <= bound * (1 + ROUNDING)
        none = {"printed": None, "printed_holds": None}
        yield {"case": "eps", "spread": t} | row | none | {"bound": bound, "holds": holds}


def _random(make: Make, length: int, dim: int, draws: int, seed: int) -> Iterator[dict[str, Any]]:
    generator = torch.Generator().manual_seed(seed)
    for index in range(draws):
        x, wq, wk = _draw(length, dim, generator)
        sizes = 10 ** torch.randn(4, generator=generator, dtype=torch.float64)
        x = x * 10 ** torch.randn(length, dim, generator=generator, dtype=torch.float64)
        for quantity in ("score", "probability", "output"):
            found = _row(make, quantity, "two", sizes[0] * x, sizes[1] * wq, sizes[2] * wk, float(sizes[3]))
            yield {"case": "random", "spread": index} | found


def _row(
    make: Make,
    quantity: str,
    kind: str,
    x: Tensor,
    wq: Tensor,
    wk: Tensor,
    alpha: float,
    *,
    eps: float = 0.0,
    form: str = "printed",
    queries: int | None = None,
) -> dict[str, Any]:
    """Measure the layer at x (N, D) with these maps (D, d), d <= D, and compute the bounds.

    ``queries``: of S and P only the rows of the first queries, whose norm is a lower bound of that over all.
    """
    length, dim = x.shape
    layer = exact(make(dim, alpha, eps))
    _set(layer, wq, wk)
    q, m = (float(one.squeeze()) for one in layer.denominators(x))
    given: dict[str, Any] = {"alpha": alpha, "q": q, "m": m}
    printed: float | None = None
    if quantity == "output":
        norm = jacobian_norm(layer, x, "two", iterations=ITERATIONS).value  # a lower bound for large layers
        bound = float(output_bound(wq, wk, length=length, **given))
    else:
        look = layer.scores if quantity == "score" else layer.probabilities
        found = jacobian(lambda x: look(x)[..., :queries, :], x).unflatten(1, (length, dim))
        norm = float(torch.linalg.vector_norm(found, ord=2 if kind == "two" else 1, dim=-1).max())
        if quantity == "score":
            printed = float(score_bound(wq, wk, form="printed", **given))
            bound = float(score_bound(wq, wk, **given))
        else:
            size = torch.linalg.matrix_norm(x)
            printed = float(probability_bound(wq, wk, length=length, form=form, size=size, **given))
            bound = float(probability_bound(wq, wk, length=length, **given))
            bound *= math.sqrt(dim) if kind == "one" else 1
    return given | {
        "quantity": quantity,
        "norm_kind": kind,
        "length": length,
        "dim": dim,
        "eps": eps,
        "norm": norm,
        "printed": printed,
        "bound": bound,
        "holds": norm <= bound * (1 + ROUNDING),
        "printed_holds": None if printed is None else norm <= printed * (1 + ROUNDING),
    }


def _set(layer: Any, wq: Tensor, wk: Tensor) -> None:
    """Set query and key maps, zero-padded to (D, D) (distances are unchanged), and the identity as value and output map."""
    for one, matrix in ((layer.q, wq), (layer.k, wk)):
        one.weight.zero_()
        one.weight[: matrix.shape[1]] = matrix.T
    for one in (layer.v, layer.out):
        nn.init.eye_(one.weight)


def _draw(length: int, dim: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    shapes = ((length, dim), (dim, dim), (dim, dim))
    x, wq, wk = (torch.randn(*one, generator=generator, dtype=torch.float64) for one in shapes)
    return x, wq, wk


def _rows(*rows: tuple[float, float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def _column(dim: int, index: int) -> Tensor:
    return torch.eye(dim, dtype=torch.float64)[:, index : index + 1]
