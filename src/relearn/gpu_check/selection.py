"""The jobs to check: from the pack in this folder, or from the checkout."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from relearn.runs.node import jobs_file
from relearn.runs.node.jobs_file import CHOSEN, NodeJob


def select(targets: Sequence[str] = ()) -> tuple[set[str], list[NodeJob]]:
    """The run ids to compare, and their jobs with all jobs whose outputs these read.

    Args:
        targets: studies, or single steps such as ``poisoning/craft``; none: all.

    Raises:
        ValueError: a target matches no job, or data of the checkout have not been prepared.
    """
    chosen, every = from_the_pack() if Path(CHOSEN).is_file() else from_the_plan(targets)
    if not targets:
        return chosen, every
    for target in targets:
        if not any(target in (job.study, f"{job.study}/{job.step}") for job in every):
            raise ValueError(f"target: found {target}, allowed: a study, or study/step")
    wanted = {job.run for job in every if {job.study, f"{job.study}/{job.step}"} & set(targets)} & chosen
    makers = {path: job for job in every for path in job.outputs}
    needed, waiting = set(wanted), [job for job in every if job.run in wanted]
    while waiting:
        before = [makers[path] for path in waiting.pop().inputs if path in makers]
        waiting += [job for job in before if job.run not in needed]
        needed |= {job.run for job in before}
    return wanted, [job for job in every if job.run in needed]


def from_the_plan(targets: Sequence[str]) -> tuple[set[str], list[NodeJob]]:
    """Select from the DAG of the checkout, at the scale of params.yaml; needs Snakemake, prepares missing data."""
    from relearn.cli import check_jobs, jobs, pack

    plan = [job for job in jobs.plan(sorted({one.split("/")[0] for one in targets})) if job.record]
    chosen, needed = check_jobs.cheapest(plan)
    pack.prepare(pack.unprepared(needed))
    return {job.run for job in chosen}, [pack.node_job(job) for job in needed if check_jobs.needs_torch(job)]


def from_the_pack() -> tuple[set[str], list[NodeJob]]:
    """The selection made by `relearn pack --check`."""
    return set(json.loads(Path(CHOSEN).read_text())), jobs_file.read(Path(jobs_file.NAME))
