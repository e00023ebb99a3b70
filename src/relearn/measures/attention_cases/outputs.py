"""Distribution of the entries before and after a layer (kim2020, appendix N, figure 10)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

COLUMNS = ("side", "low", "high", "count")
SIDES = ("input", "output")


def histograms(inputs: Tensor, outputs: Tensor, bins: int) -> list[dict[str, Any]]:
    """Return one row (:data:`COLUMNS`) per side and bin: the number of entries in [low, high), the last bin closed.

    Each side has its own bins of equal width from its smallest to its largest entry, because with common bins the
    narrower side could occupy only two.

    Raises:
        ValueError: no bins, no entries, or entries that are not finite.
    """
    if bins < 1:
        raise ValueError(f"bins: {bins} (allowed: at least 1)")
    rows = []
    for name, values in zip(SIDES, (inputs, outputs)):
        side = values.detach().double().flatten().cpu()
        if not len(side) or not bool(side.isfinite().all()):
            raise ValueError(
                f"{name}: {len(side)} entries, or some not finite (allowed: at least 1, all finite)"
            )
        edges = _edges(float(side.min()), float(side.max()), bins)
        rows += [
            {"side": name, "low": float(edges[i]), "high": float(edges[i + 1]), "count": int(count)}
            for i, count in enumerate(torch.histogram(side, edges).hist.long())
        ]
    return rows


def _edges(low: float, high: float, bins: int) -> Tensor:
    """Return the edges of ``bins`` equal bins, or of a single bin if all entries are equal."""
    if low < high:
        return torch.linspace(low, high, bins + 1, dtype=torch.float64)
    return torch.tensor([math.nextafter(low, -math.inf), math.nextafter(low, math.inf)], dtype=torch.float64)


def spread(inputs: Tensor, outputs: Tensor) -> dict[str, float]:
    """Return the standard deviation (divisor n) and range of each side's entries, and the ratio of the ranges."""
    found: dict[str, float] = {}
    for name, side in zip(SIDES, (inputs.double(), outputs.double())):
        found[f"{name}_std"] = float(side.std(correction=0))
        found[f"{name}_range"] = float(side.max() - side.min())
    ratio = found["output_range"] / found["input_range"] if found["input_range"] else math.nan
    return {**found, "output_range_over_input_range": ratio}
