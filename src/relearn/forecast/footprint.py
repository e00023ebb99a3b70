"""Main memory and disk of a job."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from relearn.forecast import counts, evidence
from relearn.studies.study import load
from relearn.studies.work import Job, work_of

PROCESS_MB = 430.0
"""A process that has imported torch, resident."""
HELD = 16.0
"""Bytes of a trained weight: itself, its gradient and two moments."""
BACKWARD = 0.5
"""Share of the moved bytes that is still held when the backward pass begins."""
RECORD_MB = 0.02
"""A record with its log and its lines of history."""
WEIGHTS = ("weights", "model", "encoder", "averaged")


class Footprint(NamedTuple):
    """Peak of the resident memory and bytes on disk, both in MB of 10^6 bytes."""

    memory_mb: float
    disk_mb: float


def footprint(job: Job, rows: Sequence[evidence.Row]) -> Footprint:
    """What a job takes; memory is at least what records of its step at its scale have taken."""
    largest, weights = 0.0, 0.0
    work = work_of(load(job.study).part("work").WORK, job)
    for one in work.passes if work else ():
        net = counts.of(one.net)
        if net is None or not net.weights:
            continue
        held = HELD * net.weights if one.mode[0] >= 3 else 4 * net.weights
        kept = (
            BACKWARD * net.moved * one.samples
            if one.mode[0] >= 2
            else net.moved * one.samples / max(1.0, net.calls)
        )
        largest, weights = max(largest, held + kept), max(weights, net.weights)
    measured = _largest(id(rows), job.scale, job.study, job.step, _Rows(rows))
    saved = sum(name.endswith(".safetensors") and name.split(".")[0] in WEIGHTS for name in job.outputs)
    return Footprint(
        max(PROCESS_MB + largest / 1e6 if not measured else measured, 40.0),
        RECORD_MB + saved * 4e-6 * weights,
    )


class _Rows:
    """Rows that a cache does not look into."""

    def __init__(self, rows: Sequence[evidence.Row]) -> None:
        self.rows = rows

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return True


@cache
def _largest(_: int, scale: str, study: str, step: str, rows: _Rows) -> float:
    found = (row.memory_mb for row in rows.rows if (row.scale, row.study, row.step) == (scale, study, step))
    return float(max(found, default=0.0))
