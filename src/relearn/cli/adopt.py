"""relearn adopt: take records made elsewhere into results/; both engines then count them as done.

A record is taken only if it matches what the DAG requires today: its checksum and those of its artefacts are correct, its settings
and code are the same, and its inputs have the same bytes as the outputs of a run that is here or is adopted with it. All records are
checked before the first is copied. A single mismatch refuses all of them, with one line that names the record and the key. Beside a
torn or edited record, those that fit are taken; the exit status is 3.

The files are then copied to their places, modification times are put in the order of the DAG, and Snakemake's metadata is
written. Without the metadata Snakemake would notice newer files but no later change of a parameter. `dvc repro` calls Snakemake, so
it sees the same state.

Instead of a folder, the files that `run.sh` of a pack wrote into home/ can be given (`relearn pack`). They are unpacked and adopted
in the same way, together with the checkpoints from which unfinished runs resume, unless a run has come as far here. Weights that
stayed on the other machine are listed, not reported as missing: their run counts as done until a pending job needs them.
A published set (results/published/<scale>) can be given, too: a record that fits is taken where no fitting record is here, and the
others are counted. A published set has no weights, which count as left on the other machine, and no data, which is prepared first.

Without a folder, the records already in results/ are checked and registered in the same way (after `dvc checkout` of
an older commit, or when `.snakemake` was lost); those that do not fit are listed and left alone. The exit status is 3 if one, or an
artefact of it, is torn or edited.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from relearn import cli
from relearn.cli import SCALES, jobs
from relearn.cli.jobs import Job
from relearn.report.runs import sets_below
from relearn.report.views.names import plural
from relearn.runs import exit_codes, record
from relearn.runs.atomic_files import Lock
from relearn.runs.node import home, parts
from relearn.runs.record_file import files, left_behind
from relearn.runs.run_store import Store, is_store

Record = dict[str, Any]
LOCK = Path(".snakemake/adopt.lock")
"""Held while records are put in place; `relearn recover` leaves Snakemake's lock alone meanwhile."""
ONE_MS = 1_000_000  # modification times are in ns


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = "holds the records, at any depth; or the files home.*.part; default: results/"
    parser.add_argument("folder", nargs="*", type=Path, help=what)
    known = "mini | small | medium | paper; default: that of the records, or the scale in params.yaml"
    parser.add_argument("--scale", help=known)


def main(args: argparse.Namespace) -> int:
    with contextlib.ExitStack() as stack:
        folder = None if not args.folder else open_records(args.folder, stack)
        scale = args.scale or (scale_of(folder) if folder else None)
        return take(folder, scale, whole=not (args.folder and is_store(args.folder[0])))


def scale_of(folder: Path) -> str | None:
    """The scale of the records and unfinished runs below a folder, or None if it is not the same for all."""
    found = {one["scale"] for one in record.read_all(folder)[0]}
    found |= {path.parents[1].name for path in folder.glob("results/*/work/*")}
    return found.pop() if len(found) == 1 and found <= set(SCALES) else None


def open_records(given: Sequence[Path], stack: contextlib.ExitStack) -> Path:
    """The given folder, or a temporary one with the content of the given parts or published set.

    Raises:
        FileNotFoundError: a path that leads nowhere.
        RecordError: a folder without records and unfinished runs.
        ValueError: a single file that is no part.
    """
    for path in given:
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such file or folder")
        if len(given) > 1 and path.is_dir():
            raise ValueError(f"{path}: found a folder among {len(given)} paths, allowed: one folder alone")
    if len(given) == 1 and given[0].suffix != parts.SUFFIX and not is_store(given[0]):
        if given[0].is_file():
            raise ValueError(f"{given[0]}: found a file, allowed: a folder of records, or files home.*.part")
        if not files(given[0]) and not any(given[0].glob("results/*/work/*")):
            raise record.RecordError(f"{given[0]}: holds no record.json{sets_below(given[0])}")
        return given[0]
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relearn-")))
    if is_store(given[0]):
        Store(given[0]).unpack(folder)
    else:
        parts.read(given, folder)
    return folder


def take(folder: Path | None, scale: str | None, whole: bool = True) -> int:
    """Take the records below ``folder``, or check those in results/.

    Args:
        whole: all records of the folder have to fit; otherwise only the fitting records that results/ lacks are taken.
    """
    with (
        Lock(LOCK),
        jobs.workflow((), {"scale": scale} if scale else {}) as built,
        engine_lock(built.persistence),
    ):
        theirs = [job for job in jobs.in_order(built) if job.is_shell]
        plan = [jobs.job_of(job) for job in theirs]
        here = (Path(job.record) for job in plan if job.record and os.path.exists(job.record))
        torn = [*damaged(files(folder) if folder else here)] if whole else []
        if folder and not whole:
            make_data(folder, plan)
        coming, fitting, faults = chosen(folder, plan, whole and not torn)
        faults = [one for one in faults if not (folder and any(fault.endswith(one) for fault in torn))]
        for path, found in coming.items():
            home.place(found, Path(path).parent)
        resumable, strange = (0, "") if folder is None else place_unfinished(folder, plan, fitting)
        put_in_order([job for job in plan if job.record in fitting])
        for their, job in zip(theirs, plan):
            if job.record in fitting:
                built.async_run(built.persistence.finished(their))
    for fault in torn if folder else faults:
        print(f"left alone: {fault}", file=sys.stderr)
    if folder is not None and faults:
        print(f"left out {len(faults)} records that do not fit; the first: {faults[0]}", file=sys.stderr)
    elsewhere = [f"{Path(path).parent}/{name}" for path in coming for name in left_behind(Path(path).parent)]
    if elsewhere:
        print(f"{len(elsewhere)} files stayed on the other machine, such as {elsewhere[0]}")
    if strange:
        print(f"left out: {strange}", file=sys.stderr)
    if resumable:
        print(f"{resumable} unfinished runs resume from their checkpoints")
    there = len(fitting) - len(coming)
    print(f"adopted {len(coming)} records, {there} were here; `snakemake -n` says what is left to do")
    return exit_codes.DATA if torn or any(isinstance(fault, Damage) for fault in faults) else 0


class Damage(str):
    """A line about an artefact that is missing or has other bytes than its record says."""


def make_data(folder: Path, plan: Sequence[Job]) -> None:
    """Prepare the data that runs below ``folder`` had prepared, unless it is here, was prepared in another way, or needs a download.

    Otherwise Snakemake makes it for the first new job, and then repeats all runs that read it. Data whose bytes differ is removed again.
    """
    from relearn.forecast import data_sets

    steps = {job.run: job for job in plan if job.step.startswith("prepare_")}
    for found in record.read_all(folder)[0]:
        job = steps.get(found["run"])
        if job is None or all(map(os.path.exists, job.outputs)) or not data_sets.at_hand(job):
            continue
        words = shlex.split(job.command.partition(" --out ")[0])[1:]
        Path(job.logs[0]).parent.mkdir(parents=True, exist_ok=True)
        status = cli.main([*words, "--device", "cpu", "--out", job.folder, "--log", job.logs[0]])
        if status == exit_codes.SIGINT:
            raise KeyboardInterrupt
        if status or record.read(job.folder)["outputs"] != found["outputs"]:
            differ = "left out, its bytes are not the published ones"
            why = f"not made, see {job.logs[0]}" if status else differ
            print(f"{job.folder}: {why}", file=sys.stderr)
            shutil.rmtree(job.folder, ignore_errors=True)


def damaged(paths: Iterable[Path]) -> Iterator[str]:
    """One line for each record that cannot be read."""
    for file in paths:
        try:
            record.read(file)
        except record.RecordError as error:
            yield str(error)


def engine_lock(persistence: Any) -> contextlib.AbstractContextManager[None]:
    """Hold Snakemake's lock on this scale's files, so that no engine starts while records are put in place.

    Raises:
        BlockingIOError: an engine holds it, or one that was killed has left it.
    """
    if persistence.locked:
        raise BlockingIOError(
            f"{jobs.LOCKS}: Snakemake is running here, or was killed; wait for it, or run `relearn recover`"
        )
    return cast("contextlib.AbstractContextManager[None]", persistence.lock())


def chosen(
    folder: Path | None, plan: Sequence[Job], whole: bool = True
) -> tuple[dict[str, Record], dict[str, Record], list[str]]:
    """Return the records of ``folder`` to take, by path; all records that then fit; and one line for each that does not.

    Args:
        folder: holds records at any depth; None: only the records in place are considered.
        whole: all of them have to fit; otherwise a record is taken if it fits and no fitting record is in place.

    Raises:
        ValueError: a record that does not fit although all have to; one line.
    """
    left: list[str] = []
    coming = {} if folder is None else arrivals(folder, plan, None if whole else left)
    fitting, faults = survey(plan, coming, here_first=not whole)
    if folder is None:
        return {}, fitting, list(faults.values())
    wrong = [fault for path, fault in faults.items() if path in coming]
    refuse(wrong if whole else [])
    taken = {path: found for path, found in coming.items() if fitting.get(path) is found}
    return taken, fitting, [fault.replace(f"{folder}/", "") for fault in left + wrong]


def arrivals(folder: Path, plan: Sequence[Job], left: list[str] | None = None) -> dict[str, Record]:
    """Return the records below ``folder`` by the path where each belongs.

    Args:
        left: collects a line for each record that is damaged or that no job of the plan makes; None: raise instead.

    Raises:
        ValueError: a record that would have been added to ``left``; one line.
    """
    records, faults = record.read_all(folder)
    places = {_identity(vars(job)): job.record for job in plan if job.record}
    coming: dict[str, Record] = {}
    for found in records:
        path = places.get(_identity(found))
        if path is None:
            faults.append(f"{_name(found)}: labels: no job of the DAG is {_identity(found)}")
        else:
            coming[path] = found
    if left is None:
        refuse(faults)
    else:
        left += faults
    return coming


def refuse(faults: Sequence[str]) -> None:
    """Raise ValueError with the first fault and the number of further ones; do nothing without faults."""
    if faults:
        raise ValueError(faults[0] + (f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""))


def survey(
    plan: Sequence[Job], coming: Mapping[str, Record], here_first: bool = False
) -> tuple[dict[str, Record], dict[str, str]]:
    """Return the records that fit, and one line for each that does not; coming records take precedence over those in place.

    With ``here_first`` a record in place takes precedence if it fits. A record fits only if the
    runs that made its inputs fit, too: a result computed from a stale network is stale.
    """
    fitting: dict[str, Record] = {}
    faults: dict[str, str] = {}
    sums: dict[str, str] = {}
    made = {path for job in plan for path in job.outputs}
    for job in plan:
        if job.record is None:
            continue
        come = [coming[job.record]] if job.record in coming else []
        in_place = _record_in_place(job.record)
        for found in in_place + come if here_first else come or in_place:
            for path in {path for paths in job.named_inputs.values() for path in paths} - made - sums.keys():
                if os.path.isfile(path):  # such as a released checkpoint, which no job makes
                    sums[path] = record.digest(path)
            if fault := str(found) if isinstance(found, record.RecordError) else misfit(job, found, sums):
                faults[job.record] = fault
                continue
            faults.pop(job.record, None)
            fitting[job.record] = found
            outputs = (path for path in job.outputs if path != job.record)
            sums |= {path: found["outputs"][Path(path).name]["sha256"] for path in outputs}
            # a record is an input of runs that choose a rate
            sums[job.record] = record.digest(Path(found["path"]) / record.NAME)
            break
    return fitting, faults


def _record_in_place(path: str) -> list[Any]:
    """The record in place, or its error; empty if there is none."""
    if not Path(path).exists():
        return []
    try:
        return [record.read(path)]
    except record.RecordError as error:
        return [error]


def misfit(job: Job, found: Record, sums: Mapping[str, str]) -> str | None:
    """Return the first difference between a record and what the DAG requires of ``job``, in one line, or None.

    Args:
        sums: the sha256 of each artefact that a fitting run makes, by its path in results/.
    """
    for key, have, want in _differences(job, found, sums):
        if have != want:
            return f"{_name(found)}: {key}: found {_short(have)}, the DAG requires {_short(want)}"
    problems = record.verify_outputs(found)
    return Damage(problems[0]) if problems else None


def _differences(job: Job, found: Record, sums: Mapping[str, str]) -> Iterator[tuple[str, Any, Any]]:
    """Yield key, found and wanted value for everything that must agree."""
    have, want = _leaves(found["settings"], "settings"), _leaves(job.settings, "settings")
    for key in sorted(have.keys() | want.keys()):
        yield key, have.get(key, "nothing"), want.get(key, "nothing")
    yield "run", found["run"], job.run  # run id: covers the types, too (1 is not 1.0)
    yield "code.version", found["code"]["version"], job.code
    names = sorted(Path(path).name for path in job.outputs if path != job.record)
    yield "outputs", sorted(found["outputs"]), names
    yield "inputs", sorted(found["inputs"]), sorted(job.named_inputs)
    for name, paths in job.named_inputs.items():
        yield f"inputs.{name}", f"{len(found['inputs'][name])} files", f"{len(paths)} files"
        for path, given in zip(paths, found["inputs"][name]):
            key = f"inputs.{name} ({path})"
            yield key, given["sha256"], sums.get(path, "the checksum of a matching run, but there is none")


def place_unfinished(folder: Path, plan: Sequence[Job], fitting: Mapping[str, Record]) -> tuple[int, str]:
    """Copy spools and checkpoints of planned runs that have no record here, and are not as far here or at work.

    Returns:
        the number of these runs; a line about unfinished runs that are left out, or "".
    """
    found = ahead = 0
    came = {path for path in folder.glob("results/*/work/*") if any(path.rglob("*"))}
    for job in plan:
        if job.record is None:
            continue
        root = Path(job.record).parents[-3]  # results/<scale>
        came.discard(folder / root / "work" / job.run)
        if job.record in fitting or os.path.exists(job.record):
            continue
        kept = [path for path in (folder / root / "work" / job.run).rglob("*") if path.is_file()]
        spool = folder / root / "spool" / f"{job.run}.jsonl"
        if kept and spool.is_file():
            if home.ahead(root, folder / root, job):
                ahead += 1
                continue
            found += 1
            shutil.rmtree(
                root / "work" / job.run, ignore_errors=True
            )  # checkpoints of two attempts do not mix
            for path in (spool, *kept):
                target = path.relative_to(folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                home.copy(path, target)
    strange = [f"{plural(len(came), 'unfinished run')} that no job of the DAG makes"] if came else []
    if ahead:
        strange.append(
            f"{plural(ahead, 'unfinished run')} of which there is as much here, or a process at work"
        )
    return found, "; ".join(strange)


def put_in_order(plan: Sequence[Job]) -> None:
    """Move the modification times of outputs forward if they are older than an input; leave all others unchanged."""
    for job in plan:
        times = [os.stat(path).st_mtime_ns for path in job.inputs if os.path.exists(path)]
        newest = max(times, default=0)
        for path in filter(os.path.exists, job.outputs):  # some may have stayed on the other machine
            if os.stat(path).st_mtime_ns < newest:
                os.utime(path, ns=(newest + ONE_MS, newest + ONE_MS))


def _identity(job: Mapping[str, Any]) -> str:
    """Identify a run (a record or a job's fields) by what does not depend on its settings."""
    pairs = " ".join(f"{key}={value}" for key, value in sorted(job["labels"].items()))
    return f"{job['study']} {job['step']} {pairs} seed={job['seed']} scale={job['scale']}"


def _name(found: Record) -> str:
    return f"{found['path']}/record.json"


def _leaves(value: Any, key: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {key: value}
    return {name: leaf for part in value for name, leaf in _leaves(value[part], f"{key}.{part}").items()}


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
