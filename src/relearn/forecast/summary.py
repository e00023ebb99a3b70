"""The forecast of a plan: each job with its state and its cost, summed by step, by study and in total."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from relearn.forecast import evidence, machine, planned
from relearn.forecast.amount import Amount
from relearn.forecast.correction import Correction, Forecast, total
from relearn.forecast.footprint import Footprint, footprint
from relearn.forecast.known_versions import KnownVersions
from relearn.forecast.schedule import Schedule, schedule
from relearn.forecast.state import DONE, STALE, TO_DO, State, records_of, run_of, states
from relearn.studies.work import Job, work_of


class Planned(NamedTuple):
    """One job with its state and forecast; ``cost`` is None if nothing is known about its step.

    ``busy_s`` are the seconds of ``cost`` in which its GPU cannot work for another job.
    """

    job: Job
    state: State
    cost: Forecast | None
    amount: Amount | None
    footprint: Footprint
    busy_s: float = 0.0


@dataclass
class Part:
    """Jobs that are summed up: those of a step, of a study, or all.

    Args:
        name: name of the step or study.
        jobs: all its jobs.
        cores: number of cores, or of places on GPUs, on which they would run.
        gpus: among which the places are.
    """

    name: str
    jobs: Sequence[Planned]
    cores: int
    start_s: float = 0.0
    parts: list[Part] = field(default_factory=list)
    gpus: int = 0

    @property
    def waiting(self) -> list[Planned]:
        """The jobs that are not done."""
        return [one for one in self.jobs if one.state.what != DONE]

    def count(self, what: str) -> int:
        return sum(one.state.what == what for one in self.jobs)

    @property
    def reasons(self) -> Counter[str]:
        """Reasons why jobs are stale or have to be repeated, with counts."""
        return Counter(one.state.why for one in self.jobs if one.state.why)

    @property
    def seconds(self) -> tuple[float, float, float]:
        """CPU or device seconds of the jobs that are not done: middle, low, high."""
        return total(one.cost for one in self.waiting if one.cost)

    @property
    def unknown(self) -> int:
        """Number of jobs to do without a known cost; the sums leave them out."""
        return sum(one.cost is None for one in self.waiting)

    @property
    def schedule(self) -> Schedule:
        seconds = {
            one.job.folder: (one.cost.seconds if one.cost else 0.0) + self.start_s for one in self.waiting
        }
        found = schedule([one.job for one in self.waiting], seconds, self.cores)
        busy = sum(one.busy_s for one in self.waiting) / max(self.gpus, 1)
        return found._replace(wall_s=max(found.wall_s, busy))

    @property
    def memory_mb(self) -> float:
        """Main memory of the largest jobs that can run at the same time, MB."""
        largest = sorted((one.footprint.memory_mb for one in self.waiting), reverse=True)
        return sum(largest[: self.cores])

    @property
    def disk_mb(self) -> float:
        return sum(one.footprint.disk_mb for one in self.waiting)

    @property
    def measured_share(self) -> float:
        """Share of the forecast seconds that is based on runs of the same scale."""
        near = sum(
            one.cost.seconds for one in self.waiting if one.cost and one.cost.basis in ("run", "scale")
        )
        return near / (self.seconds[0] or 1.0)


def forecast(
    params: Mapping[str, Any],
    targets: Sequence[str] = (),
    *,
    on: machine.Machine | None = None,
    studies: Iterable[str] = (),
) -> Part:
    """The forecast of the whole plan at one scale, or of the given targets.

    Args:
        params: all parameters with their ``scale``.
        targets: see :func:`relearn.forecast.planned.with_ancestors`.
        on: the machine; None: this one.
        studies: only these studies are summed up; none given: all.
    """
    on = on or machine.this_machine()
    jobs = planned.with_ancestors(planned.jobs_of(params), targets)
    records = records_of(jobs)
    versions = KnownVersions()
    known = states(jobs, records, versions)
    versions.keep()
    wanted = set(studies)
    jobs = [job for job in jobs if not wanted or job.study in wanted]
    fixed = correction(params["scale"], on, records, jobs)
    found = [planned_job(job, known[job.folder], fixed) for job in jobs]
    return sum_up(found, on)


def correction(
    scale: str,
    on: machine.Machine,
    records: Mapping[str, Mapping[str, Any]] | None = None,
    jobs: Sequence[Job] = (),
) -> Correction:
    """The cost model of a machine, corrected by the shipped table and by this checkout's own records."""
    efficiencies, rows = evidence.load_shipped()
    own = []
    for job in jobs:
        record = (records or {}).get(job.folder, {})
        if "cost" in record and not evidence.on_a_device(record):
            own.append(evidence.row_of(record, job))
    newer = {row.run for row in own}
    older = [row for row in rows if row.run not in newer]
    return Correction(on, efficiencies, older, scale, own=() if on.gpus else own, made_on=evidence.made_on)


def planned_job(job: Job, state: State, fixed: Correction) -> Planned:
    kind, amount = evidence.work_behind(job)
    run = run_of(job)
    cost = fixed.of(job.study, job.step, kind, run, amount)
    if amount is None and cost and cost.basis == "mean" and work_of(job) is not None:
        cost = None  # the mean of another scale says nothing about a network that has not been counted
    busy = cost.seconds * fixed.machine.device_share(amount) if cost and amount else 0.0
    return Planned(job, state, cost, amount, footprint(job, fixed.memory), busy)


def sum_up(jobs: Sequence[Planned], on: machine.Machine) -> Part:
    """All jobs, with one part per study, each with one part per step."""
    sizes: dict[str, Any] = {"cores": on.at_once, "start_s": on.start_s, "gpus": on.gpus}
    whole = Part("all", jobs, **sizes)
    for study in dict.fromkeys(one.job.study for one in jobs):
        mine = [one for one in jobs if one.job.study == study]
        part = Part(study, mine, **sizes)
        for step in dict.fromkeys(one.job.step for one in mine):
            part.parts.append(Part(step, [one for one in mine if one.job.step == step], **sizes))
        whole.parts.append(part)
    return whole


__all__ = ["DONE", "STALE", "TO_DO", "Part", "Planned", "forecast"]
