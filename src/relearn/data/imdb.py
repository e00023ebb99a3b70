"""IMDb's Large Movie Review Dataset: 25,000 training and 25,000 test reviews, half of them positive (Maas et al., 2011).

Reviews have 1 to 4 (negative) or 7 to 10 stars (positive); there are at most 30 per film, and no film is in both parts. Some texts occur
more than once all the same: 123 test reviews are also training reviews, word for word. There is no official validation part.
The texts belong to their authors; none is in this repository.

The first available source is used:

1. ``folder`` with ``{train,test}.tsv``: one review per line, ``neg`` or ``pos``, a tab, the text (UTF-8, without tabs or line
   breaks);
2. ``folder`` with the official archive ``aclImdb_v1.tar.gz``;
3. the official archive, downloaded into the cache (only its md5 is published).

In the archive a review is a file ``aclImdb/<part>/<neg|pos>/<number>_<stars>.txt``; here the negative ones come first, each class in
the order of its numbers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relearn.data.remote import Remote, fault_of

CLASS_NAMES = ("neg", "pos")
PARTS = ("train", "test")
COUNT = 25_000  # reviews per part
ARCHIVE = Remote(
    name="aclImdb_v1.tar.gz",
    urls=("https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",),
    size=84125825,
    sha256="",
    md5="7c2ac02c03563afcf9b574c7e56c153a",
)
MEMBER = re.compile(r"aclImdb/(train|test)/(neg|pos)/(\d+)_\d+\.txt")


@dataclass(frozen=True)
class Reviews:
    """The reviews of one part.

    Attributes:
        texts: the original texts, including ``<br />``.
        labels: 0 negative, 1 positive, one per text.
    """

    texts: list[str]
    labels: list[int]


@dataclass(frozen=True)
class Imdb:
    """Both parts; ``source`` is plain JSON without paths, with the sha256 of each part's texts."""

    train: Reviews
    test: Reviews
    source: dict[str, Any]


def load(folder: Path | None = None, *, count: int = COUNT) -> Imdb:
    """IMDb in its original order.

    Args:
        folder: see the module; None downloads.
        count: required number of reviews per part, half of them positive.

    Raises:
        ValueError: the folder holds neither version, or its contents are not IMDb.
        OSError: files cannot be read or fetched.
    """
    if folder is not None and (folder / "train.tsv").is_file():
        parts = {part: _read_tsv(folder / f"{part}.tsv") for part in PARTS}
        origin = "a folder with tables"
    elif folder is None or (folder / ARCHIVE.name).is_file():
        parts, origin = _read_archive(folder), ARCHIVE.name
    else:
        raise ValueError(f"{folder}: has neither train.tsv nor {ARCHIVE.name}; allowed: one of them")
    for part, reviews in parts.items():
        positive = sum(reviews.labels)
        if len(reviews.texts) != count or positive != count // 2:
            raise ValueError(
                f"{part}: {len(reviews.texts)} reviews, {positive} of them positive; allowed: {count}, {count // 2}"
            )
    digests = {part: sha256_of(reviews.texts) for part, reviews in parts.items()}
    return Imdb(**parts, source={"from": origin, "sha256": digests})


def sha256_of(texts: Sequence[str]) -> str:
    """sha256 of all texts as UTF-8, each followed by a zero byte."""
    return hashlib.sha256(b"".join(text.encode() + b"\0" for text in texts)).hexdigest()


def _read_tsv(path: Path) -> Reviews:
    try:
        lines = path.read_bytes().decode().removesuffix("\n").split("\n")
    except FileNotFoundError:
        raise ValueError(f"{path}: missing") from None
    except UnicodeDecodeError as fault:
        raise ValueError(f"{path}: not UTF-8 at byte {fault.start}; allowed: UTF-8 text") from None
    reviews = Reviews([], [])
    for number, line in enumerate(lines, 1):
        kind, tab, text = line.removesuffix("\r").partition("\t")
        if kind not in CLASS_NAMES or not tab or not text:
            raise ValueError(f"{path}: line {number}: {line[:40]!r}; allowed: neg or pos, a tab and a text")
        reviews.texts.append(text)
        reviews.labels.append(CLASS_NAMES.index(kind))
    return reviews


def _read_archive(folder: Path | None) -> dict[str, Reviews]:
    from relearn.data.archive import read_matching
    from relearn.data.download import fetch

    path = fetch(ARCHIVE) if folder is None else folder / ARCHIVE.name
    if folder is not None and (fault := fault_of(path, ARCHIVE)):
        raise ValueError(f"{path}: {fault}; not the official archive")
    found = read_matching(path, lambda name: MEMBER.fullmatch(name) is not None)
    rows: dict[str, list[tuple[int, int, str]]] = {part: [] for part in PARTS}
    for name, content in found.items():
        matched = MEMBER.fullmatch(name)
        assert matched is not None
        part, kind, number = matched.groups()
        rows[part].append((CLASS_NAMES.index(kind), int(number), content.decode()))
    return {
        part: Reviews([text for _, _, text in sorted(each)], [label for label, _, _ in sorted(each)])
        for part, each in rows.items()
    }
