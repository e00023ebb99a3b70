"""Regents Living Environment: questions of New York's school exams in biology, additional training questions for ARC (zhu2022, sec. 3.5.2).

The exams are public as scanned papers (https://www.nysedregents.org/livingenvironment), but the file of questions given to the authors is
not, so nothing can be downloaded: ``folder`` holds ``train.jsonl``, and optionally ``dev.jsonl`` and ``test.jsonl``, in ARC's format (see
:mod:`relearn.data.choices.json_lines`; Regents number their answers, "1" to "4"), and ``documents.jsonl`` as in ARC.
"""

from __future__ import annotations

from pathlib import Path

from relearn.data.choices import documents
from relearn.data.choices.json_lines import parse
from relearn.data.choices.questions import PARTS, Question, Questions, source


class NotAtHand(ValueError):
    """The file of questions is missing; training runs that only add it to other sets continue without it."""


def load(folder: Path | None = None) -> Questions:
    """The questions; dev and test may be empty.

    Raises:
        NotAtHand: no folder, or no ``train.jsonl``.
        ValueError: a line that is not a question.
        OSError: a file cannot be read.
    """
    if folder is None or not (folder / "train.jsonl").is_file():
        raise NotAtHand(
            f"regents: {'no folder' if folder is None else f'{folder} has no train.jsonl'} (allowed: a folder "
            "$RELEARN_MIRROR/regents with train.jsonl in ARC's format; there is no official file)"
        )
    found = documents.read(folder)
    parts: dict[str, list[Question]] = {part: [] for part in PARTS}
    for part in PARTS:
        path = folder / f"{part}.jsonl"
        if path.is_file():
            parts[part] = documents.attach_documents(parse(path.read_bytes(), path.name), found)
    origin = source("a folder with files of its own", parts, {}) | {"documents": bool(found)}
    return Questions(**parts, source=origin)
