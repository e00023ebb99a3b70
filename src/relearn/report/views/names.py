"""Display names and anchors of artefacts and claims on a page, and counted things in words."""

from __future__ import annotations

import re
from typing import Any

KINDS = {"table": "Table", "fig": "Figure"}
NUMBERED = re.compile(r"[^.]+\.(table|fig)(.*\d)(?:\.([a-z_]+))?")


def label(identifier: str) -> str:
    """``Table 2.2`` for ``zhu2022.table2.2``, ``Table 5.8, accuracy`` for a part of one; ``Addition`` for an artefact of our own."""
    found = NUMBERED.fullmatch(identifier)
    if found:
        return f"{KINDS[found[1]]} {found[2]}" + (f", {found[3].replace('_', ' ')}" if found[3] else "")
    return "Addition" if identifier.startswith("addition.") else identifier.partition(".")[2] or identifier


def heading(identifier: str, title: str) -> str:
    """``Table 2.2: Defences``; the title alone of an addition and of numbers in prose, which says what they are."""
    return f"{label(identifier)}: {title}" if NUMBERED.fullmatch(identifier) else title


def breakable(name: str) -> Any:
    """A name of the code as HTML in which a line may break behind each separator, and nowhere inside a word."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"([_./])", r"\1<wbr>", str(escape(name))))


def coded(text: str) -> Any:
    """A text as HTML in which what stands between backticks is code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def claim_anchor(section: str, name: str) -> str:
    """The anchor includes the section, because names of claims are unique only within a study."""
    return f"claim-{section}-{name}"


def plural(count: float, one: str) -> str:
    """``1 seed`` or ``3 seeds``."""
    shown = f"{count:g}" if count % 1 else f"{count:.0f}"
    return f"{shown} {one}{'' if count == 1 else 's'}"
