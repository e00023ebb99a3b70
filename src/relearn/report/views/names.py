"""How a page calls an artefact, and where on the page it stands."""

from __future__ import annotations

import re

KINDS = {"table": "Table", "fig": "Figure"}
NUMBERED = re.compile(r"[^.]+\.(table|fig)(.+)")


def label(identifier: str) -> str:
    """``Table 2.2`` of ``zhu2022.table2.2``; ``Addition`` of what no paper shows."""
    found = NUMBERED.fullmatch(identifier)
    if found:
        return f"{KINDS[found[1]]} {found[2]}"
    return "Addition" if identifier.startswith("addition.") else identifier.partition(".")[2] or identifier


def heading(identifier: str, title: str) -> str:
    return f"{label(identifier)}: {title}"


def claim_anchor(section: str, name: str) -> str:
    """Names of claims are unique within a study alone."""
    return f"claim-{section}-{name}"


def words(name: str) -> str:
    """The name of a claim or a verdict as words."""
    return name.replace("_", " ")
