"""How the norms of a table of cases stand to their bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any


def shares(rows: Iterable[Mapping[str, Any]], *, bound: str, printed: str) -> dict[str, float]:
    """How near the rows' norms come to the bound that holds, and how far above the printed one.

    Args:
        bound, printed: the columns of the two; a row without one does not count for it.
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
