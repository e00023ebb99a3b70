"""Coverage of each published artefact: the number of measured cells out of all that the paper shows.

A cell is one row, one column and one victim (and one k or class size, if a figure sweeps them). In a picture or
curve it is one panel or line. In a grid it is one row and one column, whatever the number of seeds; a run that diverged
without a number counts as a result there, as in the published tables. Cells that this version does not measure
count as defined. So do cells that are not built here, which are also counted separately.
Our own additions are counted separately and marked: their cells are not published cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from relearn.report import complete
from relearn.report.artefacts import Artefact, Column, Row, Where
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, select

FIELDS = (
    *("artefact", "scale", "cells_measured", "cells_defined", "share_frac"),
    *("methods_measured", "methods_defined", "methods_missing", "addition", "aggregate", "cells_absent"),
)


@dataclass(frozen=True)
class Coverage:
    """Counts for one artefact; ``missing`` names the methods (rows) without any measured cell.

    ``absent`` counts the defined cells of rows that no run of ours can fill, by the stated reason.
    """

    artefact: str
    measured: int
    defined: int
    methods: int
    missing: tuple[str, ...]
    addition: bool = False
    aggregate: str = "mean"
    absent: Mapping[str, int] = field(default_factory=dict)

    def line(self) -> str:
        lacking = f"; none of {', '.join(self.missing)}" if self.missing else ""
        ours = "addition, " if self.addition else ""
        ours += "" if self.aggregate == "mean" else f"{self.aggregate}s, "
        gone = "".join(f", {count} {words}" for words, count in self.absent.items())
        return f"{self.artefact}: {ours}{self.measured} of {self.defined} cells measured{gone}{lacking}"

    def row(self, scale: str) -> list[object]:
        share = self.measured / self.defined if self.defined else None
        methods = (self.methods - len(self.missing), self.methods, "; ".join(self.missing))
        own = (int(self.addition), self.aggregate, sum(self.absent.values()))
        return [self.artefact, scale, self.measured, self.defined, share, *methods, *own]


def cover(artefact: Artefact, evidence: Evidence) -> Coverage:
    """Count the cells of one artefact; rows outside the published grid are not counted."""
    measured = defined = 0
    missing = []
    absent: dict[str, int] = {}
    # a row to which no column applies only shows numbers of other papers
    rows = [row for row in artefact.rows if row.in_grid and row.only != ()]
    for row in rows:
        columns = [column.of(row) for column in artefact.columns if row.applies(column.id)]
        found = sum(_count_measured(artefact, row, column, evidence) for column in columns)
        # without published members (an expanded addition), each row counts once
        cells = len(columns) * max(len(artefact.members), 1) * _steps(artefact, row)
        defined += cells
        measured += found
        if row.absent:
            absent[row.absent] = absent.get(row.absent, 0) + cells - found
        elif not found:
            missing.append(row.title)
    marks = (artefact.addition, artefact.aggregate, absent)
    return Coverage(artefact.id, measured, defined, len(rows), tuple(missing), *marks)


def _steps(artefact: Artefact, row: Row) -> int:
    if row.along is None:
        return 1
    return len(artefact.sweeps[row.along]) * (
        2 if row.along == "balance" else 1
    )  # with and without replication


def _count_measured(artefact: Artefact, row: Row, column: Column, evidence: Evidence) -> int:
    filters = ({"study": artefact.study}, artefact.common, row.where, column.where)
    if artefact.grid:
        return int(_in_grid(column, evidence, *filters))
    if column.quantity.startswith("file:"):
        runs = [run for run in select(evidence.runs, *artefact.where[:1], *filters) if _has_file(run, column)]
        names = {{"step": run.step, **run.labels}.get(artefact.over) for run in runs}
        return len(names & set(artefact.members))
    trials = evidence.trials(column.quantity, *filters, sweep=row.along is not None)
    if artefact.members:
        trials = [trial for trial in trials if trial.victim in artefact.members]
    if row.along == "k":
        ks = set(artefact.sweeps["k"])
        return len({(trial.victim, trial.k) for trial in trials if trial.k in ks})
    if row.along == "balance":
        shown = {round(value, 4) for value in artefact.sweeps["balance"]}
        cells = {(trial.victim, round(trial.balance or 0.0, 4), trial.replicated) for trial in trials}
        return len({cell for cell in cells if cell[1] in shown})
    return len({trial.victim for trial in trials})


def _in_grid(column: Column, evidence: Evidence, *filters: Where) -> bool:
    if column.quantity.startswith("file:"):
        return any(_has(run, column) for run in select(evidence.runs, *filters))
    runs = evidence.of(column.quantity, *filters)
    trials = complete.trials(evidence, column, *filters)
    return bool(trials) or (column.every is None and any(run.diverged for run in runs))


def _has_file(run: Run, column: Column) -> bool:
    """Whether a run has the file of ``file:NAME``; for ``file:NAME#BEGIN``, with a column whose name begins with BEGIN."""
    return not run.diverged and _has(run, column)


def _has(run: Run, column: Column) -> bool:
    name, _, begin = column.quantity.removeprefix("file:").partition("#")
    if not run.has(name):
        return False
    return not begin or any(key.startswith(begin) for row in run.rows(name)[:1] for key in row)


def table(coverages: Sequence[Coverage], scale: str) -> list[list[object]]:
    return [coverage.row(scale) for coverage in coverages]


def total(coverages: Sequence[Coverage]) -> tuple[int, int]:
    """Cells measured and cells defined, over the published artefacts only."""
    published = [one for one in coverages if not one.addition]
    return sum(one.measured for one in published), sum(one.defined for one in published)
