"""Cost of the runs and the machines they ran on, summed over records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from relearn.report.runs import Run
from relearn.report.views.names import plural


@dataclass(frozen=True)
class StepCost:
    """Sums over the runs of one step (all steps: step ""); the peak is the maximum over runs."""

    step: str
    runs: int
    wall_s: float
    cpu_s: float
    device_s: float
    peak_memory_bytes: float


def sum_up(runs: Sequence[Run]) -> StepCost:
    """The summed cost of all runs."""
    return _cost("", runs)


def hours(seconds: float) -> str:
    """``3.2 h``, ``12 min`` or ``45 s``: a duration in the most readable unit."""
    if seconds >= 3600:
        return f"{seconds / 3600:,.1f} h"
    if seconds >= 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds:.0f} s" if seconds >= 10 or not seconds else f"{seconds:.1f} s"


def mebibytes(count: float) -> str:
    return f"{count / 2**20:,.0f} MiB" if count < 2**30 else f"{count / 2**30:.1f} GiB"


def per_step(runs: Sequence[Run]) -> list[StepCost]:
    """One entry per step, in the order in which the steps began."""
    steps: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: str(run.record["cost"]["started"])):
        steps.setdefault(run.step, []).append(run)
    return [_cost(step, group) for step, group in steps.items()]


def _cost(step: str, group: Sequence[Run]) -> StepCost:
    peaks = (float(run.record["cost"].get("peak_memory_bytes") or 0.0) for run in group)
    wall_s, cpu_s, device_s = (total(group, name) for name in ("wall_s", "cpu_s", "device_s"))
    return StepCost(step, len(group), wall_s, cpu_s, device_s, max(peaks, default=0.0))


def total(runs: Iterable[Run], name: str) -> float:
    """The sum of a cost, such as ``cpu_s``, over the runs."""
    return sum(float(run.record["cost"].get(name) or 0.0) for run in runs)


def machines(runs: Sequence[Run]) -> list[str]:
    """Each machine with device, precision, threads and its number of runs, the busiest first."""
    counts: dict[str, int] = {}
    for run in runs:
        counts[run.machine] = counts.get(run.machine, 0) + 1
    ranked = sorted(counts, key=lambda text: (-counts[text], text))
    return [f"{text}: {plural(counts[text], 'run')}" for text in ranked]


def last_day(runs: Sequence[Run]) -> str:
    """The day on which the last run ended, not the day of rendering, so that equal records give an equal report."""
    return max((str(run.record["cost"]["ended"]) for run in runs), default="no runs")[:10]


def versions(runs: Sequence[Run]) -> list[str]:
    """The commits behind the runs; ``+`` marks a working tree with uncommitted changes."""
    return sorted({version(run) for run in runs})


def version(run: Run) -> str:
    """The commit of one run, in the format of :func:`versions`."""
    code = run.record["code"]
    if not code.get("commit"):
        return "no commit known"
    return f"{str(code['commit'])[:10]}{'+' if code.get('dirty') else ''}"
