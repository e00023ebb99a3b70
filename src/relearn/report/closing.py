"""What Snakemake says when it is through: what holds, and where to look."""

from __future__ import annotations

import re
from pathlib import Path

COUNTED = re.compile(r"^\d+ claims: .*$", re.MULTILINE)
"""The line of claims.md that counts the claims by verdict."""


def closing_words(root: Path) -> list[str]:
    """Lines for the end of a run: the claims by verdict, the report, the next command; none where nothing is rendered.

    Args:
        root: folder of the scale, ``results/<scale>``.
    """
    claims, page = root / "claims.md", root / "report.html"
    counted = (
        COUNTED.search(claims.read_text(encoding="utf-8")) if claims.exists() and page.exists() else None
    )
    return [counted[0], f"report: {page}", "runs: `make ui` opens MLflow"] if counted else []
