"""Main memory and disk of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from relearn.forecast import counts
from relearn.studies.work import Job, work_of

PROCESS_MB = 430.0
"""A process that has imported torch, resident."""
HELD = 16.0
"""Bytes of a trained weight: itself, its gradient and two moments."""
BACKWARD = 0.4
"""Share of the moved bytes that is still held when the backward pass begins: the median over the steps at scale small."""
RECORD_MB = 0.02
"""A record with its log and its lines of history."""
WEIGHTS = ("weights", "model", "encoder", "averaged")


class Footprint(NamedTuple):
    """Peak resident memory and space on disk, both in MB (10^6 bytes)."""

    memory_mb: float
    disk_mb: float


def footprint(job: Job, measured: Mapping[tuple[str, str, str], float]) -> Footprint:
    """Memory and disk space of a job.

    Args:
        job: the job.
        measured: peak memory of past runs by scale, study and step, MB; without an entry the model is used.
    """
    largest, weights = 0.0, 0.0
    work = work_of(job)
    for one in work.passes if work else ():
        net = counts.counts_of(one.net)
        if net is None or not net.weights:
            continue
        held = HELD * net.weights if one.mode[0] >= 3 else 4 * net.weights
        kept = (
            BACKWARD * net.moved * one.samples
            if one.mode[0] >= 2
            else net.moved * one.samples / max(1.0, net.calls)
        )
        largest, weights = max(largest, held + kept), max(weights, net.weights)
    seen = measured.get((job.scale, job.study, job.step), 0.0)
    saved = sum(name.endswith(".safetensors") and name.split(".")[0] in WEIGHTS for name in job.outputs)
    return Footprint(seen or PROCESS_MB + largest / 1e6, RECORD_MB + saved * 4e-6 * weights)
