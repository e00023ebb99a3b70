"""Which planned jobs are done, to do, or stale, and why: the same rules as Snakemake's, without running it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from relearn.runs.atomic_files import digest
from relearn.runs.code_version import code_version
from relearn.runs.record_file import NAME, checksum, left_behind, run_id
from relearn.studies.work import Job

DONE, TO_DO, STALE = "done", "to do", "stale"
MOST_READ = 1_000_000  # bytes; the default of Snakemake's --max-checksum-file-size


class State(NamedTuple):
    """State of one job: ``done``, ``to do`` or ``stale``, and the reason in a few words."""

    what: str
    why: str = ""


def run_of(job: Job) -> str:
    """The run id that the job's record will have."""
    return run_id(job.study, job.step, job.labels, job.scale, job.seed, job.settings)


def states(
    jobs: Sequence[Job], records: Mapping[str, Mapping[str, Any]], version: Callable[..., str] = code_version
) -> dict[str, State]:
    """The state of each job by folder.

    Args:
        jobs: in any order. A file that stayed on another machine makes its job pending only if a pending job reads it.
        records: by folder, as from :func:`records_of`.
        version: computes the code version of modules.
    """
    found: dict[str, State] = {}

    def settle(job: Job) -> State:
        if job.folder not in found:
            before = [settle(one) for one in job.before]
            found[job.folder] = _state(job, records, before, version)
        return found[job.folder]

    for job in jobs:
        settle(job)
    needed = [job for job in jobs if found[job.folder].what != DONE]
    while needed:
        job = needed.pop()
        asked = {path for paths in job.inputs.values() for path in paths}
        for one in job.before:
            elsewhere = records.get(one.folder, {}).get("elsewhere", ())
            gone = [name for name in elsewhere if f"{one.folder}/{name}" in asked]
            if gone and found[one.folder].what == DONE:
                found[one.folder] = State(TO_DO, f"{gone[0]} stayed on the machine that made it")
                needed.append(one)
    return found


def _state(
    job: Job, records: Mapping[str, Mapping[str, Any]], before: Iterable[State], version: Callable[..., str]
) -> State:
    record = records.get(job.folder)
    if record is None:
        return State(TO_DO)
    if "fault" in record:
        return State(TO_DO, record["fault"])
    elsewhere = record["elsewhere"]
    gone = [
        name for name in job.outputs if name not in elsewhere and not os.path.exists(f"{job.folder}/{name}")
    ]
    if gone:
        return State(TO_DO, f"{gone[0]} is gone")
    if record["run"] != run_of(job):
        return State(STALE, _changed(job, record))
    if record["code"]["version"] != version(*job.modules):
        return State(STALE, "code")
    if any(one.what != DONE for one in before):
        return State(STALE, "its inputs are rebuilt")
    recorded = {one["path"]: one["sha256"] for many in record["inputs"].values() for one in many}
    asked = {path for paths in job.inputs.values() for path in paths}
    if asked != set(recorded):
        return State(STALE, "other inputs")
    for one in job.before:
        made = records.get(one.folder, {})
        for name, output in made.get("outputs", {}).items():
            if recorded.get(f"{one.folder}/{name}", output["sha256"]) != output["sha256"]:
                return State(STALE, f"input {name} has changed")
    if any(_time(path) > record["time"] and not _same_bytes(path, sha) for path, sha in recorded.items()):
        return State(STALE, "an input is newer")
    return State(DONE)


def _same_bytes(path: str, sha256: str) -> bool:
    """Whether a newer input is known to be unchanged; like Snakemake, this reads no file of more than `MOST_READ` bytes."""
    return os.path.getsize(path) <= MOST_READ and digest(path) == sha256


def _time(path: str) -> float:
    """The modification time of a file; 0 if it is elsewhere."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _changed(job: Job, record: Mapping[str, Any]) -> str:
    """A description of the first setting that differs."""
    was, now = flat(record["settings"]), flat(job.settings)
    for key in sorted({*was, *now}):
        if was.get(key, "none") != now.get(key, "none"):
            return f"setting {key}: {was.get(key, 'none')} is now {now.get(key, 'none')}"
    return "labels"


def flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested settings as a flat mapping with dotted keys."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{above}{key}.")
        else:
            found[f"{above}{key}"] = list(value) if isinstance(value, tuple) else value
    return found


def records_of(jobs: Iterable[Job]) -> dict[str, dict[str, Any]]:
    """The existing records of the jobs, with the file's ``time`` and the outputs that are ``elsewhere``.

    An unreadable or edited one has a ``fault`` instead.
    """
    found: dict[str, dict[str, Any]] = {}
    for job in jobs:
        path = Path(job.folder, NAME)
        try:
            content = path.read_bytes()
        except OSError:
            continue
        try:
            record = json.loads(content)
            elsewhere = [
                name for name in left_behind(job.folder) if not os.path.exists(f"{job.folder}/{name}")
            ]
            found[job.folder] = {**record, "time": path.stat().st_mtime, "elsewhere": elsewhere}
            record["run"], record["code"]["version"], record["inputs"]
            if checksum(record) != record["sha256"]:
                found[job.folder] = {"fault": "its record was edited: see `relearn recover`"}
        except (ValueError, KeyError, TypeError):
            found[job.folder] = {"fault": "its record cannot be read: see `relearn recover`"}
    return found
