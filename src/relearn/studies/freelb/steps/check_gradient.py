"""check_gradient: compare FreeLB's gradient with that of the K-fold virtual batch.

Nothing is trained. Source: zhu2022, algorithm 3.

Settings: none. Inputs: none.
Output: gradients.csv, a row for each case of :func:`relearn.studies.freelb.steps.gradient_cases.gradient_cases`.
Metrics: largest_difference (over the cases; relative to the largest entry of the gradient), cases_count.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NEEDS_TORCH = True


@dataclass(frozen=True, kw_only=True)
class Settings:
    pass


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from relearn.steps.csv_rows import write_rows
    from relearn.studies.freelb.steps.gradient_cases import COLUMNS, gradient_cases

    rows = gradient_cases()
    write_rows(run.output("gradients.csv"), COLUMNS, rows)
    run.finish({"largest_difference": max(row["difference"] for row in rows), "cases_count": len(rows)})
