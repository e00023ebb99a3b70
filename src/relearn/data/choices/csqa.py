"""CommonsenseQA 1.11, the random split: questions of everyday knowledge (Talmor et al., 2019, arXiv 1811.00937).

9,741 questions for training, 1,221 for development and 1,140 for test, whose answers are not published; 5 candidates each. The first
available source is used: ``folder`` with the official files ``train_rand_split.jsonl``, ``dev_rand_split.jsonl`` and
``test_rand_split_no_answers.jsonl``; the files, downloaded.
"""

from __future__ import annotations

from pathlib import Path

from relearn.data.choices.json_lines import parse
from relearn.data.choices.questions import Questions, source
from relearn.data.remote import Remote

COUNTS = {"train": 9741, "dev": 1221, "test": 1140}
PLACE = "https://s3.amazonaws.com/commensenseqa"


def _remote(name: str, size: int, sha256: str) -> Remote:
    return Remote(f"csqa-{name}", (f"{PLACE}/{name}",), size, sha256)


FILES = {
    "train": "train_rand_split.jsonl",
    "dev": "dev_rand_split.jsonl",
    "test": "test_rand_split_no_answers.jsonl",
}
REMOTES = {
    "train": _remote(
        FILES["train"], 3785890, "58ffa3c8472410e24b8c43f423d89c8a003d8284698a6ed7874355dedd09a2fb"
    ),
    "dev": _remote(FILES["dev"], 471653, "3210497fdaae614ac085d9eb873dd7f4d49b6f965a93adadc803e1229fd8a02a"),
    "test": _remote(
        FILES["test"], 423148, "b426896d71a9cd064cf01cfaf6e920817c51701ef66028883ac1af2e73ad5f29"
    ),
}


def load(folder: Path | None = None) -> Questions:
    """All questions.

    Raises:
        ValueError: files that are missing or not CommonsenseQA's.
        OSError: files cannot be read or fetched.
    """
    parts = {part: parse(_content(folder, part), name) for part, name in FILES.items()}
    origin = "the official files" if folder is None else "a folder with files"
    return Questions(**parts, source=source(origin, parts, COUNTS))


def _content(folder: Path | None, part: str) -> bytes:
    if folder is None:
        from relearn.data.download import fetch

        return fetch(REMOTES[part]).read_bytes()
    try:
        return (folder / FILES[part]).read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{folder / FILES[part]}: missing (allowed: a file)") from None
