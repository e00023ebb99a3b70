"""Common form of all translation data sets: validated sentence pairs in three parts, with their source."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relearn.data import CORPORA, load

PARTS = ("train", "valid", "test")
Pair = tuple[str, str]


@dataclass(frozen=True)
class Corpus:
    """One corpus of (source sentence, target sentence) pairs, in the corpus's order.

    Attributes:
        train, valid, test: the pairs; no sentence is empty or has line breaks or leading or trailing blanks.
        languages: languages of source and target, such as ("de", "en").
        source: origin of the pairs, plain JSON without paths; ``sha256`` of each part is added.

    Raises:
        ValueError: a part is empty, or a sentence is empty, has line breaks or is not stripped.
    """

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    languages: tuple[str, str]
    source: dict[str, Any]

    def __post_init__(self) -> None:
        for part in PARTS:
            pairs = getattr(self, part)
            if not pairs:
                raise ValueError(f"{part}: no sentence pairs; allowed: at least one")
            for number, pair in enumerate(pairs):
                for language, sentence in zip(self.languages, pair):
                    if not sentence or len(sentence.splitlines()) != 1 or sentence != sentence.strip():
                        raise ValueError(
                            f"{part}: pair {number}, {language}: {sentence[:40]!r}; allowed: one line, not empty, "
                            "no blanks around it"
                        )
        self.source["sha256"] = {part: sha256_of(getattr(self, part)) for part in PARTS}


def sha256_of(pairs: Sequence[Pair]) -> str:
    """sha256 of all pairs as UTF-8 lines ``source<TAB>target<LF>``."""
    digest = hashlib.sha256()
    for source, target in pairs:
        digest.update(f"{source}\t{target}\n".encode())
    return digest.hexdigest()


def tidy(sentence: str) -> str:
    """Normalise white space: every run becomes one blank, and the ends are stripped."""
    return " ".join(sentence.split())


def load_pairs(name: str, *, folder: Path | None = None) -> Corpus:
    """Load a whole corpus, a key of ``relearn.data.CORPORA``; see :func:`relearn.data.load`."""
    corpus: Corpus = load(name, CORPORA, "corpus", folder=folder)
    return corpus
