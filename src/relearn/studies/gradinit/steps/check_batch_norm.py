"""Check equations 4.5 to 4.7 of zhu2022 against autograd.

The equations give the variance of a gradient backpropagated through batch normalisation.

Settings: draws (number of random draws per case). No inputs. Output: cases.csv, with the columns of
:data:`relearn.measures.batch_norm_gradient.COLUMNS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from relearn.steps.csv_rows import write_rows

NEEDS_TORCH = True


@dataclass(frozen=True, kw_only=True)
class Settings:
    draws: int


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    """See the module. Device and precision have no effect."""
    from relearn.measures.batch_norm_gradient import COLUMNS, cases

    rows = cases(draws=settings.draws, seed=run.seed)
    write_rows(run.output("cases.csv"), COLUMNS, rows)
    run.finish(
        {
            "cases_count": len(rows),
            "holds_count": sum(row["holds"] for row in rows),
            "printed_fails_count": sum(not row["printed_holds"] for row in rows),
            "wrongly_magnified_count": sum(
                row["printed_says_magnified"] and not row["magnified"] for row in rows
            ),
            "formula_error_frac": max(row["formula_error"] for row in rows),
        },
        notes=["float64 on the CPU; a case holds if measured is within 4 standard errors"],
    )
