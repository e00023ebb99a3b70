"""The line below every figure: how many seeds or trials stand behind it, what its bars and bands are, what is published."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from relearn.report.artefacts import Artefact
from relearn.report.figures.style import MUTED

SIZE = 8.0
LETTERS = 14.5  # of this size, beside each other in an inch
COUNTED = {"seeds": ("seed", "seeds"), "trials": ("trial each", "trials each"), "runs_count": ("run", "runs")}


def words(artefact: Artefact, points: Sequence[Mapping[str, Any]], bars: str) -> str:
    """The line.

    Args:
        bars: what bars, bands or whiskers are (``BARS`` of the renderer), "" where it draws none.
    """
    told = [_count(points, name) for name in COUNTED]
    if bars and any(_has_width(point) for point in points):
        told.append(bars)
    if points and not artefact.addition:
        told.append(_published(artefact, points))
    return "; ".join(filter(None, told))


def write(figure: Any, text: str) -> None:
    """Put the line at the lower left edge, broken where the figure ends."""
    if text:
        lines = textwrap.fill(text, int(figure.get_figwidth() * LETTERS))
        figure.supxlabel(lines, x=0.01, ha="left", fontsize=SIZE, color=MUTED)


def _count(points: Sequence[Mapping[str, Any]], name: str) -> str:
    counts = {
        int(point[name])
        for point in points
        if point.get(name) and point.get("source", "measured") == "measured"
    }
    if not counts:
        return ""
    low, high = min(counts), max(counts)
    one, several = COUNTED[name]
    return f"{low} {one if low == 1 else several}" if low == high else f"{low} to {high} {several}"


def _has_width(point: Mapping[str, Any]) -> bool:
    ends = [point.get("low"), point.get("high", point.get("error"))]
    return (None not in ends and ends[0] != ends[1]) or bool(point.get("std"))


def _published(artefact: Artefact, points: Sequence[Mapping[str, Any]]) -> str:
    """Whether published numbers are drawn; most figures of the papers exist as pictures alone."""
    drawn = any(
        value in ("paper", "published code")
        for point in points
        for value in (point.get("source"), point.get("series"))
    )
    return "" if drawn or artefact.stated else "no published numbers are at hand to draw beside"
