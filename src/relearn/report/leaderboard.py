"""Leaderboards from records: what each method reached in each set-up, with interval, cost and protocol.

A study lists its boards as ``BOARDS`` beside its predicates. A row is a method (an attack, a defence, an attention, an
initialisation) in a cell (the attack that a defence meets, a task, a network) at one scale. Only rows of a complete protocol are
ranked: those with a number for every victim, seed and target that any row of the same cell has, and with an interval, which one seed
does not give. A row that misses some says how many, stands below the others and has no rank. A diverged training that has no
number is missing, too. Rows are ranked among those of their cell with the same protocol, precision included; one that has no such
rival has no rank.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from relearn.report import claim_cost, claims_formats, cost
from relearn.report.artefacts import Where
from relearn.report.quantities import Evidence, Key, Trial
from relearn.report.runs import Run
from relearn.report.statistics import FEW, Interval, clustered_mean, student_mean
from relearn.report.table_formats import pipes
from relearn.report.views.names import plural

FIELDS = (
    *("study", "board", "scale", "cell", "rank", "method", "value", "low", "high", "unit"),
    *("n", "missing", "cpu_h", "protocol", "runs"),
)


@dataclass(frozen=True)
class Board:
    """What a leaderboard compares.

    Attributes:
        title, better: ``better`` is "higher" or "lower".
        quantity, where: the number and the runs that count (:mod:`relearn.report.quantities`).
        method, cell: labels of the runs: whose rows these are, and what each cell of the board holds; "" for one cell.
        protocol: settings that its readers need, by their key paths, e.g. ``craft.eps``.
        says: what is measured, one sentence.
        unit, factor: of the printed numbers; factor 100 turns fractions into points.
        bounds: of the quantity.
    """

    title: str
    better: str
    quantity: str
    where: Where
    method: str
    says: str
    cell: str = ""
    protocol: Sequence[str] = ()
    unit: str = "%"
    factor: float = 100.0
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True)
class Row:
    """One method in one cell of a board."""

    study: str
    board: str
    scale: str
    cell: str
    method: str
    interval: Interval
    over: str
    missing: int
    cpu_h: float
    protocol: str
    runs: tuple[str, ...] = field(default=())
    rank: int | None = None

    def line(self, unit: str, factor: float) -> list[Any]:
        """The row as cells of FIELDS; an interval that one seed cannot give is empty."""
        one = self.interval
        low, high = (f"{end * factor:.3g}" if math.isfinite(end) else "" for end in (one.low, one.high))
        rank = "" if self.rank is None else self.rank
        return [
            *(self.study, self.board, self.scale, self.cell, rank, self.method),
            *(f"{one.estimate * factor:.3g}", low, high, unit, self.over, self.missing, f"{self.cpu_h:.3g}"),
            *(self.protocol, " ".join(claims_formats.folded(self.runs))),
        ]


def rows(board: Board, study: str, scale: str, runs: Sequence[Run]) -> list[Row]:
    """The rows of a board at one scale: by cell, ranked ones first, best first."""
    evidence = Evidence([run for run in runs if run.study == study])
    folders = {run.folder: run for run in evidence.runs}
    ancestry = claim_cost.Ancestry(runs)
    cells: dict[str, dict[str, list[Trial]]] = {}
    for trial in evidence.trials(board.quantity, board.where):
        labels = folders[trial.folder].labels
        cells.setdefault(labels[board.cell] if board.cell else "", {}).setdefault(
            labels[board.method], []
        ).append(trial)
    found: list[Row] = []
    for cell, methods in sorted(cells.items()):
        wanted = {trial.key for trials in methods.values() for trial in trials}
        made = []
        for method, trials in methods.items():
            own = sorted({trial.folder for trial in trials})
            made.append(
                Row(
                    *(study, board.title, scale, cell, method),
                    *(_interval(trials, board.bounds), _over(trials, board.bounds)),
                    missing=len(wanted - {trial.key for trial in trials}),
                    cpu_h=cost.total(ancestry.with_ancestors(own), "cpu_s") / 3600,
                    protocol=_protocol(board, [folders[one] for one in own]),
                    runs=tuple(own),
                )
            )
        found += rank_rows(made, board.better)
    return found


def rank_rows(made: Iterable[Row], better: str) -> list[Row]:
    """Rows of one cell in order, those of one protocol together; equal estimates share a rank, and rows without a rank stand last."""
    sign = -1.0 if better == "higher" else 1.0
    rivals: dict[
        str, list[float]
    ] = {}  # estimates of the rows that can have a rank, by protocol, the best first
    made = sorted(made, key=lambda row: (sign * row.interval.estimate, row.method))
    for row in made:
        if _counts(row):
            rivals.setdefault(row.protocol, []).append(row.interval.estimate)
    groups = [protocol for protocol, values in rivals.items() if len(values) > 1]

    def rank(row: Row) -> int | None:
        ranked = _counts(row) and row.protocol in groups
        return rivals[row.protocol].index(row.interval.estimate) + 1 if ranked else None

    found = [replace(row, rank=rank(row)) for row in made]
    return sorted(found, key=lambda row: len(groups) if row.rank is None else groups.index(row.protocol))


def _counts(row: Row) -> bool:
    """Whether a row can have a rank: nothing is missing, and there is an interval (its ends are finite)."""
    return not row.missing and math.isfinite(row.interval.low)


def _interval(trials: Sequence[Trial], bounds: tuple[float, float] | None) -> Interval:
    several: dict[Key, list[float]] = {}  # runs of one key are no independent samples
    for trial in trials:
        several.setdefault(trial.key, []).append(trial.value)
    values = [statistics.fmean(found) for found in several.values()]
    targets = [target for _, _, target in several]
    if len(set(targets)) > 1:
        return clustered_mean(values, targets, bounds)
    if len(values) > 1:
        return student_mean(values)
    return Interval(values[0], float("nan"), float("nan"))


def _over(trials: Sequence[Trial], bounds: tuple[float, float] | None) -> str:
    keys: set[Key] = {trial.key for trial in trials}
    targets, victims = {key[2] for key in keys}, {key[0] for key in keys}
    if len(targets) > 1:
        wider = _interval(trials, bounds) != _interval(trials, None)
        return f"{len(targets)} targets x {plural(len(victims), 'victim')}" + ", Wilson" * wider
    return plural(len(keys), "seed")


def _protocol(board: Board, runs: Sequence[Run]) -> str:
    """The settings that the board shows, and the precision, each with all its values; a key that the runs lack is left out."""
    found = []
    for path in board.protocol:
        values = [value for run in runs if (value := _under(run.settings, path)) is not None]
        if values:
            found.append(f"{path.rpartition('.')[2].replace('_', ' ')} {_all_of(values)}")
    return ", ".join([*found, _all_of([run.record["machine"]["precision"] for run in runs])])


def _under(settings: Any, path: str) -> Any:
    for name in path.split("."):
        settings = settings.get(name) if isinstance(settings, Mapping) else None
    return settings


def _all_of(values: Iterable[Any]) -> str:
    return " and ".join(sorted({str(value) for value in values}))


def markdown(boards: Sequence[tuple[Board, Sequence[Row]]]) -> str:
    """All boards as one page."""
    lines = [
        "# Leaderboards",
        "",
        "Made from the published runs by `relearn scoreboard`; leaderboard.csv has the same rows with their runs. A row has a rank",
        "if its protocol is complete (a number for each victim, seed and target of its cell) and has a 95% interval, which one seed",
        "does not give, and if another such row of its cell has the same protocol, precision included: only these are ranked together.",
        "Ranks order the estimates. Rows whose intervals overlap may still differ: the claims compare rows pair by pair.",
        "Intervals over seeds are Student's, over targets the bootstrap's; n marks those that Wilson's bound widens: fewer than",
        f"{FEW} targets differ from the commonest value.",
        "They also leave out models below the [required quality](../../docs/verdicts.md#required-quality), which have a rank here.",
        "A share that is net of its control may be below 0.",
        "CPU hours include all runs that the row depends on. [How to add a method](../../docs/extending.md).",
    ]
    for board, own in boards:
        if not own:
            continue
        lines += ["", f"## {board.title}", "", f"{board.says} {board.better.capitalize()} is better.", ""]
        head = ["scale", *(["against" if board.method == "defence" else board.cell] if board.cell else [])]
        head += ["rank", board.method, board.unit, "n", "CPU h", "protocol"]
        lines += [pipes(*head), "|" + "---|" * len(head)]
        for row in own:
            value, low, high = row.line(board.unit, board.factor)[6:9]
            shown = f"{value} [{low}, {high}]" if low else value
            place = "–" if row.rank is None else str(row.rank)
            n = row.over + (f", {row.missing} missing" if row.missing else "")
            cells = [row.scale, *([row.cell] if board.cell else [])]
            cells += [place, f"`{row.method}`", shown, n, f"{row.cpu_h:.3g}", row.protocol]
            lines.append(pipes(*cells))
    return "\n".join([*lines, ""])
