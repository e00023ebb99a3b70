"""Common form of all multiple-choice questions, and their conversion to rows for a model.

A question is a ranking: one row per candidate, and the label is the number of the correct one. There are two forms (zhu2022,
section 3.5.2):

* ``joined``: the passage (RACE's article, documents retrieved for ARC) and question + candidate, separated by the tokenizer's separator;
  without a passage, question + candidate alone. If a question has a blank ``_``, the candidate is inserted in its first blank.
* ``prefixed`` (CommonsenseQA): ``Q: question`` and ``A: candidate``. The paper puts one ``</s>`` between them; here the pair has the
  separator of its model family (RoBERTa: two), as in all other tasks.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from relearn.data.examples import Examples, Row
from relearn.data.sentence_pairs import tidy

PARTS = ("train", "dev", "test")
FORMS = ("joined", "prefixed")
BLANK = re.compile(r"_+")


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        id: its name in its set.
        stem: the question, or a sentence to complete.
        candidates: the possible answers, in the file's order.
        keys: their labels in the file, letters or digits.
        answer: number of the correct candidate, counted from 0; None: unknown.
        passages: one context text per candidate, one for all, or none.
    """

    id: str
    stem: str
    candidates: tuple[str, ...]
    keys: tuple[str, ...]
    answer: int | None
    passages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Questions:
    """A set in its files' order; ``source`` is plain JSON without paths, with the sha256 of each part's questions.

    Raises:
        ValueError: a training or development question without answer, a part with answers to some questions only, or no training
            question.
    """

    train: list[Question]
    dev: list[Question]
    test: list[Question]
    source: dict[str, Any]

    def __post_init__(self) -> None:
        if not self.train:
            raise ValueError("train: no questions (allowed: at least one)")
        for part in PARTS:
            questions: list[Question] = getattr(self, part)
            unknown = [one.id for one in questions if one.answer is None]
            if unknown and (part != "test" or len(unknown) < len(questions)):
                raise ValueError(
                    f"{part}: question {unknown[0]} has no answer (allowed: in the test part alone, if no question there has one)"
                )


def source(
    origin: str, parts: Mapping[str, Sequence[Question]], official: Mapping[str, int]
) -> dict[str, Any]:
    """The source of questions: description, counts, whether the counts are official, and sha256 of the questions with their answers."""
    counts = {part: len(questions) for part, questions in parts.items()}
    return {
        "from": origin,
        "questions": counts,
        "counts": "official" if counts == dict(official) else "other",
        "sha256": {part: sha256_of(questions) for part, questions in parts.items()},
    }


def sha256_of(questions: Sequence[Question]) -> str:
    """sha256 of all questions with passages, candidates and answers, each field followed by a zero byte."""
    digest = hashlib.sha256()
    for one in questions:
        for field in (one.id, one.stem, *one.passages, *one.candidates, str(one.answer)):
            digest.update(field.encode() + b"\0")
    return digest.hexdigest()


def examples(questions: Sequence[Question], form: str = "joined") -> Examples:
    """Questions as samples of a ranking, in one of :data:`FORMS`.

    Raises:
        ValueError: an unknown form.
    """
    if form not in FORMS:
        raise ValueError(f"form: {form!r} (allowed: {', '.join(FORMS)})")
    rows = [prefixed(one) if form == "prefixed" else joined(one) for one in questions]
    answers = [one.answer for one in questions if one.answer is not None]
    known = len(answers) == len(questions)
    return Examples(
        rows, torch.tensor(answers, dtype=torch.int64) if known else None, [one.id for one in questions]
    )


def joined(question: Question) -> list[Row]:
    """Rows (passage, question + candidate)."""
    rows: list[Row] = []
    for number, candidate in enumerate(question.candidates):
        text = fill_blank(question.stem, candidate)
        passage = question.passages[number % len(question.passages)] if question.passages else ""
        rows.append((passage, text) if passage else (text, None))
    return rows


def fill_blank(stem: str, candidate: str) -> str:
    """The candidate in the question's first blank, or after it."""
    if BLANK.search(stem):
        return tidy(BLANK.sub(lambda _: f" {candidate} ", stem, count=1))
    return f"{stem} {candidate}"


def prefixed(question: Question) -> list[Row]:
    """Rows (``Q: question``, ``A: candidate``)."""
    return [(f"Q: {question.stem}", f"A: {candidate}") for candidate in question.candidates]
