"""What the runs cost and on what they ran, summed over records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relearn.report.runs import Run


@dataclass(frozen=True)
class StepCost:
    """Sums over the runs of one step; the peak is the greatest of any run."""

    step: str
    runs: int
    wall_s: float
    cpu_s: float
    device_s: float
    peak_memory_bytes: float


def per_step(runs: Sequence[Run]) -> list[StepCost]:
    """One line a step, in the order in which the steps began."""
    steps: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: str(run.record["cost"]["started"])):
        steps.setdefault(run.step, []).append(run)
    return [
        StepCost(
            step,
            len(group),
            _sum(group, "wall_s"),
            _sum(group, "cpu_s"),
            _sum(group, "device_s"),
            max(float(run.record["cost"].get("peak_memory_bytes") or 0.0) for run in group),
        )
        for step, group in steps.items()
    ]


def _sum(runs: Sequence[Run], name: str) -> float:
    return sum(float(run.record["cost"].get(name) or 0.0) for run in runs)


def machines(runs: Sequence[Run]) -> list[str]:
    """Each machine that made a run, with device, precision and threads, the busiest first."""
    counts: dict[str, int] = {}
    for run in runs:
        counts[run.machine] = counts.get(run.machine, 0) + 1
    ranked = sorted(counts, key=lambda text: (-counts[text], text))
    return [f"{text}: {counts[text]} runs" for text in ranked]


def last_day(runs: Sequence[Run]) -> str:
    """The day on which the last run ended, not the day of rendering: equal records give an equal report."""
    return max((str(run.record["cost"]["ended"]) for run in runs), default="no runs")[:10]


def versions(runs: Sequence[Run]) -> list[str]:
    """The commits behind the runs; ``+`` marks a working tree with changes of its own."""
    found = set()
    for run in runs:
        code = run.record["code"]
        commit = code.get("commit")
        found.add(f"{str(commit)[:10]}{'+' if code.get('dirty') else ''}" if commit else "no commit known")
    return sorted(found)
