"""A table computed from its definition and the records: each cell with spread, trials, published value and runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from relearn.report import classified, complete, published
from relearn.report.artefacts import COSTS, Artefact, Column, Row, Where
from relearn.report.derived import under
from relearn.report.figures import foot
from relearn.report.published import Value
from relearn.report.quantities import Evidence, Trial, quantity
from relearn.report.runs import Run
from relearn.report.statistics import clustered_share, mean_spread, median_spread


@dataclass(frozen=True)
class Cell:
    """One row and column of an artefact, aggregated over the artefact's label ``over``.

    ``mean`` and ``spread`` are over members (victims), each with all its trials; ``pooled`` is over trials, with an interval
    that has targets as clusters if trials are binary. If the artefact shows medians, ``mean`` is the median and ``spread``
    the standard deviation. ``published`` maps a label ("paper", "published code") to the value in this cell's unit,
    ``printed`` to the full published entry. In a grid the members are seeds and ``spread`` is the standard error of
    their mean; ``best`` names the chosen group of runs if the row takes the best of several. ``stalled`` counts runs
    that ended without having learned anything (outcome not_converged, or :func:`relearn.report.classified.idle`); their values, near
    chance, count in the mean. ``comparable`` says whether the runs follow the published protocol, on data and in numbers that do not
    depend on the machine. ``chosen`` states settings that the row chose for itself, ``size`` the size of the networks.
    """

    row: Row
    column: Column
    status: str
    mean: float | None = None
    spread: float | None = None
    members: Mapping[str, list[float]] = field(default_factory=dict)
    trials: int = 0
    pooled: float | None = None
    low: float | None = None
    high: float | None = None
    diverged: int = 0
    published: Mapping[str, float] = field(default_factory=dict)
    published_members: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    runs: tuple[str, ...] = ()
    printed: Mapping[str, Value] = field(default_factory=dict)
    best: str = ""
    stalled: int = 0
    comparable: bool = True
    chosen: str = ""
    size: str = ""

    def deviation(self) -> tuple[str, float] | None:
        """The first published label with a value, and measured minus published; None without either, or if they do not compare."""
        if self.mean is not None and self.comparable:
            for label, value in self.published.items():
                return label, self.mean - value
        return None


def build(artefact: Artefact, evidence: Evidence) -> list[Cell]:
    """All cells of the artefact, row by row, including those without a run, whose status says why.

    Raises:
        ValueError: a published file or a trials.csv cannot be read.
    """
    values = {label: source.values() for label, source in artefact.published.items()}
    return [
        _cell(artefact, row, column.of(row), evidence, values)
        for row in artefact.rows
        for column in artefact.columns
    ]


def by_member(trials: Iterable[Trial]) -> dict[str, list[float]]:
    """The values of each victim, over all seeds."""
    found: dict[str, list[float]] = defaultdict(list)
    for trial in trials:
        found[trial.victim].append(trial.value)
    return dict(found)


def _cell(
    artefact: Artefact,
    row: Row,
    column: Column,
    evidence: Evidence,
    values: Mapping[str, list[Value]],
) -> Cell:
    printed = _printed(artefact, row, column, values)
    beside = _published(printed, column)
    if not row.applies(column.id):
        return Cell(row, column, "not_applicable", published=beside, printed=printed)
    filters = ({"study": artefact.study}, artefact.common, row.where, column.where)
    best, runs, trials = _chosen(row, column, evidence, filters)
    diverged = sum(run.diverged for run in runs)
    stalled = sum(classified.idle(run, evidence) for run in runs)
    folders = tuple(run.folder for run in runs)
    if not trials:
        status = "not_run" if not runs else "diverged" if diverged else "no_value"
        status = "absent" if not runs and row.absent else status
        return Cell(
            row,
            column,
            status,
            diverged=diverged,
            published=beside,
            runs=folders,
            printed=printed,
            stalled=stalled,
        )
    found = by_member(trials)
    members = {name: found[name] for name in [*artefact.members, *sorted(found)] if name in found}
    aggregated = median_spread if artefact.aggregate == "median" else mean_spread
    mean, spread = aggregated([sum(values) / len(values) for values in members.values()])
    if artefact.spread_kind == "standard_error" and spread is not None:
        spread /= math.sqrt(len(members))
    total = sum(trial.value for trial in trials)
    ends = None
    if quantity(column.quantity).binary:
        ends = clustered_share([trial.value for trial in trials], [trial.target for trial in trials])
    return Cell(
        row,
        column,
        "measured",
        mean=mean,
        spread=spread,
        members=members,
        trials=len(trials),
        pooled=total / len(trials),
        low=ends.low if ends else None,
        high=ends.high if ends else None,
        diverged=diverged,
        published=beside,
        published_members={
            name: _published(_printed(artefact, row, column, values, name), column) for name in members
        },
        runs=folders,
        printed=printed,
        best=best,
        stalled=stalled,
        comparable=column.unit not in COSTS and all(evidence.follows(run, artefact.protocol) for run in runs),
        chosen="" if column.every else _settings(artefact, runs),
        size=foot.size_of(
            [made for run in runs for made in evidence.sources(run)],
            evidence,
            full="networks of the published size",
        ),
    )


def _settings(artefact: Artefact, runs: Sequence[Run]) -> str:
    """The settings of the runs that the artefact's caption states, and how they were chosen, if a note says so.

    A run that chooses a setting itself records the chosen value as a metric, and its settings keep the value that it replaces.
    """
    found = []
    for key, words in artefact.chosen.items():
        values = {
            value
            for run in runs
            for value in ([run.metrics[key]] if key in run.metrics else under(run.settings, key))
            if isinstance(value, int | float)
        }
        notes = {
            note.partition(", ")[2]
            for run in runs
            for note in run.record["notes"]
            if note.startswith(f"{words} ")
        }
        how = f" ({notes.pop()})" if len(notes) == 1 else ""
        found += [f"{words} {' and '.join(f'{value:g}' for value in sorted(values))}{how}"] if values else []
    return ", ".join(found)


def _chosen(
    row: Row, column: Column, evidence: Evidence, filters: Sequence[Where]
) -> tuple[str, list[Run], list[Trial]]:
    """The runs and trials of a cell; with ``best_over``, those of the group with the best mean, and its name."""
    runs, trials = evidence.of(column.quantity, *filters), complete.trials(evidence, column, *filters)
    if row.best_over is None or not trials:
        return "", runs, trials
    named = {run.folder: run.labels.get(row.best_over, "") for run in runs}
    judging = evidence.trials(row.best_by, *filters) if row.best_by else trials
    ranked: dict[str, list[float]] = defaultdict(list)
    for trial in judging or trials:
        ranked[named[trial.folder]].append(trial.value)
    sign = -1 if column.direction == "lower" else 1
    best = max(sorted(ranked), key=lambda name: sign * sum(ranked[name]) / len(ranked[name]))
    kept = [trial for trial in trials if named[trial.folder] == best]
    chosen = [run for run in runs if named[run.folder] == best]
    return best if len(set(named.values())) > 1 else "", chosen, kept


def _printed(
    artefact: Artefact,
    row: Row,
    column: Column,
    values: Mapping[str, list[Value]],
    member: str = "",
) -> dict[str, Value]:
    """The published entry of each label for this cell, or for one of its members."""
    found = {}
    for label, source in artefact.published.items():
        if column.published_metric is None:
            continue
        value = published.find(
            values[label],
            row=row.published or row.title,
            metric=column.published_metric,
            column=column.published_column or member or source.column,
        )
        if value is not None:
            found[label] = value
    return found


def _published(printed: Mapping[str, Value], column: Column) -> dict[str, float]:
    """The published numbers in the column's unit."""
    numbers = {label: value.in_unit(column.unit) for label, value in printed.items()}
    return {label: number for label, number in numbers.items() if number is not None}
