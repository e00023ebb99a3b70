"""Bring results home from another machine: first records and numbers, then weights and checkpoints as far as there is room.

Files for which there is no room stay behind; their run lists them with their sha256 in ``left_behind.json`` next to its record.
At home, `place` and `copy` put them in their places (`relearn adopt`).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from relearn.runs import record, spool
from relearn.runs.atomic_files import digest, lock_is_free
from relearn.runs.node.jobs_file import NodeJob
from relearn.runs.node.parts import MIB, Writer
from relearn.runs.record_file import LEFT_BEHIND, Record, left_behind

STEM = "home"
MOST, LIMIT = 8, 16 * MIB
WEIGHTS = ("none", "fit")
NUMBERS = (".json", ".jsonl", ".csv", ".log", ".txt")


class Unfinished(Protocol):
    """A job, here or of a pack."""

    @property
    def run(self) -> str: ...

    @property
    def code(self) -> str: ...


def bring(
    jobs: Sequence[NodeJob],
    left: Sequence[NodeJob],
    folder: Path,
    *,
    more: Iterable[Path] = (),
    weights: str = "fit",
    most: int = MOST,
    limit: int = LIMIT,
) -> tuple[list[Path], list[str]]:
    """Write ``home.0.part`` … and return these files and the names of the files that stayed behind.

    Args:
        jobs: the finished jobs; their records and numbers are included, and their weights if there is room.
        left: the unfinished jobs; if there is room, the files from which they resume are included.
        folder: where the parts are written.
        more: further small files, such as the summary.
        weights: ``none`` leaves all files other than numbers behind, ``fit`` only those for which there is no room.
        most, limit: number of parts and bytes of a part.

    Raises:
        ValueError: there is not enough room even for records and numbers; one line.
    """
    heavy = sorted(_artefacts(jobs), key=lambda path: path.stat().st_size)
    behind: list[str] = []
    with Writer(folder, STEM, limit, most) as writer:
        # required files first, so that only weights are cut when the room runs out
        for path in [*more, *_numbers(jobs)]:
            if not writer.add(path.as_posix(), path.read_bytes()):
                raise ValueError(
                    f"{path}: no room for it in {most} files of {limit // MIB} MiB; bring fewer studies home at once"
                )
        kept = []
        # for the lists of what stays behind, whose sums are not known yet
        writer.reserve(_listed(dict.fromkeys(files, "0" * 64)) for files in _by_folder(heavy).values())
        for path in heavy:
            if weights == "fit" and writer.add(path.as_posix(), path.read_bytes()):
                kept.append(path)
        for path in _unfinished(left) if weights == "fit" else ():
            if not writer.add(path.as_posix(), path.read_bytes()):
                behind.append(path.as_posix())
        gone = sorted(set(heavy) - set(kept))
        writer.reserve(())
        for run, files in _by_folder(gone).items():
            text = _listed({file: digest(file) for file in files})
            if not writer.add((run / LEFT_BEHIND).as_posix(), text):
                raise ValueError(f"{run}: no room to say what stayed behind in {most} files")
    return writer.paths, [*map(Path.as_posix, gone), *behind]


def place(found: Record, target: Path) -> None:
    """Copy a record and its artefacts to their folder, the record last, and its spool if it is included.

    Each file appears in one rename. A file that is already there, byte for byte, is left alone. An artefact that stayed on the other
    machine is not there afterwards, unless its bytes are the record's: those of another record would count as torn.
    """
    source = Path(found["path"])
    target.mkdir(parents=True, exist_ok=True)
    elsewhere = left_behind(source)
    came = [name for name in found["outputs"] if name not in elsewhere]
    lacking = target / LEFT_BEHIND
    if lacking.is_file() and not (elsewhere and lacking.samefile(source / LEFT_BEHIND)):
        lacking.unlink()
    for name in (*came, *([LEFT_BEHIND] if elsewhere else []), record.NAME):
        copy(source / name, target / name)
    for name, sha in elsewhere.items():
        if (target / name).is_file() and digest(target / name) != sha:
            (target / name).unlink()
    root = next((folder for folder in source.absolute().parents if folder.name == "runs"), None)
    ours = next((folder for folder in target.absolute().parents if folder.name == "runs"), None)
    if root is not None and ours is not None:
        told = Path("spool") / f"{found['run']}.jsonl"
        if (root.parent / told).is_file():
            (ours.parent / told).parent.mkdir(exist_ok=True)
            copy(root.parent / told, ours.parent / told)


def copy(source: Path, target: Path) -> None:
    """Copy a file in one rename, unless its bytes are there already."""
    if target.is_file() and (target.samefile(source) or digest(target) == digest(source)):
        return
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    shutil.copyfile(source, temporary)
    os.replace(temporary, target)


def ahead(here: Path, there: Path, job: Unfinished) -> bool:
    """Whether an unfinished run must not be replaced by its copy: a process is making it here, or it has come as far here.

    Args:
        here, there: results/<scale>.
        job: its run id and its code version; checkpoints of other code do not count.
    """
    if not lock_is_free(here / "work" / f"{job.run}.lock") or (here.exists() and here.samefile(there)):
        return True
    steps = [_last_step(root, job) for root in (here, there)]
    return steps[0] > -1 and steps[0] >= steps[1]


def _last_step(root: Path, job: Unfinished) -> int:
    """The last step in the spool of an unfinished run; -1 if it cannot be resumed from what is below ``root``."""
    if not any((root / "work" / job.run).rglob("*.json")):
        return -1
    try:
        story = spool.tell(root / "spool" / f"{job.run}.jsonl")
        if story is None or story.status == spool.FINISHED or story.start["code"]["version"] != job.code:
            return -1
    except Exception:  # a line can hold any JSON; `relearn recover` puts the spool aside
        return -1
    return max((step for _, step in story.points), default=0)


def _numbers(jobs: Iterable[NodeJob]) -> Iterator[Path]:
    for job in jobs:
        yield Path(job.record)
        yield from (path for path in _outputs(job) if path.suffix in NUMBERS)
        root = _root(job)
        for path in (root / "spool" / f"{job.run}.jsonl", Path(job.log)):
            if path.is_file():
                yield path


def _artefacts(jobs: Iterable[NodeJob]) -> list[Path]:
    return [path for job in jobs for path in _outputs(job) if path.suffix not in NUMBERS]


def _outputs(job: NodeJob) -> list[Path]:
    """All artefacts that the record names, including those that other jobs read."""
    return [job.folder / name for name in record.read(job.record)["outputs"]]


def _unfinished(jobs: Iterable[NodeJob]) -> Iterator[Path]:
    """Logs, spools and checkpoints of runs that have started."""
    for job in jobs:
        root = _root(job)
        told = root / "spool" / f"{job.run}.jsonl"
        if told.is_file():
            yield from (path for path in (Path(job.log), told) if path.is_file())
            yield from sorted(path for path in (root / "work" / job.run).rglob("*") if path.is_file())


def _root(job: NodeJob) -> Path:
    return next(parent.parent for parent in Path(job.record).parents if parent.name == "runs")


def _listed(sums: Mapping[Path, str]) -> bytes:
    return json.dumps({file.name: found for file, found in sums.items()}, indent=1).encode()


def _by_folder(paths: Iterable[Path]) -> dict[Path, list[Path]]:
    found: dict[Path, list[Path]] = {}
    for path in paths:
        found.setdefault(path.parent, []).append(path)
    return found
