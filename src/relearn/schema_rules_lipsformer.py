"""What params.yaml may say of ``lipsformer``: the rule that ties several keys together; see ``schema_rules``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Get = Callable[[str], Any]
Conflict = tuple[tuple[str | int, ...], str]


def _widths(get: Get) -> Iterator[Conflict]:
    """Every width is a multiple of the heads that go with it."""
    for theorem in ("theorem_1", "theorem_2"):
        section = f"lipsformer.examine.{theorem}"
        heads = get(f"{section}.heads")
        for index, dim in enumerate(get(f"{section}.dims")):
            if dim % heads:
                place: tuple[str | int, ...] = (*section.split("."), "dims", index)
                yield place, f"found {dim}, allowed: multiples of heads = {heads}"


RULES = (_widths,)
