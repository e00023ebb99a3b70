"""One run as shown in MLflow: experiment, name, tags, parameters, inputs and note, from its spool, its record or both.

Standard library only. Everything here depends on files only, so importing twice gives the same result.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from relearn.runs import record_file, spool
from relearn.runs.atomic_files import canonical, lock_is_free
from relearn.runs.spool import Story
from relearn.tracking import names
from relearn.tracking.note import NOTE, note

STALE_S = 60.0
LONGEST = 8000  # characters of a tag
Place = tuple[str, int]  # a metric and a step


class Use(Protocol):
    """The uses of a run; implemented in :mod:`relearn.report.used_by`, which this package does not import."""

    @property
    def artefacts(self) -> Iterable[str]: ...
    @property
    def cells(self) -> Iterable[str]: ...
    @property
    def claims(self) -> Iterable[str]: ...
    @property
    def numbers(self) -> Mapping[tuple[str, str, str, str], tuple[float, float, float | None]]: ...
    @property
    def rendered_ms(self) -> int: ...


class UsedBy(Protocol):
    """Gives the uses of every run in a results folder."""

    def about(self, study: str) -> str: ...
    def signature(self, root: Path) -> object: ...
    def of(self, root: Path, what: Mapping[str, Any], folder: str) -> Use: ...


@dataclass
class Source:
    """The files of one run id in one root: `root/spool/<id>.jsonl`, and the record with that id."""

    root: Path
    id: str
    spool: Path | None = None
    record: Path | None = None

    def signature(self) -> tuple[tuple[int, int], ...]:
        """A value that changes with the files; only used to avoid reading unchanged files."""
        stats = [path.stat() for path in (self.spool, self.record) if path is not None and path.exists()]
        return tuple((one.st_mtime_ns, one.st_size) for one in stats)


@dataclass
class Tracked:
    """The MLflow contents for one execution of a run. Times are milliseconds since 1970."""

    id: str
    started: str  # ISO 8601: distinguishes the executions of one run id
    experiment: str
    name: str
    status: str
    start_ms: int
    end_ms: int | None
    tags: dict[str, str]
    params: dict[str, str]
    inputs: list[tuple[str, str, str]]  # (input's name, path, sha256)
    lines: Path | None  # the spool
    story: Story | None
    finals: dict[str, float] = field(default_factory=dict)  # the record's own numbers
    files: list[tuple[Path, str]] = field(default_factory=list)  # with their folder among the run's artifacts
    record_sha: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)  # of its cells, from the last rendering
    numbers_ms: int = 0
    group: str = ""  # the group of runs that it belongs to; "" for none

    @property
    def size(self) -> int:
        """Number of bytes of the spool that have been read."""
        return self.story.size if self.story else 0

    @property
    def numbers_sha(self) -> str:
        return hashlib.sha256(canonical(dict(self.numbers)).encode()).hexdigest()[:16]

    def fingerprint(self) -> str:
        """A hash of the run's contents; if it equals the stored one, there is nothing to do."""
        state = [
            self.started,
            self.status,
            self.size,
            self.record_sha,
            self.name,
            self.tags,
            self.numbers_sha,
        ]
        return hashlib.sha256(canonical(state).encode()).hexdigest()[:16]


@dataclass
class Summary:
    """Result of one import; `problems` has one line per invalid file."""

    created: int = 0
    updated: int = 0
    replaced: int = 0
    unchanged: int = 0
    deleted_by_hand: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = f"{self.created} new, {self.updated} updated, {self.replaced} replaced"
        counts += f", {self.unchanged} unchanged"
        statuses = ", ".join(f"{number} {status}" for status, number in sorted(self.statuses.items()))
        return counts + (f" ({statuses})" if statuses else "")


def in_all(before: Summary, last: Summary) -> Summary:
    """What several passes did together; unchanged runs, statuses and problems are those that the last one found."""
    names = ("created", "updated", "replaced", "deleted_by_hand")
    return replace(last, **{name: getattr(before, name) + getattr(last, name) for name in names})


def sources(root: Path) -> tuple[list[Source], list[str]]:
    """The runs in a root (``results/<scale>``), sorted by id, and one line for each unreadable record."""
    found: dict[str, Source] = {}
    for path in sorted((root / "spool").glob("*.jsonl")):
        found[path.stem] = Source(root, path.stem, spool=path)
    problems = []
    runs = root / "runs"
    for path in record_file.files(runs if runs.is_dir() else root):
        try:
            run = str(json.loads(path.read_bytes())["run"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            problems.append(f"{path}: torn, not a complete record; its step must run again")
            continue
        source = found.setdefault(run, Source(root, run))
        source.record = source.record or path
    return sorted(found.values(), key=lambda one: one.id), problems


def read_story(path: Path, upto: int | None = None) -> Story | None:
    """The contents of a spool, with MLflow's names for its curves."""
    story = spool.tell(path, upto)
    if story is not None:
        new = names.distinct(key for key, _ in story.points)
        story.points = {(new[key], step): point for (key, step), point in story.points.items()}
    return story


def tracked(source: Source, used_by: UsedBy | None, stale_s: float, now: float) -> Tracked:
    """Read one run.

    Raises:
        RecordError: the record is invalid.
        ValueError: there is no valid file at all.
    """
    story = read_story(source.spool) if source.spool else None
    record = record_file.read(source.record) if source.record else None
    if record is None and story is None:
        raise ValueError(f"{source.spool}: no start line in this spool")
    if record and story:
        started, begun = record["cost"]["started"], story.start["started"]
        if started > begun:
            story = None  # the spool is from an older execution: the record was copied from elsewhere
        elif begun > started:
            record = None  # the reverse: a new execution has started
    what: dict[str, Any] = record or (story.start if story else {})
    status, reason, end = _status(source, record, story, stale_s, now)
    started = str(record["cost"]["started"] if record else what["started"])
    labels = {str(key): str(value) for key, value in what["labels"].items()}
    out = source.record.parent if source.record else Path(what.get("out", ""))
    folder = _below(out)
    # Its record has been replaced by that of a run with other settings, or was put aside.
    superseded = record is None and status == spool.FINISHED
    use = used_by.of(source.root, what, folder) if used_by and not superseded else None
    about = {key: str(what[key]) for key in ("paper", "study", "step", "scale", "seed")}
    tags = {
        **labels,
        **about,
        **(_used(use) if use else {}),
        "kind": "superseded" if superseded else "run",
        "commit": str(what["code"]["commit"]),
        "dirty": str(what["code"]["dirty"]),
        "code": str(what["code"]["version"]),
        "settings": hashlib.sha256(canonical(what["settings"]).encode()).hexdigest()[:16],
        "device": str(what["machine"]["device"]),
        "precision": str(what["machine"]["precision"]),
        "torch": str(what["code"]["packages"].get("torch")),
        "outcome": record["outcome"] if record else "",
        "reason": (record["outcome_reason"] if record else reason) or "",
        "strange": "; ".join(story.strange[:20]) if story else "",
        "attempts": str(story.attempts) if story else "",
        "mlflow.source.name": f"relearn {what['study']} {what['step']}",
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": what["code"]["commit"] or "",
        NOTE: note(what, out),
    }
    finals = {}
    files = []
    if record and source.record:
        cost = {key: record["cost"][key] for key in ("wall_s", "cpu_s", "device_s", "peak_memory_bytes")}
        finals = names.metrics({**cost, **record["metrics"]})
        table = out / "trials.csv"
        shown = [source.record, *([table] if "trials.csv" in record["outputs"] and table.is_file() else [])]
        files = [(path, "") for path in shown]
    marks = {**{f"label.{key}": value for key, value in labels.items()}, "seed": about["seed"]}
    return Tracked(
        id=source.id,
        started=started,
        experiment=names.experiment(about["study"], about["paper"], about["scale"]),
        name=names.run(about["step"], folder, labels, about["seed"]),
        status=status,
        start_ms=_ms(started),
        end_ms=None if end is None else int(end * 1000),
        tags={key: value[:LONGEST] for key, value in tags.items() if value},
        params={key: value[:6000] for key, value in [*marks.items(), *flat(what["settings"])]},
        inputs=[
            (name, one["path"], one["sha256"]) for name in what["inputs"] for one in what["inputs"][name]
        ],
        lines=source.spool if story else None,
        story=story,
        finals=finals,
        files=files,
        record_sha=record["sha256"] if record else "",
        numbers=names.cells(use.numbers) if use else {},
        numbers_ms=use.rendered_ms if use else 0,
        group=about["step"],
    )


def _below(out: Path) -> str:
    """A run's folder as named in the rendered files: ``runs/…``."""
    _, found, end = out.as_posix().rpartition("/runs/")
    return f"runs/{end}" if found else out.as_posix()


def _used(use: Use) -> dict[str, str]:
    kinds = {"artefact": use.artefacts, "cell": use.cells, "claim": use.claims}
    return {name: names.join_entries(entries, LONGEST) for name, entries in kinds.items()}


def _status(
    source: Source, record: dict[str, Any] | None, story: Story | None, stale_s: float, now: float
) -> tuple[str, str | None, float | None]:
    """(status, reason, end in seconds). A silent run whose lock is free counts as killed: nobody will write its end line."""
    if record:
        return spool.FINISHED, None, datetime.fromisoformat(record["cost"]["ended"]).timestamp()
    assert story is not None
    if story.status != spool.RUNNING:
        return story.status, story.reason, story.ended
    # a heartbeat in the future comes from a wrong clock; the lock tells whether the run is alive
    silent = abs(now - story.heartbeat) > stale_s
    if silent and lock_is_free(source.root / "work" / f"{source.id}.lock"):
        return spool.KILLED, "silent, and no process holds its lock", story.heartbeat
    return spool.RUNNING, None, None


def flat(settings: Mapping[str, Any], above: str = "") -> Iterable[tuple[str, str]]:
    """Nested settings as pairs (dotted key, text): strings as they are, everything else as JSON."""
    for key, value in settings.items():
        name = re.sub(r"[^\w\-. /]", "_", f"{above}{key}")
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{name}.")
        else:
            yield name, value if isinstance(value, str) else canonical(value)


def _ms(iso: str) -> int:
    return int(datetime.fromisoformat(iso).timestamp() * 1000)
