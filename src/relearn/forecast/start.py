"""The three lines printed at the start of a run, and a refusal if data are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from relearn.forecast import data_sets, evidence, machine, planned, summary, text
from relearn.forecast.single import PLANNED
from relearn.forecast.state import State, records_of

MOST = 4
"""Names in a line."""


class Start(NamedTuple):
    """The lines printed before the first job, and the one-line message that stops the run; "" if all data are available."""

    lines: tuple[str, str, str]
    refusal: str


def start(
    params: Mapping[str, Any],
    folders: Collection[str],
    why: Mapping[str, str],
    cores: int | None = None,
    precision: str = "fp32",
) -> Start:
    """The forecast of the jobs that an engine is about to run.

    Args:
        params: all parameters with their ``scale``.
        folders: the folders of their records.
        why: the engine's reason for each folder, in a word or two.
        cores: number of cores that the engine may use.
        precision: of the jobs.
    """
    on = machine.this_machine(cores).at(precision)
    book = planned.jobs_of(params)
    jobs = [book[folder] for folder in folders if folder in book]
    fixed = summary.correction(params["scale"], on, records_of(jobs), jobs)
    part = summary.sum_up(
        [summary.planned_job(job, State("to do", why.get(job.folder, "")), fixed) for job in jobs], on
    )
    for one in part.jobs:
        if one.cost:
            key = one.job.study, one.job.step, evidence.settings_key(one.job.settings)
            PLANNED[key] = one.cost.seconds
    sets = data_sets.needed(jobs)
    missing = [one for one in sets if one.status == data_sets.MISSING] + data_sets.unreachable(sets)
    return Start((_jobs(part, params["scale"]), _forecast(part, on), _data(sets, missing)), _refusal(missing))


def _jobs(part: summary.Part, scale: str) -> str:
    reasons = Counter(one.state.why or "to do" for one in part.jobs)
    reason_text = ", ".join(f"{count} {why}" for why, count in reasons.most_common(MOST))
    studies = ", ".join(one.name for one in part.parts)
    return f"jobs: {len(part.jobs)} at scale {scale} ({reason_text}) of {studies}"


def _forecast(part: summary.Part, on: machine.Machine) -> str:
    middle, low, high = part.seconds
    times = f"{text.duration(middle)} of CPU time ({text.duration(low)} to {text.duration(high)})"
    places = f"{text.size(part.memory_mb)} of memory, {text.size(part.disk_mb)} of disk"
    beside = f"; unknown cost: {part.unknown} jobs" if part.unknown else ""
    return (
        f"forecast: {times}, {text.duration(part.schedule.wall_s)} with {on.cores} at once, {places}{beside}"
    )


def _data(sets: list[data_sets.DataSet], missing: list[data_sets.DataSet]) -> str:
    lost = {one.name for one in missing}
    states = [f"{one.title} {'missing' if one.name in lost else one.status}" for one in sets]
    return f"data: {', '.join(states) or 'none from outside'}"


def _refusal(missing: list[data_sets.DataSet]) -> str:
    if not missing:
        return ""
    return f"data missing, so nothing was started: {'; '.join(one.line for one in missing)}"
