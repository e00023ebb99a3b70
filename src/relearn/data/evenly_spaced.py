r"""A subset of n rows that is spread evenly over all of them: rows :math:`\lfloor i n / k \rfloor`, i = 0 … k - 1.

With k = 0, or n or more, all rows are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")


def evenly_spaced_places(count: int, wanted: int) -> list[int]:
    """The positions of ``wanted`` = k of ``count`` = n rows.

    Raises:
        ValueError: a negative number.
    """
    if wanted < 0:
        raise ValueError(f"samples is {wanted}; allowed: 0 (all) or more")
    if wanted == 0 or wanted >= count:
        return list(range(count))
    return [i * count // wanted for i in range(wanted)]


def evenly_spaced_rows(rows: Sequence[T], wanted: int) -> list[T]:
    """``wanted`` evenly spaced rows."""
    return [rows[i] for i in evenly_spaced_places(len(rows), wanted)]


def evenly_spaced(rows: Tensor, wanted: int) -> Tensor:
    """``wanted`` evenly spaced rows of a tensor; all of them are ``rows`` itself, without a copy."""
    return rows[evenly_spaced_places(len(rows), wanted)] if 0 < wanted < len(rows) else rows
