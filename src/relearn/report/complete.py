"""Cells over runs of several kinds: a mean over tasks includes only the seeds at which all tasks were run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from relearn.report.artefacts import Column, Where
from relearn.report.quantities import Evidence, Trial


def trials(evidence: Evidence, column: Column, *filters: Where) -> list[Trial]:
    """The column's trials from the runs that match the filters; with ``column.every``, only those of complete seeds.

    The caller averages the values of one seed, so that each value of the label has the same weight if it has one run
    per seed.
    """
    found = evidence.trials(column.quantity, *filters)
    if column.every is None:
        return found
    label, wanted = column.every, set(_listed_values(column))
    of_run = {run.folder: run.labels.get(label) for run in evidence.of(column.quantity, *filters)}
    there: dict[str, set[str | None]] = defaultdict(set)
    for trial in found:
        there[trial.victim].add(of_run[trial.folder])
    return [trial for trial in found if wanted <= there[trial.victim]]


def _listed_values(column: Column) -> Sequence[str]:
    """The values that the column's filter lists for the label ``every``.

    Raises:
        ValueError: naming the column, if its filter has no list for this label.
    """
    values = column.where.get(column.every or "")
    if not isinstance(values, list):
        raise ValueError(
            f"column {column.id}: every: {column.every}; allowed: a label that `where` lists values of"
        )
    return values
