"""invert_residual: invert y = x + c f(x), with f self-attention, by the iteration x <- y - c f(x).

Source: kim2020, figures 3, 5 and 6.

Settings: attention (dp | l2 | l2_tied | contractive), weights (random | trained), length, dim, heads, batch (sequences), c (a list),
iterations. Input: network, if weights is trained. For the random inputs and weights, and for details that the paper does not state, see
:mod:`relearn.studies.l2_attention.steps.layer_under_test`.

Outputs:
- errors.csv: c, iteration (0 is x = y), error_max and error_median over the sequences, residual_max. The error of a sequence is the largest
  entry of |x_k - x|, in the units of x. A sequence that reaches an exact fixed point in floating-point arithmetic stays there.
- ranges.csv: spread, c, error_max after the last iteration for a few inputs from U[-spread, spread]. It shows how much the result depends
  on the range of the inputs, which the paper does not state.

Metrics: error_final_max and _min (over c, after the last iteration), converged_count (values of c with a final error below 1e-4), c_count,
inputs_count; bound: a Lipschitz constant (p = inf) of f at this length, if one is known; the inverse is guaranteed to exist for c below
its reciprocal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from relearn.steps.csv_rows import write_rows
from relearn.studies.l2_attention.steps.layer_under_test import OnLayer, layer_of, zero_token_inputs

NEEDS_TORCH = True
ERRORS = ("c", "iteration", "error_max", "error_median", "residual_max")
RANGES = ("spread", "c", "error_max")
SPREADS = (1.0, 3.0, 10.0, 30.0, 100.0)
FEW = 8  # sequences per additional range
INVERTED = 1e-4  # threshold of the claim


@dataclass(frozen=True, kw_only=True)
class Settings(OnLayer):
    weights: Literal["random", "trained"]
    batch: int
    c: Sequence[float]
    iterations: int


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import torch

    from relearn.measures.inversion import invert
    from relearn.runs.console import Progress

    layer = layer_of(settings, inputs, run.seed, device)
    size = (settings.length, settings.dim)
    rows: list[Sequence[Any]] = []
    ranges: list[Sequence[Any]] = []
    done = 0

    def history(c: float, count: int, spread: float | None = None) -> Any:
        nonlocal done
        x = zero_token_inputs(count, *size, run.seed, device, *(() if spread is None else (spread,)))
        with torch.no_grad():
            y = x + c * layer(x)
        found = invert(layer, y, c=c, iterations=settings.iterations, truth=x)
        done += 1
        progress(done, len(settings.c) * (1 + len(SPREADS)))
        return found

    with Progress(f"invert_residual {settings.attention} {size[0]}x{size[1]}") as progress:
        for c in settings.c:
            found = history(c, settings.batch)
            worst, middle = found.errors.amax(1), found.errors.median(1).values
            last = found.iterations
            rows += [
                (
                    c,
                    k,
                    float(worst[min(k, last)]),
                    float(middle[min(k, last)]),
                    float(found.residuals[min(k, last)].max()),
                )
                for k in range(settings.iterations + 1)
            ]
        for spread in SPREADS:
            ranges += [(spread, c, float(history(c, FEW, spread).errors[-1].max())) for c in settings.c]
    write_rows(run.output("errors.csv"), ERRORS, rows)
    write_rows(run.output("ranges.csv"), RANGES, ranges)
    finals = [row[2] for row in rows if row[1] == settings.iterations]
    run.finish(
        {
            "error_final_max": max(finals),
            "error_final_min": min(finals),
            "converged_count": sum(error < INVERTED for error in finals),
            "c_count": len(finals),
            "inputs_count": settings.batch,
            **_bound(layer, settings.length),
        },
        notes=[
            "float64",
            "inputs U[-10, 10] with token 0 at zero; range and start of the weights are ours, see ranges.csv",
        ],
    )


def _bound(layer: Any, length: int) -> dict[str, float]:
    """The bound of theorem 3.2 at p = inf for tied layers; for a contractive layer, the constant to which it was scaled."""
    if getattr(layer, "contractive", None) == "inf":
        return {"bound": float(layer.scale)}
    if getattr(layer, "tied", False):
        return {"bound": float(layer.lipschitz_bound(length))}
    return {}
