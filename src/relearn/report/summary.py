"""metrics.json: the few numbers that a comparison of two versions should show; the cells are in the tables' files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from relearn.report.claims import Claim
from relearn.report.comparisons import Exact
from relearn.report.coverage import Coverage, total
from relearn.report.table import Cell

DIGITS = 6  # significant ones


def metrics(
    scale: str, claims: Sequence[Claim], coverages: Sequence[Coverage], tables: Mapping[str, Sequence[Cell]]
) -> str:
    """Verdict and effect of every claim that was judged, how far each table is from the printed one, and how much was measured.

    ``tables.<id>.deviation`` is the mean of |measured - published| over the cells that have both, shares as fractions, and
    ``tables.<id>.cells`` how many these are; a table in several units has a pair for each unit.
    """
    judged: dict[str, dict[str, Any]] = {}
    for claim in claims:
        if claim.parts:
            judged.setdefault(claim.section, {})[claim.id] = _claim(claim)
    measured, defined = total(coverages)
    found = {
        "scale": scale,
        "claims": judged,
        "tables": {_key(name): far for name, cells in tables.items() if (far := _far(cells))},
        "coverage": {"measured": measured, "defined": defined},
    }
    return json.dumps(found, indent=1) + "\n"


def _key(artefact: str) -> str:
    return artefact.replace(".", "_")  # tools join keys by dots


def _far(cells: Sequence[Cell]) -> dict[str, dict[str, float]]:
    """Unit to mean absolute deviation and number of cells."""
    found: dict[str, list[float]] = {}
    for cell in cells:
        away = cell.deviation()
        if away:
            found.setdefault(cell.column.unit, []).append(abs(away[1]))
    return {
        unit: {"deviation": _rounded(sum(several) / len(several)), "cells": len(several)}
        for unit, several in found.items()
    }


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _claim(claim: Claim) -> dict[str, Any]:
    main = claim.main
    if isinstance(main, Exact):
        effect: float | None = main.failures / main.cases if main.cases else None
    else:
        effect = main.interval.estimate if main else None
    return {"verdict": claim.verdict, "effect": None if effect is None else _rounded(effect)}
