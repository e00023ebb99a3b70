"""What jobs will cost, before they start: work counted from the plans, rates measured here, corrected by what was measured.

:func:`expected_seconds` and :func:`job_seconds` answer for single jobs; `relearn plan` prints the whole. docs/forecast.md says how
it is made and how far it was off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relearn.studies.work import Job

__all__ = ["expected_seconds", "job_seconds"]


def expected_seconds(study: str, step: str, settings: Mapping[str, Any]) -> float | None:
    """CPU seconds that a run with these settings will take on this machine; None if nothing is known of its step.

    Without the plan the networks behind a job's inputs are unknown: what was measured of equal settings counts, then the
    mean of its step. :func:`job_seconds` knows more.
    """
    from relearn.forecast import single

    return single.expected_seconds(study, step, settings)


def job_seconds(jobs: Iterable[Job]) -> dict[str, float]:
    """CPU seconds of each planned job on this machine, by its folder; without those of which nothing is known."""
    from relearn.forecast import single

    return single.job_seconds(jobs)
