"""The jobs that `python -m relearn.gpu_check` runs: the cheapest one of every step, with all jobs whose outputs it reads."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from relearn.cli.jobs import Job
from relearn.studies.study import load


def needs_torch(job: Job) -> bool:
    """Whether a job computes with torch; the others prepare data."""
    return bool(import_module(load(job.study).steps[job.step]).NEEDS_TORCH)


def seconds_of(job: Job) -> float:
    """The forecast of a job; 1 if there is no forecast for its step."""
    from relearn.forecast.single import expected_seconds

    return expected_seconds(job.study, job.step, job.settings) or 1.0


def cheapest(plan: Sequence[Job]) -> tuple[list[Job], list[Job]]:
    """The cheapest job of every step that uses torch, including the cost of its ancestors; and these jobs with their ancestors."""
    makers = {path: job for job in plan for path in job.outputs}

    def with_ancestors(job: Job) -> dict[str, Job]:
        found = {job.run: job}
        for path in job.inputs:
            if path in makers:
                found |= with_ancestors(makers[path])
        return found

    best: dict[tuple[str, str], tuple[float, Job]] = {}
    for job in filter(needs_torch, plan):
        cost = sum(map(seconds_of, with_ancestors(job).values()))
        known = best.get((job.study, job.step))
        if known is None or cost < known[0]:
            best[job.study, job.step] = (cost, job)
    chosen = [job for _, job in best.values()]
    needed = {run for job in chosen for run in with_ancestors(job)}
    return chosen, [job for job in plan if job.run in needed]
