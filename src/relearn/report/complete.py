"""Cells over runs of several kinds: a mean over tasks is one only of the seeds at which all of them were run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from relearn.report.artefacts import Column, Where
from relearn.report.quantities import Evidence, Trial


def trials(evidence: Evidence, column: Column, *filters: Where) -> list[Trial]:
    """The column's trials of the runs that agree with the filters; with ``column.every`` those of whole seeds.

    The values of one seed are averaged by whoever takes the mean of a member, so that each value of the label weighs
    the same where each has one run.
    """
    found = evidence.trials(column.quantity, *filters)
    if column.every is None:
        return found
    label, wanted = column.every, set(_listed(column))
    of_run = {run.folder: run.labels.get(label) for run in evidence.of(column.quantity, *filters)}
    there: dict[str, set[str | None]] = defaultdict(set)
    for trial in found:
        there[trial.victim].add(of_run[trial.folder])
    return [trial for trial in found if wanted <= there[trial.victim]]


def _listed(column: Column) -> Sequence[str]:
    """
    Raises:
        ValueError: naming the column, where its filter has no list of this label.
    """
    values = column.where.get(column.every or "")
    if not isinstance(values, list):
        raise ValueError(
            f"column {column.id}: every: {column.every}; allowed: a label that `where` lists values of"
        )
    return values
