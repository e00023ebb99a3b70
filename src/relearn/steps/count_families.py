"""The gradient check of freelb (zhu2022, chapter 3), as ``count`` runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

FAMILIES = ("gradient",)
Row = dict[str, Any]


def counted(family: str) -> tuple[list[Row], dict[str, float]]:
    """Rows with the columns of :func:`table`, and their metrics.

    Raises:
        ValueError: another family.
    """
    from relearn.studies.freelb.steps.gradient_cases import gradient_cases

    if family not in FAMILIES:
        raise ValueError(f"family is {family!r}; allowed: {', '.join(FAMILIES)}")
    rows = gradient_cases()
    return rows, {"largest_difference": max(row["difference"] for row in rows), "cases_count": len(rows)}


def table(family: str) -> tuple[str, Sequence[str]]:
    """The file of a family's rows, and its columns."""
    from relearn.studies.freelb.steps import gradient_cases

    return "gradients.csv", gradient_cases.COLUMNS
