"""Protocols of `check_theorems` for qi2023: theorems 1 and 2, spectral initialisation, activations. Each returns columns, rows, metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from relearn.steps.bound_shares import shares

if TYPE_CHECKING:
    from torch import Tensor, nn

Examined = tuple[Sequence[str], list[dict[str, Any]], dict[str, float]]
File = tuple[str, Sequence[str], list[dict[str, Any]]]


def theorem_1(settings: Mapping[str, Any], seed: int) -> Examined:
    from relearn.layers.cosine_attention import CosineAttention
    from relearn.measures.attention_cases.cosine import COLUMNS, cases

    def make(dim: int, heads: int, tau: float, eps: float) -> CosineAttention:
        return CosineAttention(dim, heads, tau=tau, eps=eps, project=False, average_heads=False)

    names = ("lengths", "dims", "heads", "taus", "spreads", "steps")
    rows = cases(make, **{name: settings[name] for name in names}, seed=seed)
    return COLUMNS, rows, shares(rows, bound="tight", printed="printed")


def theorem_2(settings: Mapping[str, Any], seed: int) -> Examined:
    from relearn.layers.center_norm import CenterNorm
    from relearn.layers.cosine_attention import CosineAttention
    from relearn.layers.weighted_residual import WeightedResidual
    from relearn.measures.attention_cases.residual_stack import COLUMNS, Parts, cases

    def attention(dim: int, heads: int, eps: float) -> CosineAttention:
        return CosineAttention(dim, heads, tau=settings["tau"], eps=eps)

    names = ("blocks", "lengths", "dims", "heads", "eps")
    parts = Parts(attention=attention, norm=CenterNorm, join=WeightedResidual)
    rows = cases(parts, **{name: settings[name] for name in names}, seed=seed)
    return COLUMNS, rows, shares(rows, bound="corrected", printed="printed")


def spectral(settings: Mapping[str, Any], seed: int) -> Examined:
    from relearn.measures.attention_cases.spectral_norms import COLUMNS, cases
    from relearn.methods.spectral_start import spectral_start

    def start(layer: nn.Module, number: int, image: Tensor | None) -> None:
        batches = None if image is None else iter([(image,)])
        spectral_start(layer, None, batches, seed=number, operator=image is not None)

    rows = cases(start, channels=settings["channels"], size=settings["size"], seed=seed)
    metrics = shares([row | {"one": 1.0} for row in rows], bound="limit", printed="one")
    return COLUMNS, rows, metrics


def activations(
    settings: Mapping[str, Any], seed: int
) -> tuple[Sequence[str], list[dict[str, Any]], dict[str, float], File]:
    """The cases, and the curves of figure 2 as a second file."""
    from relearn.measures.attention_cases.activations import COLUMNS, CURVE_COLUMNS, cases, curves

    rows = cases(pairs=settings["pairs"], seed=seed)
    metrics = shares(rows, bound="bound", printed="printed")
    metrics |= {f"{row['activation']}_slope_max": row["norm"] for row in rows}
    drawn = curves(reach=settings["reach"], points=settings["points"])
    return COLUMNS, rows, metrics, ("curves.csv", CURVE_COLUMNS, drawn)
