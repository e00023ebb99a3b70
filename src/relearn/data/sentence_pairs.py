"""Common form of all translation data sets: validated sentence pairs in three parts, with their source."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from relearn.data import CORPORA

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


def evenly_spaced(pairs: Sequence[Pair], count: int) -> list[Pair]:
    """At most ``count`` evenly spaced pairs (pair floor(i·N/count)); 0 means all.

    The pairs are spaced because adjacent sentences of a corpus often come from the same talk.

    Raises:
        ValueError: a negative count.
    """
    if count < 0:
        raise ValueError(f"pairs is {count}; allowed: 0 (all) or more")
    if count == 0 or count >= len(pairs):
        return list(pairs)
    return [pairs[i * len(pairs) // count] for i in range(count)]


def corpus_module_of(name: str) -> str:
    """The module that holds a corpus: ``corpus_module_of("multi30k") == "relearn.data.multi30k"``.

    Raises:
        ValueError: the name is unknown.
    """
    if name not in CORPORA:
        raise ValueError(f"corpus {name!r} is unknown; allowed: {', '.join(CORPORA)}")
    return CORPORA[name].partition(":")[0]


def load_pairs(name: str, *, folder: Path | None = None) -> Corpus:
    """Load a whole corpus.

    Args:
        name: a key of ``relearn.data.CORPORA``.
        folder: a folder that already holds this corpus; ``None`` generates it (number_words) or uses the
            cache, downloading the files if necessary.

    Raises:
        ValueError: the name is unknown, or the files are not the expected ones.
        OSError: a file can neither be read nor downloaded.
    """
    module = import_module(corpus_module_of(name))
    loader = getattr(module, CORPORA[name].partition(":")[2])
    corpus: Corpus = loader(folder)
    return corpus
