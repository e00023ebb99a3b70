"""Contributions of a vision network's residual branches to their streams, as rows of tables and of the training history."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.models.vision_classifier import VisionClassifier

LAYERS = ("moment", "layer", "branch", "ratio", "weight_mean", "weight_std")
ALPHAS = ("epoch", "stage", "alpha_mean", "alpha_std")
ALPHA = "alpha_{}_{}"  # key in a row of the training history: statistic, stage


def layer_rows(moment: str, net: VisionClassifier, images: Tensor) -> list[dict[str, Any]]:
    """Rows of layers.csv: what each branch adds to the stream on these images, and the absolute factor of the branch if it has one.

    A network without such branches, such as a convolutional one, has no rows.
    """
    from relearn.measures.branch_ratio import branch_ratios, has_branches, residual_weights

    if not has_branches(net):
        return []
    weights = {(row["layer"], row["branch"]): row for row in residual_weights(net)}
    rows = []
    for row in branch_ratios(net.eval(), images):
        weight = weights.get((row["layer"], row["branch"]), {})
        rows.append(
            {
                "moment": moment,
                **{key: row[key] for key in ("layer", "branch", "ratio")},
                **{f"weight_{key}": weight.get(key) for key in ("mean", "std")},
            }
        )
    return rows


def variation(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """Coefficient of variation over layers of the branch-to-stream ratio, averaged over attention and MLP; None if either has no value."""
    ratios: dict[str, list[float]] = {"attention": [], "mlp": []}
    for row in rows:
        if row["branch"] in ratios:
            ratios[row["branch"]].append(row["ratio"])
    found = [
        statistics.pstdev(values) / statistics.fmean(values)
        for values in ratios.values()
        if values and all(map(math.isfinite, values)) and any(values)
    ]
    return statistics.fmean(found) if len(found) == len(ratios) else None


def alphas(net: VisionClassifier) -> dict[str, float]:
    """Mean and standard deviation of the absolute factors of the branches of each stage, as part of a row of the history."""
    from relearn.measures.branch_ratio import has_branches, residual_weights

    if not has_branches(net):
        return {}
    stages: dict[int, list[Mapping[str, Any]]] = {}
    for row in residual_weights(net):
        stages.setdefault(row["stage"], []).append(row)
    found: dict[str, float] = {}
    for stage, rows in stages.items():
        mean = statistics.fmean(row["mean"] for row in rows)
        square = statistics.fmean(row["mean"] ** 2 + row["std"] ** 2 for row in rows)
        found |= {
            ALPHA.format("mean", stage): mean,
            ALPHA.format("std", stage): max(square - mean**2, 0.0) ** 0.5,
        }
    return found


def alpha_rows(rows: Iterable[Mapping[str, float]]) -> list[tuple[float, ...]]:
    """Rows of alphas.csv, extracted from the history."""
    return [
        (row["epoch"], stage, row[ALPHA.format("mean", stage)], row[ALPHA.format("std", stage)])
        for row in rows
        for stage in range(len(row))
        if ALPHA.format("mean", stage) in row
    ]
