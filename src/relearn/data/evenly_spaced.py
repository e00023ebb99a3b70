"""A subset of rows that is spread evenly over all of them."""

from __future__ import annotations

from torch import Tensor, arange


def evenly_spaced(rows: Tensor, count: int) -> Tensor:
    r"""Return rows :math:`\lfloor i n / k \rfloor`, i = 0 … k - 1, of n rows, for k = ``count``.

    ``count`` = 0, or n or more, returns ``rows`` itself without a copy.
    """
    if not 0 < count < len(rows):
        return rows
    return rows[arange(count, device=rows.device) * len(rows) // count]
