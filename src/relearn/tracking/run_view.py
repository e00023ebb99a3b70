"""One run as MLflow shows it: experiment, name, tags, parameters, inputs and note, from its spool, its record
or both.

Standard library only. Everything here is a function of files, so that importing twice gives the same.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from relearn.runs import record_file, spool
from relearn.runs.atomic_files import canonical, lock_is_free
from relearn.runs.spool import Story

STALE_S = 60.0
LONGEST = 5000  # letters of a tag
COLUMNS = 96  # of the command in a note
PREFIX = "relearn."  # of the tags that tell how far an import has come
Place = tuple[str, int]  # a metric and a step


@dataclass
class Source:
    """The files of one run id below one root: `root/spool/<id>.jsonl`, and the record with that id."""

    root: Path
    id: str
    spool: Path | None = None
    record: Path | None = None

    def signature(self) -> tuple[tuple[int, int], ...]:
        """Changes whenever one of the files does; only a hint that saves reading them."""
        stats = [path.stat() for path in (self.spool, self.record) if path is not None and path.exists()]
        return tuple((one.st_mtime_ns, one.st_size) for one in stats)


@dataclass
class Tracked:
    """What MLflow is to hold of one execution of a run. Times are milliseconds since 1970."""

    id: str
    started: str  # ISO 8601: tells the executions of one run id apart
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
    files: list[Path] = field(default_factory=list)
    record_sha: str = ""

    @property
    def size(self) -> int:
        """Bytes of the spool that have been read."""
        return self.story.size if self.story else 0

    def fingerprint(self) -> str:
        """Equal fingerprints: nothing to do."""
        told = [self.started, self.status, self.size, self.record_sha, self.name, self.tags]
        return hashlib.sha256(canonical(told).encode()).hexdigest()[:16]


@dataclass
class Summary:
    """What one import did; `problems` holds a line for each file that is unsound."""

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
        told = ", ".join(f"{number} {status}" for status, number in sorted(self.statuses.items()))
        return counts + (f" ({told})" if told else "")


def sources(root: Path) -> tuple[list[Source], list[str]]:
    """The runs below a root (``results/<scale>``), sorted by id, and one line for each unsound record."""
    found: dict[str, Source] = {}
    for path in sorted((root / "spool").glob("*.jsonl")):
        found[path.stem] = Source(root, path.stem, spool=path)
    problems = []
    runs = root / "runs"
    for path in sorted((runs if runs.is_dir() else root).rglob(record_file.NAME)):
        try:
            run = str(json.loads(path.read_bytes())["run"])
        except (OSError, ValueError, KeyError, TypeError):
            problems.append(f"{path}: torn, it is no complete record; its step must run again")
            continue
        found.setdefault(run, Source(root, run)).record = path
    return sorted(found.values(), key=lambda one: one.id), problems


def tracked(source: Source, artefacts: Mapping[str, Any], stale_s: float, now: float) -> Tracked:
    """Read one run. Raises RecordError when the record is unsound, ValueError when there is no sound file at
    all.
    """
    story = spool.tell(source.spool) if source.spool else None
    record = record_file.read(source.record) if source.record else None
    if record is None and story is None:
        raise ValueError(f"{source.spool}: no start line in this spool")
    if record and story:
        started, told = record["cost"]["started"], story.start["started"]
        if started > told:
            story = None  # the spool tells of an older execution: the record was brought from elsewhere
        elif told > started:
            record = None  # the other way round: a new execution has begun
    what: dict[str, Any] = record or (story.start if story else {})
    status, reason, end = _status(source, record, story, stale_s, now)
    started = str(record["cost"]["started"] if record else what["started"])
    labels = {str(key): str(value) for key, value in what["labels"].items()}
    tags = {
        **labels,
        **{key: str(what[key]) for key in ("paper", "study", "step", "scale", "seed")},
        "artefact": ", ".join(shows(what, artefacts)),
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
        "mlflow.note.content": note(
            what, source.record.parent if source.record else Path(what.get("out", ""))
        ),
    }
    finals = {}
    files = []
    if record and source.record:
        cost = {key: record["cost"][key] for key in ("wall_s", "cpu_s", "device_s", "peak_memory_bytes")}
        finals = {k: float(v) for k, v in {**cost, **record["metrics"]}.items() if v is not None}
        table = source.record.parent / "trials.csv"
        files = [source.record, *([table] if "trials.csv" in record["outputs"] and table.is_file() else [])]
    return Tracked(
        id=source.id,
        started=started,
        experiment=f"{what['paper']} {what['study']} ({what['scale']})",
        name=" ".join((what["step"], *labels.values(), f"seed{what['seed']}")),
        status=status,
        start_ms=_ms(started),
        end_ms=None if end is None else int(end * 1000),
        tags={key: value[:LONGEST] for key, value in tags.items() if value},
        params={key: value[:6000] for key, value in flat(what["settings"])},
        inputs=[
            (name, one["path"], one["sha256"]) for name in what["inputs"] for one in what["inputs"][name]
        ],
        lines=source.spool if story else None,
        story=story,
        finals=finals,
        files=files,
        record_sha=record["sha256"] if record else "",
    )


def _status(
    source: Source, record: dict[str, Any] | None, story: Story | None, stale_s: float, now: float
) -> tuple[str, str | None, float | None]:
    """(status, reason, end in seconds). A silent run whose lock is free is dead: nobody will write its end
    line.
    """
    if record:
        return spool.FINISHED, None, datetime.fromisoformat(record["cost"]["ended"]).timestamp()
    assert story is not None
    if story.status != spool.RUNNING:
        return story.status, story.reason, story.ended
    # a time in the future is a wrong clock's; whether somebody is alive, the lock says
    silent = abs(now - story.heartbeat) > stale_s
    if silent and lock_is_free(source.root / "work" / f"{source.id}.lock"):
        return spool.KILLED, "silent, and nobody holds its lock", story.heartbeat
    return spool.RUNNING, None, None


def shows(what: Mapping[str, Any], artefacts: Mapping[str, Any]) -> list[str]:
    """The artefacts that a run belongs to, as people call them ("table 2.2"): those with a line of `where`
    that it matches.

    A line's keys are study, step, paper, scale, seed or a label; a value is one name or a list of names.
    """
    about = {**what["labels"], **{key: what[key] for key in ("paper", "study", "step", "scale", "seed")}}
    names = []
    for name, artefact in artefacts.items():
        lines = artefact.get("where", ())
        lines = [lines] if isinstance(lines, Mapping) else lines
        if any(all(_matches(about.get(key), value) for key, value in line.items()) for line in lines):
            names.append(called(name))
    return names


def _matches(found: Any, allowed: Any) -> bool:
    allowed = allowed if isinstance(allowed, (list, tuple)) else [allowed]
    return found is not None and str(found) in [str(one) for one in allowed]


def called(name: str) -> str:
    """``zhu2022.fig2.5`` → ``figure 2.5``, ``zhu2022.table2.2`` → ``table 2.2``; other names stay."""
    kind = re.search(r"(?:^|\.)(fig|table)(\d.*)$", name)
    return f"{'figure' if kind[1] == 'fig' else 'table'} {kind[2]}" if kind else name


def flat(settings: Mapping[str, Any], above: str = "") -> Iterable[tuple[str, str]]:
    """Nested settings as (dotted key, text): numbers and texts as they are, lists as JSON."""
    for key, value in settings.items():
        name = re.sub(r"[^\w\-. /]", "_", f"{above}{key}")
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{name}.")
        else:
            yield name, value if isinstance(value, str) else canonical(value)


def note(what: Mapping[str, Any], out: Path) -> str:
    """Markdown with the command that repeats the run."""
    words = ["relearn", what["study"], what["step"], "--settings", canonical(what["settings"])]
    for name, many in what["inputs"].items():
        words += ["--input", name, *(one["path"] for one in many)]
    for key, value in what["labels"].items():
        words += ["--label", f"{key}={value}"]
    words += ["--scale", what["scale"], "--seed", str(what["seed"])]
    words += ["--code", what["code"]["version"], "--device", what["machine"]["device"]]
    words += ["--precision", what["machine"]["precision"], "--threads", str(what["machine"]["threads"])]
    words += ["--out", out.as_posix()]
    text = f"Run it again:\n\n```\n{pasted(words)}\n```"
    if len(text) > LONGEST:  # half a command must not be pasted
        return "Run it again: the command is too long for a note; its settings and inputs are in record.json."
    return text


def pasted(words: Iterable[str]) -> str:
    """A shell command of several lines: one option per line, and a long word in pieces that the shell joins again.

    MLflow's page is as wide as the longest line of a note, so a line has about 100 columns at most.
    """
    lines: list[str] = []
    line = ""
    for word in words:
        first, *more = map(shlex.quote, _pieces(word))
        if word.startswith("--"):
            lines.append(f"{line} \\")
            line = f"  {first}"
        elif len(line) + len(first) > COLUMNS:
            lines.append(f"{line} \\")
            line = f"    {first}"
        else:
            line += f" {first}" if line else first
        for piece in more:  # no space around the break: one word
            lines.append(f"{line}\\")
            line = piece
    return "\n".join([*lines, line])


def _pieces(word: str, most: int = COLUMNS - 20) -> Iterator[str]:
    """A word in pieces of at most so many letters, cut behind a comma, a slash or a space where there is one."""
    while len(word) > most:
        cut = max(word.rfind(mark, most // 2, most) for mark in ",/ ") + 1 or most
        yield word[:cut]
        word = word[cut:]
    yield word


def _ms(iso: str) -> int:
    return int(datetime.fromisoformat(iso).timestamp() * 1000)


# -- what the store holds already, by its tags, and what is still to be written
# ---------------------------------


def _written(tags: Mapping[str, str], run: Tracked) -> tuple[dict[Place, Any], dict[Place, Any]]:
    """Points surely in the store, points perhaps in it: the spool read as far as the tags say."""
    sure, perhaps = int(tags.get(PREFIX + "spooled", 0)), int(tags[PREFIX + "intent"])
    told = [spool.tell(run.lines, upto) if run.lines and upto else None for upto in (sure, perhaps)]
    first, then = (dict(one.points) if one else {} for one in told)
    return first, {place: point for place, point in then.items() if place not in first}


def contradicts(tags: Mapping[str, str], run: Tracked) -> bool:
    """Whether the store may hold a point that the files took back: same metric and step, other value."""
    if run.story is None:
        return False
    record = tags.get(PREFIX + "record", "")
    if record and (record != run.record_sha or (tags.get(PREFIX + "spooled") == "0" and run.story.points)):
        return True  # its numbers were placed without knowing these curves, or are no longer the record's
    sure, perhaps = _written(tags, run)
    now = run.story.points
    return any(place not in now or now[place][1] != point[1] for place, point in {**sure, **perhaps}.items())


@dataclass
class Batch:
    """One write: tags that announce it, its points (metric, value, milliseconds, step), tags that vouch for
    it.
    """

    before: dict[str, str]
    points: list[tuple[str, float, int, int]]
    after: dict[str, str]


def batches(tags: Mapping[str, str], run: Tracked) -> list[Batch]:
    """What is still to be written, the last batch with the record's own numbers.

    MLflow takes the very same point twice as one, but not the same value at another time. So what an importer
    announced and did not vouch for before it died is written again as it was announced, before anything newer
    is.
    """
    done: list[Batch] = []
    intent, size = int(tags[PREFIX + "intent"]), str(run.size)
    if intent < run.size:
        vouched = {PREFIX + "spooled": str(intent)}
        if tags.get(PREFIX + "spooled") != str(intent):
            done.append(Batch({}, _announced(tags, run), vouched))
        announced = {PREFIX + "intent": size}
        done.append(
            Batch(announced, _announced({**tags, **vouched, **announced}, run), {PREFIX + "spooled": size})
        )
    else:
        done.append(Batch({}, _announced(tags, run), {PREFIX + "spooled": size}))
    if run.record_sha and tags.get(PREFIX + "record") != run.record_sha:
        done[-1].points += _finals(run)
        done[-1].after[PREFIX + "record"] = run.record_sha
    return done


def _announced(tags: Mapping[str, str], run: Tracked) -> list[tuple[str, float, int, int]]:
    perhaps = _written(tags, run)[1]
    found = [(key, value, int(t * 1000), step) for (key, step), (t, value) in perhaps.items()]
    return sorted(found, key=lambda point: (point[2], point[3], point[0]))


def _finals(run: Tracked) -> list[tuple[str, float, int, int]]:
    """The record's numbers, one step behind their curves; a curve's own last value is not repeated."""
    now = run.story.points if run.story else {}
    found = []
    for key, value in run.finals.items():
        last = max((step for name, step in now if name == key), default=-1)
        if last < 0 or now[key, last][1] != value:
            found.append((key, value, run.end_ms or run.start_ms, last + 1))
    return found
