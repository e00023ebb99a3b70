"""How far forecasts are from what was measured, study by study: each run forecast from other runs only.

Two ways. *Held out*: the runs of a scale in :data:`FOLDS` parts, each forecast from the other parts and from the other scale.
*Other scale*: everything from the runs of the other scale alone, the efficiencies too, as for a scale that has never run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from relearn.forecast.correction import Correction
from relearn.forecast.evidence import Row
from relearn.forecast.machine import Machine

FOLDS = 10
ASKED = 1.5
"""Forecast and measurement should be within this factor."""


class Line(NamedTuple):
    """One study at one scale: CPU seconds measured, forecast held out, and forecast from the other scale; runs behind each."""

    scale: str
    study: str
    runs: int
    measured: float
    held_out: float
    other_scale: float


Fit = Callable[[Sequence[Row], Machine], Sequence[float]]


def lines(rows: Sequence[Row], machine: Machine, efficiencies: Sequence[float], fit: Fit) -> list[Line]:
    """Forecast against measurement for every study of every scale.

    Args:
        rows: all runs, made on about such a machine as ``machine``.
        machine: with its rates.
        efficiencies: fitted to all rows; for the held-out forecasts.
        fit: fits them to other rows; for those from the other scale.
    """
    found = []
    for scale in dict.fromkeys(row.scale for row in rows):
        mine, others = (
            [row for row in rows if row.scale == scale],
            [row for row in rows if row.scale != scale],
        )
        held_out: dict[str, float] = defaultdict(float)
        for fold in range(FOLDS):
            kept = [row for at, row in enumerate(mine) if at % FOLDS != fold]
            _add(
                held_out,
                mine[fold::FOLDS],
                Correction(machine, efficiencies, [*kept, *others], scale, same_runs=False),
            )
        across: dict[str, float] = defaultdict(float)
        _add(across, mine, Correction(machine, fit(others, machine), others, scale, same_runs=False))
        for study in dict.fromkeys(row.study for row in mine):
            seconds = [row.cpu_s for row in mine if row.study == study]
            found.append(Line(scale, study, len(seconds), sum(seconds), held_out[study], across[study]))
    return found


def _add(sums: dict[str, float], rows: Iterable[Row], fixed: Correction) -> None:
    for row in rows:
        cost = fixed.of(row.study, row.step, row.kind, row.run, row.amount)
        sums[row.study] += cost.seconds if cost else 0.0


def markdown(found: Iterable[Line]) -> str:
    """The table of docs/forecast.md."""
    head = "| scale | study | runs | measured, CPU s | held out | off by | other scale only | off by |\n"
    rule = "|---|---|---:|---:|---:|---:|---:|---:|\n"
    return head + rule + "".join(f"| {' | '.join(_cells(one))} |\n" for one in found)


def _cells(one: Line) -> list[str]:
    cells = [one.scale, one.study, str(one.runs), f"{one.measured:.0f}"]
    for seconds in (one.held_out, one.other_scale):
        factor = off_by(seconds, one.measured)
        cells += [f"{seconds:.0f}", f"{factor:.2f}" if factor <= ASKED else f"**{factor:.2f}**"]
    return cells


def off_by(forecast: float, measured: float) -> float:
    """The larger over the smaller; infinite where one is nothing."""
    low, high = sorted((forecast, measured))
    return high / low if low > 0 else float("inf")
