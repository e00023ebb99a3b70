"""How much of each published artefact has been measured: cells with records of all that the paper shows.

A cell is one row, one column and one victim (and one k, where a figure sweeps k). What this version does not
measure counts as defined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relearn.report.artefacts import Artefact, Column, Row
from relearn.report.quantities import Evidence

FIELDS = (
    *("artefact", "scale", "cells_measured", "cells_defined", "share_frac"),
    *("methods_measured", "methods_defined", "methods_missing"),
)


@dataclass(frozen=True)
class Coverage:
    """Counts of one artefact; ``missing`` names the methods (rows) without a single measured cell."""

    artefact: str
    measured: int
    defined: int
    methods: int
    missing: tuple[str, ...]

    def line(self) -> str:
        lacking = f"; nothing of {', '.join(self.missing)}" if self.missing else ""
        return f"{self.artefact}: {self.measured} of {self.defined} cells measured{lacking}"

    def row(self, scale: str) -> list[object]:
        share = self.measured / self.defined
        methods = (self.methods - len(self.missing), self.methods, "; ".join(self.missing))
        return [self.artefact, scale, self.measured, self.defined, share, *methods]


def cover(artefact: Artefact, evidence: Evidence) -> Coverage:
    """Count the cells of one artefact; additions of ours (rows outside the published grid) do not count."""
    measured = defined = 0
    missing = []
    rows = [row for row in artefact.rows if row.in_grid]
    for row in rows:
        columns = [column for column in artefact.columns if row.applies(column.id)]
        found = sum(_measured(artefact, row, column, evidence) for column in columns)
        defined += len(columns) * len(artefact.members) * max(len(artefact.sweep), 1)
        measured += found
        if not found:
            missing.append(row.title)
    defined += sum(part["cells"] for part in artefact.absent)
    missing += [part["title"] for part in artefact.absent]
    return Coverage(artefact.id, measured, defined, len(rows) + len(artefact.absent), tuple(missing))


def _measured(artefact: Artefact, row: Row, column: Column, evidence: Evidence) -> int:
    filters = ({"study": artefact.study}, artefact.common, row.where)
    trials = evidence.trials(column.quantity, *filters, sweep=bool(artefact.sweep))
    if artefact.sweep:
        ks = set(artefact.sweep)
        return len(
            {
                (trial.victim, trial.k)
                for trial in trials
                if trial.victim in artefact.members and trial.k in ks
            }
        )
    return len({trial.victim for trial in trials if trial.victim in artefact.members})


def table(coverages: Sequence[Coverage], scale: str) -> list[list[object]]:
    return [coverage.row(scale) for coverage in coverages]
