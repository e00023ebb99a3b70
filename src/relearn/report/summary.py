"""metrics.json: the few numbers that a comparison of two versions should show."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from relearn.report.claims import Claim
from relearn.report.comparisons import Exact
from relearn.report.coverage import Coverage
from relearn.report.table import Cell
from relearn.report.verdicts import CODES


def metrics(
    scale: str, claims: Sequence[Claim], coverages: Sequence[Coverage], tables: Mapping[str, Sequence[Cell]]
) -> str:
    """Effect and verdict of every claim that was judged, coverage of every artefact, every measured cell."""
    judged: dict[str, dict[str, Any]] = {}
    for claim in claims:
        if claim.parts:
            judged.setdefault(claim.section, {})[claim.id] = _claim(claim)
    covered = {_key(c.artefact): {"measured": c.measured, "defined": c.defined} for c in coverages}
    cells: dict[str, dict[str, dict[str, float]]] = {}
    for name, table in tables.items():
        for cell in table:
            if cell.mean is not None:
                cells.setdefault(_key(name), {}).setdefault(cell.row.id, {})[cell.column.id] = cell.mean
    found = {"scale": scale, "claims": judged, "coverage": covered, "cells": cells}
    return json.dumps(found, indent=1) + "\n"


def _key(artefact: str) -> str:
    return artefact.replace(".", "_")  # tools join keys by dots


def _claim(claim: Claim) -> dict[str, Any]:
    main = claim.main
    if isinstance(main, Exact):
        effect: float | None = main.failures / main.cases if main.cases else None
    else:
        effect = main.interval.estimate if main else None
    return {"verdict": claim.verdict, "verdict_code": CODES[claim.verdict], "effect": effect}
