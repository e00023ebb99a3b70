"""lipschitz_lower_bound: maximise the norm of an attention layer's Jacobian over its inputs.

The maximisation is a gradient ascent on the input. Source: kim2020, figures 2, 7 and 8.

Settings: attention (dp | l2_tied), p (inf | two), length, dim, heads, weights (identity | random | trained), starts, steps, lr, spread,
top.
Input: network, if weights is trained. Each start is X_ij ~ U[-c, c] with its own c ~ U[0, spread] (appendix I). The ascent uses Adam with
learning rate lr.

With p = inf the ascent maximises the norm of the Jacobian's block row of token 0. By symmetry its supremum equals that of the whole
Jacobian (appendix F.2), and a step costs O(N). With p = two it maximises the norm of the whole Jacobian, at O(N²) per step. `row_steps`
(ours, default 0) applies to p = two: the number of initial steps on the block row of token 0, whose norm is a cheap lower bound.

The largest values, i.e. the norms of that block row or of the whole Jacobian, are recomputed in float64.

Outputs:
- ascents.csv: rank (1 is the largest), start, value, first_value (at the start), steps, above_bound (1 or 0; empty without a bound).
- curve.csv: step, rank, value: the curves of the `top` best starts at about a hundred steps each, in float32.

Metrics: largest, top_mean, growth (largest / its first value), late_rise_frac (relative rise of the largest in the last tenth
of the steps), starts_count, steps_count. For l2_tied: bound (the valid bound for this p) and ratio (largest / bound); for p = two also
bound_printed, bound_corrected and bound_tight. If D = H = 1 and weights is identity: structured, the value of the two-point construction,
which needs no ascent.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from relearn.steps.csv_rows import write_rows
from relearn.studies.l2_attention.steps.layer_under_test import OnLayer, layer_of

NEEDS_TORCH = True
ASCENTS = ("rank", "start", "value", "first_value", "steps", "above_bound")
CURVE = ("step", "rank", "value")
POINTS = 100  # points per curve
ENTRIES = (
    1 << 18
)  # attention weights (over all starts) that are computed at once; more would not fit in a CPU's cache
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Settings(OnLayer):
    attention: Literal["dp", "l2_tied"]
    weights: Literal["identity", "random", "trained"]
    p: Literal["inf", "two"]
    starts: int
    steps: int
    lr: float
    spread: float
    top: int
    row_steps: int = 0


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from relearn.runs.console import Progress

    layer = _layer(settings, inputs, run.seed, device)
    starts = _starts(settings, run.seed, device)
    with Progress(
        f"lipschitz_lower_bound {run.labels.get('suite', '')} {settings.attention} {settings.length}"
    ) as progress:
        found, curve, rise = _ascents(layer, starts, settings, run.seed, progress)
    bounds = _bounds(layer, settings)
    bound = bounds.get("bound")
    order = found.values.argsort(descending=True)
    values, first = found.values[order].tolist(), found.first_values[order].tolist()
    write_rows(
        run.output("ascents.csv"),
        ASCENTS,
        [
            (
                rank,
                start,
                value,
                at_first,
                len(curve),
                None if bound is None else int(value > bound * (1 + ROUNDING)),
            )
            for rank, (start, value, at_first) in enumerate(zip(order.tolist(), values, first), 1)
        ],
    )
    top = min(settings.top, len(values))
    last = max(len(curve) - 1, 0)
    steps = sorted({round(i * last / (POINTS - 1)) for i in range(POINTS)}) if len(curve) else []
    write_rows(
        run.output("curve.csv"),
        CURVE,
        [
            (step, rank, _number(curve[step, start]))
            for rank, start in enumerate(order[:top].tolist(), 1)
            for step in steps
        ],
    )
    metrics = {
        **bounds,
        "largest": values[0],
        "top_mean": math.fsum(values[:top]) / top,
        "growth": values[0] / first[0] if first[0] else math.inf,
        "late_rise_frac": rise,
        "starts_count": len(values),
        "steps_count": len(curve),
    }
    if bound:
        metrics["ratio"] = values[0] / bound
    notes = ["ascent in float32, values in float64"]
    if precision != "fp32":
        notes.append(f"precision {precision} plays no part here")
    run.finish(metrics, notes=notes)


def _layer(settings: Settings, inputs: dict[str, list[Path]], seed: int, device: str) -> Any:
    """The layer in float64, without a fused kernel."""
    import torch

    from relearn.layers.attention_kinds import attention

    if settings.weights == "identity":
        layer: Any = attention(settings.attention, settings.dim, settings.heads).to(device, torch.float64)
        layer.eval().requires_grad_(False)
        for weight in layer.parameters():
            torch.nn.init.eye_(weight)
    else:
        layer = layer_of(settings, inputs, seed, device)
    layer.fused = False
    return layer


def _starts(settings: Settings, seed: int, device: str) -> Any:
    """The starting points, (S, N, D) in float32.

    Each start depends only on its index, N, D, the spread and the seed, not on the number of starts, the weights or the attention.
    """
    import torch

    from relearn.steps.trained.seed import seed_of

    shape = (settings.length, settings.dim)
    drawn = []
    for number in range(settings.starts):
        which = {"start": f"{number} of {shape[0]}x{shape[1]}"}
        generator = torch.Generator().manual_seed(seed_of(which, seed, "start"))
        reach = settings.spread * torch.rand((), generator=generator, dtype=torch.float64)
        drawn.append(reach * (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1))
    return torch.stack(drawn).to(device, torch.float32)


def _ascents(layer: Any, starts: Any, settings: Settings, seed: int, progress: Any) -> tuple[Any, Any, float]:
    """The result of the ascents, their curves (steps, S), and the relative rise in the last tenth of the steps."""
    import torch

    from relearn.measures.lipschitz import ascend

    quick = copy.deepcopy(layer).float()
    norm, steps, before = settings.p, settings.steps, settings.row_steps
    common: dict[str, Any] = {"p": norm, "lr": settings.lr, "seed": seed}
    row: dict[str, Any] = {"f": lambda x: quick.row(x, 0), "exact": lambda x: layer.row(x, 0)}
    if norm == "inf":
        found = ascend(starts=starts, steps=steps, progress=progress, **row, **common)
        return found, found.curve, found.late_rise
    whole: dict[str, Any] = {"f": quick, "exact": layer, "tolerance": 1e-3}
    whole["batch"] = max(1, ENTRIES // (layer.heads * settings.length**2))
    if not before:
        found = ascend(starts=starts, steps=steps, progress=progress, **whole, **common)
        return found, found.curve, found.late_rise
    first = ascend(starts=starts, steps=0, **whole, **common).first_values
    one = ascend(starts=starts, steps=before, **row, **common)
    found = ascend(starts=one.inputs, steps=steps, progress=progress, **whole, **common)
    lower = first > found.values  # ascent on the row of token 0 may decrease the norm of the whole Jacobian
    found = replace(
        found,
        first_values=first,
        values=torch.where(lower, first, found.values),
        curve=torch.cat([one.curve, found.curve]),
    )
    return found, found.curve, found.late_rise


def _bounds(layer: Any, settings: Settings) -> dict[str, float]:
    """Upper bounds of the tied layer without a mask, and the structured lower bound."""
    from relearn.measures.lipschitz import two_point

    if settings.attention != "l2_tied":
        return {}
    length, norm = settings.length, settings.p
    more: dict[str, Any] = {} if norm == "inf" else {"masked": False}
    found = {"bound": float(layer.lipschitz_bound(length, norm, **more))}
    if norm == "two":
        for form in ("printed", "corrected", "tight"):
            found[f"bound_{form}"] = float(layer.lipschitz_bound(length, norm, form=form, **more))
    if settings.weights == "identity" and (layer.dim, layer.heads) == (1, 1) and length > 1:
        found["structured"] = two_point(length, norm).value
    return found


def _number(value: Any) -> float | None:
    """The value, or None (an empty cell) if it is not finite."""
    return float(value) if math.isfinite(value) else None
