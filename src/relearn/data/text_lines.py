"""Common form of all texts for language models: validated sentences in three parts, with their source."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relearn.data import TEXTS, load
from relearn.data.sentence_pairs import PARTS


@dataclass(frozen=True)
class Text:
    """One text as sentences, one per line, in the text's order.

    Attributes:
        train, valid, test: the lines; none is empty or has line breaks or leading or trailing blanks.
        source: origin of the lines, plain JSON without paths; ``sha256`` of each part is added.

    Raises:
        ValueError: a part is empty, or a line is empty, has line breaks or is not stripped.
    """

    train: list[str]
    valid: list[str]
    test: list[str]
    source: dict[str, Any]

    def __post_init__(self) -> None:
        for part in PARTS:
            lines = getattr(self, part)
            if not lines:
                raise ValueError(f"{part}: no lines; allowed: at least one")
            for number, line in enumerate(lines):
                if not line or len(line.splitlines()) != 1 or line != line.strip():
                    raise ValueError(
                        f"{part}: line {number}: {line[:40]!r}; allowed: one line, not empty, no blanks around it"
                    )
        self.source["sha256"] = {part: sha256_of(getattr(self, part)) for part in PARTS}


def sha256_of(lines: Sequence[str]) -> str:
    """sha256 of all lines as UTF-8, each followed by a line feed."""
    return hashlib.sha256("".join(line + "\n" for line in lines).encode()).hexdigest()


def load_text(name: str, *, folder: Path | None = None) -> Text:
    """Load a whole text, a key of ``relearn.data.TEXTS``; see :func:`relearn.data.load`."""
    text: Text = load(name, TEXTS, "text", folder=folder)
    return text
