"""Retrieval: do two texts belong together, byte by byte? (Tay et al. 2021, section 3.1.) Each text is encoded separately.

``aan``: does one paper of the ACL Anthology Network cite the other? The arena's three tables
``new_aan_pairs.{train,eval,test}.tsv`` have one pair per line, no header, and five tab-separated columns: label (1.0 or 0.0), two
ids, two texts. They were published in one archive with the whole arena, whose official address no longer works, so the folder
must be provided. ``lra_release``: the same tables, in the folder ``tsv_data`` of that archive.

Two data sets are not part of the arena and use texts included in Python (see ``relearn.data.lra.python_documents``): ``python_kinds``: are
both passages of the same kind, documentation or code? ``python_documents``: are both from the same topic or module? Every other
pair belongs together, in the second case as two different passages of a document; partners are drawn anew for each seed. A
document belongs to one part only. Equal numbers of passages of both kinds are used: nine tenths of all passages are code, so
otherwise most matching pairs would be two passages of code, and one text alone would reveal the answer.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from relearn.data.evenly_spaced import evenly_spaced_rows
from relearn.data.lra import PARTS, python_documents
from relearn.data.lra.release import part_of
from relearn.data.lra.samples import Samples, Task

DATASETS = ("aan", "lra_release", "python_kinds", "python_documents")
FOLDER = "tsv_data"
FILES = {part: f"new_aan_pairs.{'eval' if part == 'valid' else part}.tsv" for part in PARTS}
COLUMNS = 5


def make(
    dataset: str, samples: Mapping[str, int], *, max_length: int, seed: int = 0, folder: Path | None = None
) -> Task:
    """The task with the given numbers of pairs in train, valid and test; 0 is all, with one pair per passage.

    Args:
        dataset: one of :data:`DATASETS`.
        samples: number of evenly spaced pairs per part.
        max_length: maximum bytes of a passage; papers are not truncated.
        seed: seed of the partners.
        folder: folder with the three tables, or the archive, see :mod:`relearn.data.lra.release`.

    Raises:
        ValueError: an unknown data set, no folder, or an invalid table.
        OSError: a file cannot be read.
    """
    if dataset not in DATASETS:
        raise ValueError(f"dataset is {dataset!r}; allowed for retrieval: {', '.join(DATASETS)}")
    if dataset in ("aan", "lra_release"):
        if folder is None:
            raise ValueError(
                f"dataset {dataset}: no folder; required: $RELEARN_MIRROR/{dataset} with "
                + ", ".join(FILES.values())
            )
        folder = part_of(folder, FOLDER)
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
        groups = {part: balance(kinds) for part, kinds in groups.items()}
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
    """The pairs of one table, or ``wanted`` of them, evenly spaced.

    Raises:
        ValueError: a line has a wrong number of columns, a label other than 0 and 1, or an empty text.
        OSError: the file cannot be read.
    """
    lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
    samples = Samples([], [])
    for number, line in evenly_spaced_rows(list(enumerate(lines, 1)), wanted):
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


def balance(groups: Mapping[str, list[bytes]]) -> dict[str, list[bytes]]:
    """Evenly spaced passages of every group, as many as the smallest group has."""
    fewest = min(map(len, groups.values()))
    return {name: evenly_spaced_rows(passages, fewest) for name, passages in groups.items()}


def pairs(groups: Mapping[str, list[bytes]], wanted: int, generator: random.Random) -> Samples:
    """Pairs of passages; first passages come from each group in turn, their partners from the same or from any other group.

    Groups of one passage are ignored.

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
    # If there are more pairs than passages, start again from the first one, with other partners and the other label: if the label
    # were the same in every round, which passage comes first would reveal it.
    starts = (
        evenly_spaced_rows(every, wanted)
        if wanted <= len(every)
        else [every[i % len(every)] for i in range(wanted)]
    )
    for number, (name, place) in enumerate(starts):
        label = (number % len(every) + number // len(every)) % 2
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
