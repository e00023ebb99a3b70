"""jobs.json of a pack: the pending jobs, in the order of the DAG. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from relearn.runs import record
from relearn.runs.record_file import Record

NAME = "jobs.json"
CHOSEN = "check.json"  # in a pack for relearn.gpu_check: the run ids to compare


@dataclass(frozen=True)
class NodeJob:
    """One job.

    Args:
        run: the run id, as in its record.
        code: the code version, as in its record.
        study, step: the command.
        words: arguments of ``relearn``, without device, precision, threads, --out and --log.
        record: path of the record, relative to the root of the checkout; its folder is ``--out``.
        inputs: files that it reads.
        outputs: files that it writes, without the record.
        log: its log file.
        mem_mb: memory that it needs at most, in MB: the forecast of the study.
        gpu: number of GPUs that it can use.
    """

    run: str
    code: str
    study: str
    step: str
    words: tuple[str, ...]
    record: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    log: str
    mem_mb: int
    gpu: int

    @property
    def folder(self) -> Path:
        return Path(self.record).parent

    @property
    def label(self) -> str:
        """A readable name that distinguishes it from other jobs."""
        return self.folder.as_posix().partition("/runs/")[2] or self.record

    def finished_record(self) -> Record | None:
        """Its record if that is valid, fits the job, and all outputs exist; otherwise None."""
        try:
            there = record.read(self.record)
        except record.RecordError:
            return None
        fits = there["run"] == self.run and there["code"]["version"] == self.code
        return there if fits and all(Path(path).is_file() for path in self.outputs) else None


def text(jobs: Iterable[NodeJob]) -> str:
    """The content of jobs.json."""
    return json.dumps([asdict(job) for job in jobs], indent=0)


def read(path: Path) -> list[NodeJob]:
    """Read jobs.json.

    Raises:
        ValueError: the file does not hold jobs; one line.
    """
    try:
        listed = json.loads(path.read_text())
        return [NodeJob(**{key: _tuple(value) for key, value in one.items()}) for one in listed]
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: not the jobs of a pack ({error}); write it by `relearn pack`") from None


def todo(jobs: Sequence[NodeJob]) -> tuple[list[NodeJob], list[NodeJob]]:
    """Split into (done, to do): a job has to be repeated if one of its inputs is another file now, or is made again."""
    done: list[NodeJob] = []
    left: list[NodeJob] = []
    made: dict[str, str] = {}
    read = cache(record.digest)

    def changed(path: str, sha: str) -> bool:
        if path in made:
            return made[path] != sha
        return Path(path).is_file() and read(path) != sha

    for job in jobs:
        found = job.finished_record()
        if found is None or any(changed(path, sha) for path, sha in _inputs(found)):
            left.append(job)
            made |= dict.fromkeys((*job.outputs, job.record), "")  # a run that chooses a rate reads records
            continue
        done.append(job)
        made |= {path: found["outputs"][Path(path).name]["sha256"] for path in job.outputs}
    return done, left


def _inputs(found: Record) -> list[tuple[str, str]]:
    """Path and sha256 of each input, as recorded."""
    return [(one["path"], one["sha256"]) for many in found["inputs"].values() for one in many]


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
