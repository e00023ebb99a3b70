"""Shared by the studies' `check_theorems` steps: check a claim about a layer case by case, without training.

A protocol is a function of its settings, a dataclass with the literal field ``protocol``, and the seed. It returns the columns of
cases.csv, its rows, its own metrics, and optionally further files, each with name, columns and rows. Every row has `holds`; booleans
are 1 or 0, and a missing value is empty.
Metrics of every protocol: cases_count, holds_count, and printed_fails_count if the paper prints another bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from relearn.steps.csv_rows import write_rows

Protocol = Callable[[Any, int], tuple[Any, ...]]
NOTE = "float64 on the CPU, exact Jacobians"
OF_NETWORKS = "norms of whole networks and of large layers from below, by products with the Jacobian"


def check(run: Any, settings: Any, protocols: Mapping[str, Protocol]) -> None:
    """Run the protocol named in ``settings.protocol`` and finish the run."""
    columns, rows, telling, *further = protocols[settings.protocol](settings, run.seed)
    for file, header, lines in (("cases.csv", columns, rows), *further):
        write_rows(run.output(file), header, lines)
    counts = {"cases_count": len(rows), "holds_count": sum(bool(row["holds"]) for row in rows)}
    if "printed_holds" in columns:
        counts["printed_fails_count"] = sum(row["printed_holds"] is False for row in rows)
    whole = any(row.get("network") or row.get("case") == "published" for row in rows)
    run.finish({**counts, **telling}, notes=[NOTE, *([OF_NETWORKS] if whole else [])])
