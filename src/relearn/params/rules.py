"""What params.yaml may say: the rules that tie several keys together.

Each rule yields the key path at fault and one line: what was found, what is allowed. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from relearn.params import forecast_memory
from relearn.studies.long_short import params_rules as schema_rules_long_short

Get = Callable[[str], Any]
Conflict = tuple[tuple[str | int, ...], str]
"""Key path, and one line: what was found and what is allowed."""


NEEDS = (
)
"""Forecasts of memory. Poisoning and robustness have none: their single bounds keep them far below the limit."""


def needs(get: Get) -> Iterator[forecast_memory.Need]:
    """What the jobs behind the values need; forecasts that want for a value are passed over, as rules are."""
    for forecast in NEEDS:
        try:
            yield from forecast(get)
        except KeyError:
            continue


def _memory(get: Get) -> Iterator[Conflict]:
    yield from forecast_memory.refused(needs(get))


RULES = (
    *schema_rules_long_short.RULES,
    _memory,
)


def conflicts(get: Get) -> Iterator[Conflict]:
    """Rules between keys that the values break.

    ``get`` returns the value at a dotted key path and raises KeyError for one that is missing or already
    known to be wrong; the rules that need it are then passed over, the others still report.
    """
    for rule in RULES:
        try:
            yield from rule(get)
        except KeyError:
            continue
