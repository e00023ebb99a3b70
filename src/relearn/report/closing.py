"""What Snakemake says when it is through: what holds, and where to look."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path


def closing_words(root: Path) -> list[str]:
    """Lines for the end of a run: the claims by verdict, the report, the next command; none where nothing is rendered.

    Args:
        root: folder of the scale, ``results/<scale>``.
    """
    claims, page = root / "claims.json", root / "report.html"
    if not (claims.exists() and page.exists()):
        return []
    found = json.loads(claims.read_text())
    judged = [claim for claim in found.get("claims", ()) if claim.get("kind") != "check"]
    verdicts = Counter(claim["verdict"].replace("_", " ") for claim in judged)
    if not judged:
        return []
    counted = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    return [
        f"{len(judged)} claims at scale {found['scale']}: {counted}",
        f"report: {page}",
        "runs: `make ui` opens MLflow",
    ]
