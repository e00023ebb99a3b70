"""RACE: questions on articles of English exams for Chinese pupils of middle and high schools (Lai et al., 2017, arXiv 1704.04683).

87,866 questions for training, 4,887 for development, 4,934 for test, with 4 candidates each. A file is an article with all its questions::

    {"id": "high1.txt", "article": "…", "questions": ["…"], "options": [["…", "…", "…", "…"]], "answers": ["A"]}

Middle comes before high, and files are in the order of their numbers. Many questions are sentences with a blank ``_``.

The first available source is used: ``folder`` with ``{train,dev,test}/{middle,high}/<number>.txt``, directly or below ``RACE``;
``folder`` with the official archive ``RACE.tar.gz``; the archive, downloaded. Its authors permit non-commercial research only.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from relearn.data.choices.questions import PARTS, Question, Questions, source
from relearn.data.remote import Remote
from relearn.data.sentence_pairs import tidy

LEVELS = ("middle", "high")
COUNTS = {"train": 87866, "dev": 4887, "test": 4934}
MEMBER = re.compile(r"(?:RACE/)?(train|dev|test)/(middle|high)/(\d+)\.txt")
ARCHIVE = Remote(
    name="RACE.tar.gz",
    urls=("https://www.cs.cmu.edu/~glai1/data/race/RACE.tar.gz",),
    size=25443609,
    sha256="b2769cc9fdc5c546a693300eb9a966cec6870bd349fbc44ed5225f8ad33006e5",
)


def load(folder: Path | None = None) -> Questions:
    """All questions.

    Raises:
        ValueError: files that are missing or not RACE's.
        OSError: files cannot be read or fetched.
    """
    files, origin = _files(folder)
    order = sorted(files, key=_place)
    parts: dict[str, list[Question]] = {part: [] for part in PARTS}
    for name in order:
        parts[PARTS[_place(name)[0]]] += parse(files[name], name)
    return Questions(**parts, source=source(origin, parts, COUNTS))


def parse(content: bytes, name: str) -> list[Question]:
    """The questions of one article, named ``<level>/<number>/<question>``.

    Raises:
        ValueError: not such an object, or lists of different lengths; the message names the file and the question.
    """
    try:
        line = json.loads(content.decode("utf-8-sig"))
    except ValueError as fault:
        raise ValueError(
            f"{name}: not JSON in UTF-8 ({' '.join(str(fault).split())}) (allowed: an object)"
        ) from None
    kept = line if isinstance(line, dict) else {}
    article, stems, options, answers = (
        kept.get(key) for key in ("article", "questions", "options", "answers")
    )
    if not isinstance(article, str) or not article.strip():
        raise ValueError(f"{name}: article is {str(article)[:40]!r} (allowed: a text)")
    lists = [one for one in (stems, options, answers) if isinstance(one, list)]
    if len(lists) < 3 or len({len(one) for one in lists}) != 1:
        raise ValueError(f"{name}: questions, options, answers do not match (allowed: lists of equal length)")
    _, level, number = _matched(name)
    found = []
    for place, (stem, choices, key) in enumerate(zip(*lists)):
        keys = tuple("ABCDEFGH"[: len(choices)]) if isinstance(choices, list) else ()
        if not isinstance(stem, str) or not stem.strip():
            raise ValueError(f"{name}: question {place + 1}: {stem!r} (allowed: a text)")
        if len(keys) < 2 or not all(isinstance(one, str) for one in choices):
            raise ValueError(
                f"{name}: question {place + 1}: options {str(choices)[:40]} (allowed: texts, at least 2)"
            )
        if key not in keys:
            raise ValueError(f"{name}: question {place + 1}: answer {key!r} (allowed: {', '.join(keys)})")
        texts = tuple(map(tidy, choices))
        passages = (tidy(article),)
        found.append(
            Question(f"{level}/{number}/{place}", tidy(stem), texts, keys, keys.index(key), passages)
        )
    return found


def _matched(name: str) -> tuple[str, str, str]:
    matched = MEMBER.fullmatch(name)
    assert matched is not None
    return matched[1], matched[2], matched[3]


def _place(name: str) -> tuple[int, int, int]:
    part, level, number = _matched(name)
    return PARTS.index(part), LEVELS.index(level), int(number)


def _files(folder: Path | None) -> tuple[dict[str, bytes], str]:
    from relearn.data.archive import read_matching
    from relearn.data.remote import fault_of

    for base in () if folder is None else (folder, folder / "RACE"):
        if (base / "train").is_dir():
            paths = [
                path for part in PARTS for level in LEVELS for path in (base / part / level).glob("*.txt")
            ]
            named: dict[str, Any] = {path.relative_to(base).as_posix(): path for path in paths}
            return {
                name: path.read_bytes() for name, path in named.items() if MEMBER.fullmatch(name)
            }, "a folder with files"
    if folder is None:
        from relearn.data.download import fetch

        path = fetch(ARCHIVE)
    else:
        path = folder / ARCHIVE.name
        if not path.is_file():
            raise ValueError(f"{folder}: has no train/middle and no {ARCHIVE.name} (allowed: one of them)")
        if fault := fault_of(path, ARCHIVE):
            raise ValueError(f"{path}: {fault}; not the official archive")
    return read_matching(path, lambda name: MEMBER.fullmatch(name) is not None), ARCHIVE.name
