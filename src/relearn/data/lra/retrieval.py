"""Retrieval: do two texts belong together, byte by byte? (Tay et al. 2021, section 3.1.) Each is encoded alone.

``aan``: does one paper of the ACL Anthology Network cite the other? The arena's own three tables
``new_aan_pairs.{train,eval,test}.tsv``: a pair a line, no header, five columns between tabs: label (1.0 or 0.0), two ids,
two texts. They came in one archive with all of the arena, whose official address no longer answers; so the folder must
be at hand.

Two that are not of the arena, from texts that come with Python (see ``relearn.data.lra.python_documents``):
``python_kinds``: are both passages documentation, or both code? ``python_documents``: are both of the same topic or module?
Every other pair belongs together, in the second case two different passages of a document; partners are drawn anew
for each seed. A document is in one part alone. Of both kinds equally many passages take part: of all, nine in ten are code, and
most pairs that belong together would be two of code, so that one text alone told the answer.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from relearn.data.lra import PARTS, python_documents
from relearn.data.lra.samples import Samples, Task, chosen

DATASETS = ("aan", "python_kinds", "python_documents")
FILES = {part: f"new_aan_pairs.{'eval' if part == 'valid' else part}.tsv" for part in PARTS}
COLUMNS = 5


def make(
    dataset: str, samples: Mapping[str, int], *, max_length: int, seed: int = 0, folder: Path | None = None
) -> Task:
    """The task with so many pairs in train, valid and test; 0 is all, a pair a passage.

    Args:
        dataset: of :data:`DATASETS`.
        samples: how many of each part; evenly spaced.
        max_length: bytes of a passage; the papers stay whole.
        seed: of the partners.
        folder: holds the three tables.

    Raises:
        ValueError: an unknown data set, no folder, or a table that is not what it should be.
        OSError: a file cannot be read.
    """
    if dataset not in DATASETS:
        raise ValueError(f"dataset is {dataset!r}; allowed for retrieval: {', '.join(DATASETS)}")
    if dataset == "aan":
        if folder is None:
            raise ValueError(
                "dataset aan: no folder; needed: RELEARN_MIRROR with a folder aan that holds "
                + ", ".join(FILES.values())
            )
        parts = {part: read(folder / FILES[part], samples[part]) for part in PARTS}
        return Task(
            "retrieval",
            dataset,
            256,
            2,
            **parts,
            pairs=True,
            written=True,
            source={"from": "the arena's tables of AAN"},
        )
    groups: dict[str, dict[str, list[bytes]]] = {part: {} for part in PARTS}
    for document in python_documents.documents():
        group = document.kind if dataset == "python_kinds" else f"{document.kind} {document.name}"
        groups[document.part].setdefault(group, []).extend(python_documents.passages(document, max_length))
    if dataset == "python_kinds":
        groups = {part: alike(kinds) for part, kinds in groups.items()}
    parts = {part: pairs(groups[part], samples[part], random.Random(f"{part} {seed}")) for part in PARTS}
    return Task(
        "retrieval",
        dataset,
        256,
        2,
        **parts,
        pairs=True,
        written=True,
        source={**python_documents.source(), "seed": seed},
    )


def read(path: Path, wanted: int = 0) -> Samples:
    """The pairs of one table, or so many of them, evenly spaced.

    Raises:
        ValueError: a line has another number of columns, a label that is neither 0 nor 1, or an empty text.
        OSError: the file cannot be read.
    """
    lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
    samples = Samples([], [])
    for number, line in chosen(list(enumerate(lines, 1)), wanted):
        columns = line.removesuffix(b"\r").split(b"\t")
        if len(columns) != COLUMNS:
            raise ValueError(f"{path}: line {number}: {len(columns)} columns; allowed: {COLUMNS}")
        label, _, _, first, second = columns
        if label not in (b"0", b"1", b"0.0", b"1.0") or not first or not second:
            raise ValueError(
                f"{path}: line {number}: label {label.decode(errors='replace')[:20]!r}; allowed: 0 or 1, and two texts"
            )
        samples.rows.extend((first, second))
        samples.labels.append(int(float(label)))
    return samples


def alike(groups: Mapping[str, list[bytes]]) -> dict[str, list[bytes]]:
    """Of every group as many passages as the smallest has, evenly spaced."""
    fewest = min(map(len, groups.values()))
    return {name: chosen(passages, fewest) for name, passages in groups.items()}


def pairs(groups: Mapping[str, list[bytes]], wanted: int, generator: random.Random) -> Samples:
    """Pairs of passages by groups; a first passage comes from each in turn, its partner from its own or from any other group.

    Groups of one passage take no part: nothing else belongs to it.

    Raises:
        ValueError: fewer than two groups with two passages.
    """
    whole = {name: passages for name, passages in groups.items() if len(passages) > 1}
    if len(whole) < 2:
        raise ValueError(
            f"pairs: {len(whole)} documents with two passages; allowed: at least 2, shorten max_length"
        )
    every = [(name, place) for name, passages in whole.items() for place in range(len(passages))]
    samples = Samples([], [])
    # More pairs than passages begin again from the first one, with other partners.
    starts = chosen(every, wanted) if wanted <= len(every) else [every[i % len(every)] for i in range(wanted)]
    for number, (name, place) in enumerate(starts):
        label = number % 2
        if label:
            other = generator.randrange(len(whole[name]) - 1)
            partner = whole[name][other + (other >= place)]
        else:
            partner_group = name
            while partner_group == name:
                partner_group, other = every[generator.randrange(len(every))]
            partner = whole[partner_group][other]
        samples.rows.extend((whole[name][place], partner))
        samples.labels.append(label)
    return samples
