"""Loads a GLUE task from its files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from relearn.data.examples import Examples
from relearn.data.glue import tables
from relearn.data.glue.files import Reader, file_reader
from relearn.data.glue.mrpc import split_parts
from relearn.data.glue.ranking import as_rankings
from relearn.data.glue.tables import Table
from relearn.data.glue.tasks import COLA, TASKS, Task

FORMS = ("pairs", "ranking")
# The original test file of the semantic textual similarity benchmark, with public scores: columns that identify a row, then the score.
STS_NAMES = ("sts-test.original.csv", "sts-test.csv")
STS_PLACE = ("genre", "filename", "year", "old_index")
AX_ANSWERED = ("Premise", "Hypothesis")  # columns of the version of the diagnostics with answers


@dataclass(frozen=True)
class Glue:
    """A task.

    Attributes:
        train: empty for ``ax``, which has a test part only.
        dev: the part for model selection; mnli: the matched one.
        test: labels None if the benchmark does not publish them; empty if the folder lacks the file.
        kind: ``classification``, ``regression`` or ``ranking``.
        classes: number of outputs of a model; 1 for regression and ranking.
        metric: main metric, see :mod:`relearn.measures.glue_scores`; ``metrics`` are all metrics of the task, the main one first.
        words: answers in a submission for class 0, 1, …; for a ranking for "not entailed" and "entailed"; empty: a value.
        source: origin of the files: plain JSON without paths, with the sha256 of each file.
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
        folder: see :func:`relearn.data.glue.files.file_reader`; None downloads.
        form: ``pairs`` as in the files, or ``ranking`` for qnli and wnli, see :mod:`relearn.data.glue.ranking`.
        official: whether the parts must have the official numbers of samples.

    Raises:
        ValueError: an unknown task or form, or files that are missing or not GLUE's.
        OSError: files cannot be read or fetched.
    """
    if task not in TASKS:
        raise ValueError(f"task: {task} (allowed: {', '.join(TASKS)})")
    spec = TASKS[task]
    if form not in FORMS or (form == "ranking" and not spec.ranking):
        able = ", ".join(name for name, each in TASKS.items() if each.ranking)
        raise ValueError(f"form: {form} of {task} (allowed: pairs; ranking of {able})")
    reader, origin = file_reader(spec, folder)
    source: dict[str, Any] = {"from": origin, "sha256": {}}
    parts = _parts(task, spec, reader, source)
    if official:
        for name, part in parts.items():
            if len(part) and len(part) not in spec.counts[name]:
                allowed = " or ".join(str(count) for count in spec.counts[name])
                raise ValueError(f"{task} {name}: {len(part)} samples (allowed: {allowed})")
    empty = Examples([], None, [])
    source["absent"] = [name for name in spec.counts if not len(parts.get(name, empty))]
    for name in ("train", "dev", "test"):
        parts.setdefault(name, empty)
    kind, classes = ("classification", len(spec.words)) if spec.words else ("regression", 1)
    if form == "ranking":
        (parts, source["ranking"]), kind, classes = as_rankings(**parts), "ranking", 1
    return Glue(
        task,
        **parts,
        kind=kind,
        classes=classes,
        metric=spec.metrics[0],
        metrics=spec.metrics,
        words=spec.words,
        source=source,
    )


def _parts(task: str, spec: Task, reader: Reader, source: dict[str, Any]) -> dict[str, Examples]:
    if task == "mrpc":
        return split_parts(spec, reader, source)
    parts = {}
    for name, names in spec.files.items():
        content = _content(reader, names, source, name)
        if content is None:
            if not name.startswith("test"):
                raise ValueError(f"{spec.folders[0]}/{names[0]}: missing (allowed: a file)")
            continue
        headless = task == "cola" and name != "test"
        short = task == "qqp" and name != "test"
        table = tables.read(content, names[0], COLA if headless else None, drop_short=short)
        if table.left_out:
            source.setdefault("left_out", {})[name] = table.left_out
        if not name.startswith("test"):
            tables.column(table, spec.label, names[0])
        texts = AX_ANSWERED if task == "ax" and AX_ANSWERED[0] in table.names else spec.texts
        parts[name] = tables.examples(table, names[0], texts, spec.label, spec.words, spec.scale)
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
    # Some rows have two more fields, the sources of the texts; only the first five are used.
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
