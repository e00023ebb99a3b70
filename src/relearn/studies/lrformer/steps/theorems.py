"""Protocols of `check_theorems` for ye2023: the constants of LayerNorm, the derivatives of LRSA. Each returns columns, rows and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relearn.steps.bound_shares import shares

Examined = tuple[Sequence[str], list[dict[str, Any]], dict[str, float]]


def layer_norm(settings: Mapping[str, Any], seed: int) -> Examined:
    from relearn.measures.attention_cases.layer_norm import COLUMNS, cases

    rows = cases(**{name: settings[name] for name in ("dims", "eps", "spreads")}, seed=seed)
    return COLUMNS, rows, shares(rows, bound="constant", printed="printed")


def lrsa(settings: Mapping[str, Any], seed: int) -> Examined:
    from relearn.layers.lrsa import LRSA
    from relearn.measures.attention_cases.lrsa import COLUMNS, cases

    def make(dim: int, alpha: float, eps: float) -> LRSA:
        return LRSA(dim, 1, alpha=alpha, eps=eps)

    names = ("lengths", "dims", "spreads", "draws")
    rows = cases(make, **{name: settings[name] for name in names}, seed=seed)
    return COLUMNS, rows, shares(rows, bound="bound", printed="printed")
