"""Forecasts of single jobs, for displays of the remaining time."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from relearn.forecast import evidence, machine
from relearn.forecast.correction import Correction
from relearn.forecast.state import run_of
from relearn.studies.work import Job

PLANNED: dict[tuple[str, str, str], float] = {}
"""Study, step and settings of the jobs of this process's plan, if it has made one, to their seconds."""


def job_seconds(jobs: Iterable[Job]) -> dict[str, float]:
    """CPU seconds of each planned job on this machine, by its folder; jobs without a forecast are left out."""
    found: dict[str, float] = {}
    for job in jobs:
        kind, amount = evidence.work_behind(job)
        cost = _correction(job.scale).of(job.study, job.step, kind, run_of(job), amount)
        if cost is not None:
            found[job.folder] = cost.seconds
    return found


def expected_seconds(study: str, step: str, settings: Mapping[str, Any]) -> float | None:
    """CPU seconds that a run with these settings will take on this machine; None if nothing is known about its step.

    Without the plan, the networks behind a job's inputs are unknown. The forecast is then a past run with equal settings, or the
    mean of the step. :func:`job_seconds` is more precise.
    """
    if found := PLANNED.get((study, step, evidence.settings_key(settings))):
        return found
    for key in ((study, step, evidence.settings_key(settings)), (study, step)):
        if key in _means():
            return _means()[key]
    return None


@cache
def _correction(scale: str) -> Correction:
    efficiencies, rows = evidence.load_shipped()
    return Correction(machine.this_machine(), efficiencies, rows, scale, made_on=evidence.made_on)


@cache
def _means() -> dict[tuple[str, ...], float]:
    """Mean CPU seconds of runs with equal settings, and of each step."""
    found: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in evidence.load_shipped()[1]:
        for key in ((row.study, row.step, row.settings), (row.study, row.step)):
            found[key].append(row.cpu_s)
    return {key: statistics.fmean(many) for key, many in found.items()}
