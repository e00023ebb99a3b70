"""What params.yaml may say of ``l2_attention``: the rules that tie several keys together; see ``schema_rules``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Get = Callable[[str], Any]
Conflict = tuple[tuple[str | int, ...], str]

L = "l2_attention"
#: kinds of attention of which a trained layer is looked at in figures 5, 8 and 10
LOOKED_AT = ("dp", "l2_tied")


def _at(key: str) -> tuple[str | int, ...]:
    return tuple(key.split("."))


def _widths(get: Get) -> Iterator[Conflict]:
    """Every width is a multiple of the heads that go with it; a sinusoidal position needs an even one."""
    for section, even in (("network", True), ("figure_8", False), ("inversion", False), ("clock", True)):
        heads, key = get(f"{L}.{section}.heads"), f"{L}.{section}.dim"
        if get(key) % heads or (even and get(key) % 2):
            kind = "an even multiple" if even else "a multiple"
            yield _at(key), f"found {get(key)}, allowed: {kind} of heads = {heads}"
    for section in ("inversion", "examine"):
        heads, key = get(f"{L}.{section}.heads"), f"{L}.{section}.dims"
        for index, dim in enumerate(get(key)):
            if dim % heads:
                yield (*_at(key), index), f"found {dim}, allowed: multiples of heads = {heads}"


def _top(get: Get) -> Iterator[Conflict]:
    for figure in ("figure_2", "figure_7", "figure_8"):
        key, starts = f"{L}.{figure}.top", get(f"{L}.{figure}.starts")
        if get(key) > starts:
            yield _at(key), f"found {get(key)}, allowed: at most starts = {starts}"


def _looked_at(get: Get) -> Iterator[Conflict]:
    """Figures 5, 8 and 10 show layers of the one-layer models of figure 4."""
    for kind in LOOKED_AT:
        key = f"{L}.depths.warmup.{kind}"
        if get(key) and get(key)[0] != 1:
            yield (*_at(key), 0), f"found {get(key)[0]}, allowed: 1 (figures 5, 8 and 10 look at its layer)"


def _evaluations(get: Get) -> Iterator[Conflict]:
    key, steps = f"{L}.train.evaluations", get(f"{L}.train.steps")
    if get(key) > steps:
        yield _at(key), f"found {get(key)}, allowed: at most train.steps = {steps}"


RULES = (_widths, _top, _looked_at, _evaluations)
