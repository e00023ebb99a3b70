"""Styles of the variants in the figures of ye2023: one colour per attention, one stroke per head."""

from __future__ import annotations

from typing import Any

from relearn.report.figures.style import COLOURS

ATTENTION = {"dot": COLOURS["start"], "lrsa": COLOURS["gradinit"]}
HEAD: dict[str, Any] = {
    "dense": {"ls": (0, (4, 2)), "marker": "o", "mfc": "white"},
    "gp": {"ls": "-", "marker": "o"},
}


def stroke(variant: str) -> dict[str, Any]:
    """Style of the line of ``<attention>_<head>``."""
    attention, _, head = variant.partition("_")
    return {"color": ATTENTION[attention], "lw": 1.5, "ms": 4.2, "mew": 1.2, **HEAD[head]}
