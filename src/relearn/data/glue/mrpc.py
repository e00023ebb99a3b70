"""MRPC: GLUE splits the original training file by a list of pairs instead of providing files of its own.

The development part is listed in ``dev_ids.tsv`` (or ``mrpc_dev_ids.tsv``), two sentence numbers per line. If that file is
missing, a part of the same size is selected by our own rule, and ``source`` says so: the pairs with the smallest sha256 of
"<first number> <second number>". Scores on it are not scores on the benchmark's development part.

The files at the address in :mod:`relearn.data.glue.tasks` have spaces around punctuation, as used for most published results; the original
archive of the corpus has the text as printed. Both have the same pairs.
"""

from __future__ import annotations

import hashlib
from typing import Any

from relearn.data.examples import Examples
from relearn.data.glue import tables
from relearn.data.glue.files import Reader
from relearn.data.glue.tasks import Task

DEV = 408  # of 4,076
DEV_IDS = ("dev_ids.tsv", "mrpc_dev_ids.tsv")
NUMBERS = ("#1 ID", "#2 ID")


def split_parts(task: Task, reader: Reader, source: dict[str, Any]) -> dict[str, Examples]:
    """The available parts.

    Args:
        task: the entry of mrpc.
        reader: returns files by name.
        source: receives each file's sha256 and, without the official list, the rule of the development part.

    Raises:
        ValueError: no training file, one that is not MRPC's, or a listed pair that it lacks.
    """
    contents = {}
    for part, (name,) in task.files.items():
        content = reader(name)
        if content is not None:
            contents[part] = content
            source["sha256"][part] = hashlib.sha256(content).hexdigest()
    if "train" not in contents:
        raise ValueError(f"{task.folders[0]}/{task.files['train'][0]}: missing (allowed: a file)")
    found: dict[str, Examples] = {}
    for part, content in contents.items():
        name = task.files[part][0]
        table = tables.read(content, name)
        pairs = tables.examples(table, name, task.texts, task.label, task.words)
        if part == "test":
            found["test"] = pairs
            continue
        keys = list(zip(*(tables.column(table, number, name) for number in NUMBERS)))
        chosen = _listed(reader, keys, source) or _drawn(keys, source)
        found["train"] = pairs.part([number for number in range(len(pairs)) if number not in chosen])
        found["dev"] = pairs.part(sorted(chosen))
    return found


def _listed(reader: Reader, keys: list[tuple[str, ...]], source: dict[str, Any]) -> set[int]:
    for name in DEV_IDS:
        content = reader(name)
        if content is None:
            continue
        source["sha256"]["dev_ids"] = hashlib.sha256(content).hexdigest()
        wanted = {tuple(fields) for fields in tables.read(content, name, NUMBERS).rows} - {NUMBERS}
        if missing := wanted - set(keys):
            raise ValueError(f"{name}: pair {' '.join(min(missing))} (allowed: pairs of the training file)")
        source["dev"] = "the benchmark's"
        return {number for number, key in enumerate(keys) if key in wanted}
    return set()


def _drawn(keys: list[tuple[str, ...]], source: dict[str, Any]) -> set[int]:
    source["dev"] = (
        f"own: {DEV} training pairs with the smallest sha256 of their two numbers; the benchmark's list is not there"
    )
    order = sorted(
        range(len(keys)), key=lambda number: hashlib.sha256(" ".join(keys[number]).encode()).digest()
    )
    return set(order[: min(DEV, len(keys) // 2)])
