"""The lines printed when Snakemake finishes: claims by verdict and where to find the report."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from relearn.report import claims_file

COUNTED = re.compile(r"^\d+ claims: .*$", re.MULTILINE)
"""The line of claims.md that counts the claims by verdict."""
NAMED = 5


def closing_words(root: Path) -> list[str]:
    """Lines for the end of a workflow run: the claims by verdict, the report, the next command; none if nothing is rendered.

    If a run ended after the rendering, the outdated counts are not repeated.

    Args:
        root: folder of the scale, ``results/<scale>``.
    """
    claims, page = root / "claims.md", root / "report.html"
    counted = (
        COUNTED.search(claims.read_text(encoding="utf-8")) if claims.exists() and page.exists() else None
    )
    if not counted:
        return []
    rendered = page.stat().st_mtime
    if any(record.stat().st_mtime > rendered for record in root.glob("runs/**/record.json")):
        return [f"{page} is older than these runs; `snakemake --cores all` renders it again"]
    return [
        counted[0],
        *_lacking(root),
        f"report: {page}",
        "`make report` opens it; `make ui` opens the runs in MLflow",
    ]


def _lacking(root: Path) -> list[str]:
    """What has no number: the names of claims that were not run, and the count of measured published cells."""
    try:
        claims = claims_file.read(root / "claims.json")["claims"]
        with (root / "coverage.csv").open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["addition"] == "0"]
        measured, defined = (
            sum(int(row[f"cells_{kind}"]) for row in rows) for kind in ("measured", "defined")
        )
    except (OSError, ValueError, KeyError):
        return []
    unrun = [f"{one['section']}/{one['id']}" for one in claims if one["verdict"] == "not_run"]
    names = ", ".join(unrun[:NAMED]) + (" …" if len(unrun) > NAMED else "")
    return [
        f"not run: {len(unrun)} claims{f' ({names})' if unrun else ''}; {measured} of {defined} published cells have a number"
    ]
