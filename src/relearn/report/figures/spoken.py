"""Numbers and counts as the words of a point say them."""

from __future__ import annotations


def number(
    value: float, low: float | None = None, high: float | None = None, *, percent: bool = False
) -> str:
    """``20% [8.1%, 41.6%]``: a value with its interval or range, where it has one."""
    if low is None or high is None or low == high:
        return _short(value, percent)
    return f"{_short(value, percent)} [{_short(low, percent)}, {_short(high, percent)}]"


def _short(value: float, percent: bool) -> str:
    if percent:
        return f"{100 * value:.3g}%"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"


def counted(count: float, one: str) -> str:
    """``1 seed`` or ``3 seeds``."""
    return f"{count:g} {one}{'' if count == 1 else 's'}"
