"""Retrieved documents for questions, in a file ``documents.jsonl`` next to the questions::

    {"id": "q1", "label": "A", "documents": ["the best one", "the next", …]}

A line belongs to candidate ``label`` of question ``id``, or without a label to all of its candidates that have no line of their own. The
first :data:`TOP` documents are joined by blanks (zhu2022, section 3.5.2: the ten best of a corpus of science sentences; the files given to
the authors are not public). Lines of unknown questions and questions without a line are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from relearn.data.choices.json_lines import lines
from relearn.data.choices.questions import Question
from relearn.data.sentence_pairs import tidy

NAME = "documents.jsonl"
TOP = 10

Found = dict[str, dict[str | None, tuple[int, str]]]


def read(folder: Path | None) -> Found:
    """Line number and documents by question and label; empty if there is no such file.

    Raises:
        ValueError: an invalid line; the message names the file and the line.
    """
    path = None if folder is None else folder / NAME
    if path is None or not path.is_file():
        return {}
    found: Found = {}
    for number, line in lines(path.read_bytes(), str(path)):
        where = f"{path}: line {number}:"
        name, label, texts = (
            line.get(key) if isinstance(line, dict) else None for key in ("id", "label", "documents")
        )
        if not isinstance(name, str) or not isinstance(label, str | None):
            raise ValueError(f"{where} id {name!r}, label {label!r} (allowed: texts, or no label)")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{where} documents {str(texts)[:40]} (allowed: a list of texts)")
        own = found.setdefault(name, {})
        if label in own:
            raise ValueError(f"{where} documents of {name!r}, label {label!r}, twice (allowed: one line)")
        own[label] = number, tidy(" ".join(texts[:TOP]))
    return found


def attach_documents(questions: Sequence[Question], found: Found) -> list[Question]:
    """The questions with their documents as passages.

    Raises:
        ValueError: documents for a label that the question does not have.
    """
    kept = []
    for one in questions:
        own = found.get(one.id, {})
        for label, (number, _) in own.items():
            if label is not None and label not in one.keys:
                raise ValueError(
                    f"{NAME}: line {number}: label {label!r} of {one.id!r} (allowed: {', '.join(one.keys)})"
                )
        texts = tuple(own.get(key, own.get(None, (0, "")))[1] for key in one.keys)
        kept.append(replace(one, passages=texts) if any(texts) else one)
    return kept
