"""Time of jobs in parallel: list scheduling with the longest chain first, an optimistic estimate for a real engine."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from relearn.studies.work import Job


class Schedule(NamedTuple):
    """Wall seconds of all jobs, seconds of the longest chain, and the jobs of that chain in order."""

    wall_s: float
    chain_s: float
    chain: list[Job]


def schedule(jobs: Sequence[Job], seconds: Mapping[str, float], cores: int) -> Schedule:
    """Simulate ``jobs`` on ``cores``; each uses as many cores as it needs, but at most all.

    Args:
        jobs: all jobs to run.
        seconds: duration of each job, by folder.
        cores: at least 1; for GPUs, the number of jobs that run at once.
    """
    mine = {job.folder: job for job in jobs}
    before = {
        folder: [one.folder for one in job.before if one.folder in mine] for folder, job in mine.items()
    }
    after: dict[str, list[str]] = {folder: [] for folder in mine}
    for folder, many in before.items():
        for one in many:
            after[one].append(folder)
    rest = _to_the_end(mine, after, seconds)
    waiting = {folder: len(many) for folder, many in before.items()}
    ready = [(-rest[folder], folder) for folder, count in waiting.items() if not count]
    heapq.heapify(ready)
    running: list[tuple[float, str, int]] = []
    now, free = 0.0, cores
    while ready or running:
        held = []
        while ready and free:
            urgency, folder = heapq.heappop(ready)
            wide = min(mine[folder].needs.threads, cores)
            if wide > free:
                held.append((urgency, folder))
                continue
            free -= wide
            heapq.heappush(running, (now + seconds[folder], folder, wide))
        for later in held:
            heapq.heappush(ready, later)
        now, folder, wide = heapq.heappop(running)
        free += wide
        for one in after[folder]:
            waiting[one] -= 1
            if not waiting[one]:
                heapq.heappush(ready, (-rest[one], one))
    return Schedule(now, max(rest.values(), default=0.0), _chain(mine, after, rest))


def _to_the_end(
    mine: Mapping[str, Job], after: Mapping[str, list[str]], seconds: Mapping[str, float]
) -> dict[str, float]:
    """Seconds from the start of each job to the end of the longest chain that begins with it."""
    rest: dict[str, float] = {}

    def of(folder: str) -> float:
        if folder not in rest:
            rest[folder] = seconds[folder] + max((of(one) for one in after[folder]), default=0.0)
        return rest[folder]

    for folder in mine:
        of(folder)
    return rest


def _chain(mine: Mapping[str, Job], after: Mapping[str, list[str]], rest: Mapping[str, float]) -> list[Job]:
    found: list[Job] = []
    choice = list(mine)
    while choice:
        longest = max(choice, key=lambda folder: rest[folder])
        found.append(mine[longest])
        choice = after[longest]
    return found
