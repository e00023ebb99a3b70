"""What every text for language models becomes: sentences in three parts, checked once, and where they came from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from relearn.data import TEXTS
from relearn.data.sentence_pairs import PARTS


@dataclass(frozen=True)
class Text:
    """One text as sentences, a line each, in the text's own order.

    Attributes:
        train, valid, test: the lines; none is empty or holds a line break or leading, trailing blanks.
        source: where the lines come from, plain JSON, no paths; ``sha256`` of each part is added here.

    Raises:
        ValueError: a part is empty, or a line is empty, broken or not stripped.
    """

    train: list[str]
    valid: list[str]
    test: list[str]
    source: dict[str, Any]

    def __post_init__(self) -> None:
        for part in PARTS:
            lines = getattr(self, part)
            if not lines:
                raise ValueError(f"{part}: no lines; at least one is needed")
            for number, line in enumerate(lines):
                if not line or len(line.splitlines()) != 1 or line != line.strip():
                    raise ValueError(
                        f"{part}: line {number}: {line[:40]!r}; allowed: one line, not empty, no blanks around it"
                    )
        self.source["sha256"] = {part: sha256_of(getattr(self, part)) for part in PARTS}


def sha256_of(lines: Sequence[str]) -> str:
    """sha256 of all lines as UTF-8, a line feed after each."""
    return hashlib.sha256("".join(line + "\n" for line in lines).encode()).hexdigest()


def text_module_of(name: str) -> str:
    """The module that holds a text: ``text_module_of("ptb") == "relearn.data.ptb"``.

    Raises:
        ValueError: nobody knows the name.
    """
    if name not in TEXTS:
        raise ValueError(f"text {name!r} is unknown; allowed: {', '.join(TEXTS)}")
    return TEXTS[name].partition(":")[0]


def load_text(name: str, *, folder: Path | None = None) -> Text:
    """Load a text whole.

    Args:
        name: a key of ``relearn.data.TEXTS``.
        folder: a folder that already holds this text; ``None`` takes what Python itself brings (pydoc_topics) or
            what the cache holds, downloading it where it does not (ptb).

    Raises:
        ValueError: nobody knows the name, or the files are not what they should be.
        OSError: a file can neither be read nor downloaded.
    """
    module = import_module(text_module_of(name))
    loader = getattr(module, TEXTS[name].partition(":")[2])
    text: Text = loader(folder)
    return text
