"""Ratio of each measured norm to its bound, for a table of cases."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any


def shares(rows: Iterable[Mapping[str, Any]], *, bound: str, printed: str) -> dict[str, float]:
    """The largest ratio of norm to bound, for the bound that holds and for the printed one.

    Args:
        bound, printed: the columns of the two bounds; a row without a value is skipped.
    """
    rows = list(rows)
    return {
        f"{name}_share_max": max(_share(row["norm"], row[column]) for row in rows if row[column] is not None)
        for name, column in (("bound", bound), ("printed", printed))
    }


def _share(norm: float, bound: float) -> float:
    if bound:
        return norm / bound
    return math.inf if norm else 0.0
