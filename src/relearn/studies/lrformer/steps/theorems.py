"""Protocols of `check_theorems` for ye2023: the constants of LayerNorm, the derivatives of LRSA. Each returns columns, rows and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from relearn.runs.settings import picked
from relearn.steps.bound_shares import shares

Examined = tuple[Sequence[str], list[dict[str, Any]], dict[str, float]]


@dataclass(frozen=True, kw_only=True)
class LayerNorm:
    protocol: Literal["layer_norm"]
    dims: Sequence[int]
    eps: float
    spreads: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Lrsa:
    protocol: Literal["lrsa"]
    lengths: Sequence[int]
    dims: Sequence[int]
    spreads: Sequence[float]
    draws: int


def layer_norm(settings: LayerNorm, seed: int) -> Examined:
    from relearn.measures.attention_cases.layer_norm import COLUMNS, cases

    rows = cases(dims=settings.dims, eps=settings.eps, spreads=settings.spreads, seed=seed)
    return COLUMNS, rows, shares(rows, bound="constant", printed="printed")


def lrsa(settings: Lrsa, seed: int) -> Examined:
    from relearn.layers.lrsa import LRSA
    from relearn.measures.attention_cases.lrsa import COLUMNS, cases

    def make(dim: int, alpha: float, eps: float) -> LRSA:
        return LRSA(dim, 1, alpha=alpha, eps=eps)

    rows = cases(make, **picked(settings, "lengths", "dims", "spreads", "draws"), seed=seed)
    return COLUMNS, rows, shares(rows, bound="bound", printed="printed")
