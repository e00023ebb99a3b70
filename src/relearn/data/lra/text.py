"""Text: byte-level text classification (Tay et al. 2021, section 3.1).

``imdb``: is a review positive? The arena has 25,000 reviews for training and 25,000 for test. It validates on the test part,
which selects a network on the reviews on which it is tested; here every tenth training review is for validation instead.

``python`` is not part of the arena: is a passage documentation or code of the standard library (see ``relearn.data.lra.python_documents``)?
Both classes have equal numbers, and each document belongs to one part only. It needs no download and is much easier.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relearn.data.evenly_spaced import evenly_spaced_places, evenly_spaced_rows
from relearn.data.lra import PARTS, python_documents
from relearn.data.lra.samples import Samples, Task

DATASETS = ("imdb", "python")
HELD_OUT = 10  # 1/HELD_OUT of the training reviews is for validation


def make(dataset: str, samples: Mapping[str, int], *, max_length: int, folder: Path | None = None) -> Task:
    """The task with the given numbers of evenly spaced texts in train, valid and test; 0 is all.

    Args:
        dataset: one of :data:`DATASETS`.
        samples: number per part.
        max_length: maximum bytes of a passage of ``python``; reviews are not truncated here.
        folder: folder of the data set, see ``relearn.data.imdb``.

    Raises:
        ValueError: an unknown data set, or an error of its reader.
        OSError: a file can neither be read nor downloaded.
    """
    if dataset not in DATASETS:
        raise ValueError(f"dataset is {dataset!r}; allowed for text: {', '.join(DATASETS)}")
    if dataset == "python":
        return _python(samples, max_length)
    from relearn.data import imdb

    found = imdb.load(folder)
    rows = range(len(found.train.texts))
    places = {
        "train": (found.train, [row for row in rows if row % HELD_OUT != HELD_OUT - 1]),
        "valid": (found.train, [row for row in rows if row % HELD_OUT == HELD_OUT - 1]),
        "test": (found.test, list(range(len(found.test.texts)))),
    }
    parts: dict[str, Any] = {}
    for part, (reviews, every) in places.items():
        kept = evenly_spaced_rows(every, samples[part])
        parts[part] = Samples(
            [reviews.texts[row].encode() for row in kept], [reviews.labels[row] for row in kept]
        )
    return Task("text", dataset, 256, 2, **parts, written=True, source=found.source)


def _python(samples: Mapping[str, int], max_length: int) -> Task:
    found: dict[str, dict[str, list[bytes]]] = {
        part: {kind: [] for kind in python_documents.KINDS} for part in PARTS
    }
    for document in python_documents.documents():
        found[document.part][document.kind] += python_documents.passages(document, max_length)
    parts: dict[str, Any] = {}
    for part in PARTS:
        documentation, code = (found[part][kind] for kind in python_documents.KINDS)
        fewer = min(len(documentation), len(code))
        wanted = samples[part] or 2 * fewer
        if wanted > 2 * fewer:
            raise ValueError(
                f"samples: {part} is {wanted}; allowed: at most {2 * fewer}, the available passages"
            )
        documentation, code = (
            evenly_spaced_rows(documentation, -(-wanted // 2)),
            evenly_spaced_rows(code, -(-wanted // 2)),
        )
        rows = [row for pair in zip(documentation, code) for row in pair][:wanted]
        parts[part] = Samples(rows, [place % 2 for place in evenly_spaced_places(wanted, 0)])
    return Task("text", "python", 256, 2, **parts, written=True, source=python_documents.source())
