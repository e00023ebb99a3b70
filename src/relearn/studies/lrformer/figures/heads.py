"""Styles of the variants in the figures of ye2023: one colour per attention, one stroke per head."""

from __future__ import annotations

from typing import Any

from relearn.report.figures.style import COLOURS

ATTENTION: dict[str, dict[str, Any]] = {
    "dot": {"color": COLOURS["start"], "marker": "s", "ms": 6.0, "lw": 2.2},
    "lrsa": {"color": COLOURS["gradinit"], "marker": "o", "ms": 3.6, "lw": 1.2},
}
"""The second is drawn on the first, which stays seen around it where both are equal."""
HEAD: dict[str, Any] = {"dense": {"ls": (0, (4, 2)), "mfc": "white"}, "gp": {"ls": "-"}}


def stroke(variant: str) -> dict[str, Any]:
    """Style of the line of ``<attention>_<head>``."""
    attention, _, head = variant.partition("_")
    return {"mew": 1.2, **ATTENTION[attention], **HEAD[head]}
