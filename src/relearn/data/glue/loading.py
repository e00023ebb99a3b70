"""A task of GLUE from its files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from relearn.data.examples import Examples
from relearn.data.glue import tables
from relearn.data.glue.files import Reader, opened
from relearn.data.glue.mrpc import parted
from relearn.data.glue.ranking import ranked
from relearn.data.glue.tables import Table
from relearn.data.glue.tasks import COLA, TASKS, Task

FORMS = ("pairs", "ranking")
# The semantic textual similarity benchmark's own test file, whose scores are public: its place of a row, then the score.
STS_NAMES = ("sts-test.original.csv", "sts-test.csv")
STS_PLACE = ("genre", "filename", "year", "old_index")
AX_ANSWERED = ("Premise", "Hypothesis")  # columns of the diagnostics with their answers


@dataclass(frozen=True)
class Glue:
    """A task.

    Attributes:
        train: empty for ``ax``, which has a test part only.
        dev: the part that decides between models; mnli: the matched one.
        test: labels None where the benchmark keeps them; empty where the folder lacks the file.
        kind: ``classification``, ``regression`` or ``ranking``.
        classes: outputs that a model needs; 1 for regression and ranking.
        metric: the main one; of :mod:`relearn.measures.glue_scores`, like ``metrics``, which has all of the task, that one first.
        words: what a submission says for class 0, 1, …; in a ranking for "not entailed" and "entailed"; none: a value.
        source: where it comes from: plain JSON, no paths, with the sha256 of each file.
        dev_mismatched, test_mismatched: mnli's parts of other genres.
    """

    task: str
    train: Examples
    dev: Examples
    test: Examples
    kind: str
    classes: int
    metric: str
    metrics: tuple[str, ...]
    words: tuple[str, ...]
    source: dict[str, Any]
    dev_mismatched: Examples | None = None
    test_mismatched: Examples | None = None


def load(task: str, folder: Path | None = None, *, form: str = "pairs", official: bool = True) -> Glue:
    """A task in its files' order.

    Args:
        task: ``cola``, ``sst2``, ``mrpc``, ``stsb``, ``qqp``, ``mnli``, ``qnli``, ``rte``, ``wnli`` or ``ax``.
        folder: see :func:`relearn.data.glue.files.opened`; None downloads.
        form: ``pairs`` as in the files, or ``ranking`` for qnli and wnli, see :mod:`relearn.data.glue.ranking`.
        official: whether the parts must have the official numbers of samples.

    Raises:
        ValueError: an unknown task or form, files that are missing or not GLUE's.
        OSError: files cannot be read or fetched.
    """
    if task not in TASKS:
        raise ValueError(f"task: {task} (allowed: {', '.join(TASKS)})")
    told = TASKS[task]
    if form not in FORMS or (form == "ranking" and not told.ranking):
        able = ", ".join(name for name, each in TASKS.items() if each.ranking)
        raise ValueError(f"form: {form} of {task} (allowed: pairs; ranking of {able})")
    reader, said = opened(told, folder)
    source: dict[str, Any] = {"from": said, "sha256": {}}
    parts = _parts(task, told, reader, source)
    if official:
        for name, part in parts.items():
            if len(part) and len(part) not in told.counts[name]:
                allowed = " or ".join(str(count) for count in told.counts[name])
                raise ValueError(f"{task} {name}: {len(part)} samples (allowed: {allowed})")
    empty = Examples([], None, [])
    source["absent"] = [name for name in told.counts if not len(parts.get(name, empty))]
    for name in ("train", "dev", "test"):
        parts.setdefault(name, empty)
    kind, classes = ("classification", len(told.words)) if told.words else ("regression", 1)
    if form == "ranking":
        (parts, source["ranking"]), kind, classes = ranked(**parts), "ranking", 1
    return Glue(
        task,
        **parts,
        kind=kind,
        classes=classes,
        metric=told.metrics[0],
        metrics=told.metrics,
        words=told.words,
        source=source,
    )


def _parts(task: str, told: Task, reader: Reader, source: dict[str, Any]) -> dict[str, Examples]:
    if task == "mrpc":
        return parted(told, reader, source)
    parts = {}
    for name, names in told.files.items():
        content = _content(reader, names, source, name)
        if content is None:
            if not name.startswith("test"):
                raise ValueError(f"{told.folders[0]}/{names[0]}: missing (allowed: a file)")
            continue
        headless = task == "cola" and name != "test"
        short = task == "qqp" and name != "test"
        table = tables.read(content, names[0], COLA if headless else None, drop_short=short)
        if table.left_out:
            source.setdefault("left_out", {})[name] = table.left_out
        if not name.startswith("test"):
            tables.column(table, told.label, names[0])
        texts = AX_ANSWERED if task == "ax" and AX_ANSWERED[0] in table.names else told.texts
        parts[name] = tables.examples(table, names[0], texts, told.label, told.words, told.scale)
        if task == "stsb" and name == "test":
            parts[name] = _with_public_scores(parts[name], table, reader, source)
    return parts


def _content(reader: Reader, names: tuple[str, ...], source: dict[str, Any], part: str) -> bytes | None:
    for name in names:
        content = reader(name)
        if content is not None:
            source["sha256"][part] = hashlib.sha256(content).hexdigest()
            return content
    return None


def _with_public_scores(test: Examples, table: Table, reader: Reader, source: dict[str, Any]) -> Examples:
    content = _content(reader, STS_NAMES, source, "test_scores")
    if content is None:
        return test
    # Some rows have two more fields, the texts' sources; only the first five count.
    lines = content.decode("utf-8-sig").removesuffix("\n").split("\n")
    fields = [line.split("\t")[:5] for line in lines]
    places = list(zip(*(tables.column(table, name, "test.tsv") for name in STS_PLACE)))
    if [tuple(each[:4]) for each in fields] != places:
        raise ValueError(
            f"{STS_NAMES[0]}: rows are not those of test.tsv (allowed: the same, in the same order)"
        )
    source["test_scores"] = "public scores of the original benchmark"
    try:
        scores = torch.tensor([tables.value(each[4], TASKS["stsb"].scale) for each in fields])
    except (IndexError, ValueError):
        raise ValueError(
            f"{STS_NAMES[0]}: a row without a score (allowed: 0 to 5 in the fifth field)"
        ) from None
    return Examples(test.rows, scores, test.ids)
