"""Protocols of `check_theorems` for kim2020: theorem 3.1, lemma F.1, masks and dropout. Each returns columns, rows and metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from relearn.runs.settings import picked

Rows = list[dict[str, Any]]
Examined = tuple[Sequence[str], Rows, dict[str, float]]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    lengths: Sequence[int]
    dims: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Theorem31(Sizes):
    protocol: Literal["theorem_3_1"]
    heads: int
    spreads: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class LemmaF1(Sizes):
    protocol: Literal["lemma_f_1"]
    spreads: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Masks(Sizes):
    protocol: Literal["masks"]
    heads: int
    spreads: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Dropout(Sizes):
    protocol: Literal["dropout"]
    keep: float


def theorem_3_1(settings: Theorem31, seed: int) -> Examined:
    from relearn.layers.attention_kinds import attention
    from relearn.layers.dot_product_attention import DotProductAttention
    from relearn.measures.attention_cases.theorem_3_1 import COLUMNS, cases

    make: dict[str, Callable[..., Any]] = {
        "dp": partial(attention, "dp"),
        "dp_bias": partial(DotProductAttention, bias=True),
        "l2_tied": partial(attention, "l2_tied"),
    }
    rows = cases(make, **picked(settings, "lengths", "dims", "heads", "spreads"), seed=seed)
    growth = {f"{kind}_growth_ratio": _growth(rows, kind, ("length", "dim")) for kind in ("dp", "dp_bias")}
    return COLUMNS, rows, {**growth, "dp_norm_max": _most(rows, "dp"), **_shared(rows)}


def lemma_f_1(settings: LemmaF1, seed: int) -> Examined:
    from relearn.layers.attention_kinds import attention
    from relearn.measures.attention_cases.lemma_f_1 import COLUMNS, KINDS, cases

    make = {kind: partial(attention, kind) for kind in KINDS}
    rows = cases(make, lengths=settings.lengths, dims=settings.dims, spreads=settings.spreads, seed=seed)
    growth = _growth(rows, "l2", ("weights", "length", "dim"))
    return COLUMNS, rows, {"l2_growth_ratio": growth, "l2_norm_max": _most(rows, "l2"), **_shared(rows)}


def masks(settings: Masks, seed: int) -> Examined:
    from relearn.layers.attention_kinds import attention
    from relearn.measures.attention_cases.masks import COLUMNS, cases

    tied = partial(attention, "l2_tied")
    rows = cases(tied, **picked(settings, "lengths", "dims", "heads", "spreads"), seed=seed)
    return (
        COLUMNS,
        rows,
        {
            "hidden_norm_max": max(row["norm"] for row in rows if not row["self_visible"]),
            "visible_share_max": max(row["row_share"] for row in rows if row["self_visible"]),
        },
    )


def dropout(settings: Dropout, seed: int) -> Examined:
    from relearn.measures.attention_cases.dropout import COLUMNS, cases

    rows = cases(keep=settings.keep, lengths=settings.lengths, dims=settings.dims, seed=seed)
    training = {
        f"{form}_norm_max": max(row["norm"] for row in rows if (row["form"], row["mode"]) == (form, "train"))
        for form in ("binary", "inverted")
    }
    return COLUMNS, rows, training


def _growth(rows: Rows, kind: str, same: Sequence[str]) -> float:
    """The ratio of the norm at the largest spread to that at the smallest, minimum over sizes."""
    lines: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        if row["attention"] == kind:
            lines.setdefault(tuple(row[name] for name in same), []).append(row["norm"])
    return min(line[-1] / line[0] for line in lines.values())


def _most(rows: Rows, kind: str) -> float:
    return max(row["norm"] for row in rows if row["attention"] == kind)


def _shared(rows: Rows) -> dict[str, float]:
    """For the tied control, the largest ratio of a norm to its bound; and the largest error of the formula."""
    return {
        "tied_share_max": max(row["norm"] / row["bound"] for row in rows if row["bound"] is not None),
        "formula_error_frac": max(row["formula_error"] for row in rows if row["formula_error"] is not None),
    }
