"""What every translation data set becomes: sentence pairs in three parts, checked once, and where they came from."""

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
    """One corpus of (source sentence, target sentence) pairs, in the corpus's own order.

    Attributes:
        train, valid, test: the pairs; no sentence is empty or holds a line break or leading, trailing blanks.
        languages: what source and target are, such as ("de", "en").
        source: where the pairs come from, plain JSON, no paths; ``sha256`` of each part is added here.

    Raises:
        ValueError: a part is empty, or a sentence is empty, broken over lines or not stripped.
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
                raise ValueError(f"{part}: no sentence pairs; at least one is needed")
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
    """One line of plain blanks: every run of white space becomes one blank, none stays at the ends."""
    return " ".join(sentence.split())


def evenly(pairs: Sequence[Pair], count: int) -> list[Pair]:
    """At most ``count`` pairs, evenly spaced over the whole (pair floor(i·N/count)); 0 means all.

    Spaced and not the first ones, because corpora put neighbouring sentences of one talk side by side.

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
        ValueError: nobody knows the name.
    """
    if name not in CORPORA:
        raise ValueError(f"corpus {name!r} is unknown; allowed: {', '.join(CORPORA)}")
    return CORPORA[name].partition(":")[0]


def load_pairs(name: str, *, folder: Path | None = None) -> Corpus:
    """Load a corpus whole.

    Args:
        name: a key of ``relearn.data.CORPORA``.
        folder: a folder that already holds this corpus; ``None`` takes what a rule makes (number_words) or what
            the cache holds, downloading it where it does not.

    Raises:
        ValueError: nobody knows the name, or the files are not what they should be.
        OSError: a file can neither be read nor downloaded.
    """
    module = import_module(corpus_module_of(name))
    loader = getattr(module, CORPORA[name].partition(":")[2])
    corpus: Corpus = loader(folder)
    return corpus
