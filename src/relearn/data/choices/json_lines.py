"""Questions in the JSON lines format of ARC, OpenBookQA and CommonsenseQA::

    {"id": "q1", "question": {"stem": "…", "choices": [{"label": "A", "text": "…"}, …]}, "answerKey": "A"}

Keys are letters or digits (some of ARC's exams number their answers); ``answerKey`` is one of the question's labels. It is missing or
empty if the answer is not published. Other fields are ignored. White space in a text is reduced to single blanks.
"""

from __future__ import annotations

import json
from typing import Any

from relearn.data.choices.questions import Question
from relearn.data.sentence_pairs import tidy

CANDIDATES = (2, 8)  # allowed numbers of candidates; ARC has 3 to 5


def parse(content: bytes, name: str) -> list[Question]:
    """The questions of one file.

    Args:
        content: its bytes, UTF-8.
        name: its name in error messages.

    Raises:
        ValueError: not UTF-8, a line that is not a question, or a duplicate id; the message names the file and the line.
    """
    questions: list[Question] = []
    seen: dict[str, int] = {}
    for number, line in lines(content, name):
        try:
            found = _question(line)
        except ValueError as fault:
            raise ValueError(f"{name}: line {number}: {fault}") from None
        if found.id in seen:
            raise ValueError(
                f"{name}: line {number}: id {found.id!r} is that of line {seen[found.id]} (allowed: a new one)"
            )
        seen[found.id] = number
        questions.append(found)
    return questions


def lines(content: bytes, name: str) -> list[tuple[int, Any]]:
    """The number, from 1, and the JSON value of each line; empty lines are skipped.

    Raises:
        ValueError: not UTF-8, or a line that is not JSON.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise ValueError(
            f"{name}: line {content[: fault.start].count(10) + 1}: not UTF-8 (allowed: UTF-8 text)"
        ) from None
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                found.append((number, json.loads(line)))
            except ValueError as fault:
                raise ValueError(
                    f"{name}: line {number}: no JSON ({fault}) (allowed: one object per line)"
                ) from None
    return found


def _question(line: Any) -> Question:
    if not isinstance(line, dict):
        raise ValueError(f"{type(line).__name__} (allowed: an object)")
    inner = line.get("question")
    if not isinstance(inner, dict) or not isinstance(inner.get("choices"), list):
        raise ValueError("no question with choices (allowed: question: {stem, choices})")
    choices = inner["choices"]
    if not CANDIDATES[0] <= len(choices) <= CANDIDATES[1]:
        raise ValueError(f"{len(choices)} choices (allowed: {CANDIDATES[0]} to {CANDIDATES[1]})")
    texts = [_text(one.get("text") if isinstance(one, dict) else None, "a choice's text") for one in choices]
    keys = [_text(one.get("label"), "a choice's label") for one in choices]
    if len(set(keys)) < len(keys):
        raise ValueError(f"labels {', '.join(keys)} (allowed: all different)")
    key = line.get("answerKey") or None
    if key is not None and key not in keys:
        raise ValueError(f"answerKey {key!r} (allowed: {', '.join(keys)})")
    return Question(
        _text(line.get("id"), "id"),
        _text(inner.get("stem"), "stem"),
        tuple(texts),
        tuple(keys),
        None if key is None else keys.index(key),
    )


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{what} is {value!r} (allowed: a text)")
    return tidy(value)
