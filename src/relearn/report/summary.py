"""metrics.json: the few numbers to compare between two versions; the single cells are in the tables' files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from relearn.report.claims import Claim
from relearn.report.comparisons import Exact
from relearn.report.coverage import Coverage, total
from relearn.report.table import Cell

DIGITS = 6  # significant digits


def metrics(
    scale: str, claims: Sequence[Claim], coverages: Sequence[Coverage], tables: Mapping[str, Sequence[Cell]]
) -> str:
    """Verdict and effect of every judged claim, the deviation of each table from the published one, and the coverage.

    ``tables.<id>.deviation`` is the mean of |measured - published| over the cells that have both (shares as fractions), and
    ``tables.<id>.cells`` is their number; a table with several units has such a pair for each unit.
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
    return artefact.replace(".", "_")  # tools use dots to join keys


def _far(cells: Sequence[Cell]) -> dict[str, dict[str, float]]:
    """Maps each unit to the mean absolute deviation and the number of cells."""
    found: dict[str, list[float]] = {}
    for cell in cells:
        away = cell.deviation()
        if away:
            found.setdefault(cell.column.unit, []).append(abs(away[1]))
    return {
        unit: {"deviation": _round(sum(several) / len(several)), "cells": len(several)}
        for unit, several in found.items()
    }


def _round(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _claim(claim: Claim) -> dict[str, Any]:
    main = claim.main
    if isinstance(main, Exact):
        effect: float | None = main.failures / main.cases if main.cases else None
    else:
        effect = main.interval.estimate if main else None
    return {"verdict": claim.verdict, "effect": None if effect is None else _round(effect)}
