"""Display names and anchors of artefacts and claims on a page, and counted things in words."""

from __future__ import annotations

import re

KINDS = {"table": "Table", "fig": "Figure"}
NUMBERED = re.compile(r"[^.]+\.(table|fig)(.+)")


def label(identifier: str) -> str:
    """``Table 2.2`` for ``zhu2022.table2.2``; ``Addition`` for an artefact of our own."""
    found = NUMBERED.fullmatch(identifier)
    if found:
        return f"{KINDS[found[1]]} {found[2]}"
    return "Addition" if identifier.startswith("addition.") else identifier.partition(".")[2] or identifier


def heading(identifier: str, title: str) -> str:
    """``Table 2.2: Defences``; the title alone of an addition and of numbers in prose, which says what they are."""
    return f"{label(identifier)}: {title}" if NUMBERED.fullmatch(identifier) else title


def claim_anchor(section: str, name: str) -> str:
    """The anchor includes the section, because names of claims are unique only within a study."""
    return f"claim-{section}-{name}"


def plural(count: float, one: str) -> str:
    """``1 seed`` or ``3 seeds``."""
    shown = f"{count:g}" if count % 1 else f"{count:.0f}"
    return f"{shown} {one}{'' if count == 1 else 's'}"
