"""Cost forecasts for jobs: work counted from the plans, times rates measured on this machine, corrected by past runs.

:func:`expected_seconds` and :func:`job_seconds` forecast single jobs; `relearn plan` prints the whole forecast. docs/forecast.md
describes the method and its errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relearn.studies.work import Job

__all__ = ["expected_seconds", "job_seconds"]


def expected_seconds(study: str, step: str, settings: Mapping[str, Any]) -> float | None:
    """CPU seconds that a run with these settings will take on this machine; None if nothing is known about its step.

    Without the plan, the networks behind a job's inputs are unknown. The forecast is then a past run with equal settings, or the
    mean of the step. :func:`job_seconds` is more precise.
    """
    from relearn.forecast import single

    return single.expected_seconds(study, step, settings)


def job_seconds(jobs: Iterable[Job]) -> dict[str, float]:
    """CPU seconds of each planned job on this machine, by its folder; jobs without a forecast are left out."""
    from relearn.forecast import single

    return single.job_seconds(jobs)
