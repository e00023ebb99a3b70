"""Accuracy of the forecasts, study by study: each run is forecast from other runs only.

*Held out*: the runs of a scale are split into :data:`FOLDS` parts; each is forecast from the other parts and the other scale.
*Other scale*: everything, including the efficiencies, comes from the runs of the other scale, as for a scale never run before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from relearn.forecast.correction import Correction
from relearn.forecast.evidence import Row, made_on

FOLDS = 10
ASKED = 1.5
"""Forecast and measurement should be within this factor."""


class Line(NamedTuple):
    """One study at one scale: number of runs; CPU seconds as measured, as forecast held out, and as forecast from the other scale."""

    scale: str
    study: str
    runs: int
    measured: float
    held_out: float
    other_scale: float


Fit = Callable[[Sequence[Row]], Sequence[float]]


def lines(rows: Sequence[Row], efficiencies: Sequence[float], fit: Fit) -> list[Line]:
    """Forecast and measured seconds for every study of every scale, each run on the machine that made it.

    Args:
        rows: all runs.
        efficiencies: fitted to all rows; used for the held-out forecasts.
        fit: fits efficiencies to given rows; used for the forecasts from the other scale.
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
            _add(held_out, mine[fold::FOLDS], efficiencies, [*kept, *others], scale)
        across: dict[str, float] = defaultdict(float)
        _add(across, mine, fit(others), others, scale)
        for study in dict.fromkeys(row.study for row in mine):
            seconds = [row.cpu_s for row in mine if row.study == study]
            found.append(Line(scale, study, len(seconds), sum(seconds), held_out[study], across[study]))
    return found


def _add(
    sums: dict[str, float],
    rows: Sequence[Row],
    efficiencies: Sequence[float],
    known: Sequence[Row],
    scale: str,
) -> None:
    """Add the forecasts of ``rows``, which rest on ``known`` runs, to the sum of each study."""
    for on in {made_on(row) for row in rows}:
        fixed = Correction(on, efficiencies, known, scale, made_on=made_on, same_runs=False)
        for row in (row for row in rows if made_on(row) == on):
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
    """The larger value over the smaller; infinite if one is zero."""
    low, high = sorted((forecast, measured))
    return high / low if low > 0 else float("inf")
