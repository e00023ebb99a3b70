"""Common form of all tasks of the arena before truncation and padding: labelled byte sequences in three parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from relearn.data.lra import PARTS


@dataclass(frozen=True)
class Samples:
    """The samples of one part.

    Attributes:
        rows: sequences of values from 0; in a task of pairs, sequences 2i and 2i + 1 form pair i.
        labels: one class per sample (a pair is one sample).
    """

    rows: list[bytes]
    labels: list[int]


@dataclass(frozen=True)
class Task:
    """A task before preparation.

    Attributes:
        name: one of :data:`relearn.data.lra.TASKS`.
        dataset: its data set ("imdb", "generated", …).
        values: number of different values, 0 to values - 1.
        classes: number of classes, 0 to classes - 1.
        train, valid, test: the parts.
        pairs: whether a sample is two sequences.
        written: whether the values are bytes of text, so that punctuation can be inserted and deleted.
        source: origin of the samples: plain JSON without paths.

    Raises:
        ValueError: a part is empty, numbers of rows and labels do not match, or a value or label is out of range.
    """

    name: str
    dataset: str
    values: int
    classes: int
    train: Samples
    valid: Samples
    test: Samples
    pairs: bool = False
    written: bool = False
    source: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.values <= 256:
            raise ValueError(f"{self.name}: {self.values} values; allowed: 1 to 256, a byte each")
        for part in PARTS:
            samples: Samples = getattr(self, part)
            if not samples.labels:
                raise ValueError(f"{self.name}: {part} has no samples; allowed: at least one")
            expected = len(samples.labels) * (2 if self.pairs else 1)
            if len(samples.rows) != expected:
                raise ValueError(
                    f"{self.name}: {part} has {len(samples.rows)} sequences; allowed: {expected}"
                )
            for number, row in enumerate(samples.rows):
                if not row or (self.values < 256 and max(row) >= self.values):
                    raise ValueError(
                        f"{self.name}: {part}: sequence {number}: {row[:20]!r}; allowed: not empty, values below {self.values}"
                    )
            if not 0 <= min(samples.labels) <= max(samples.labels) < self.classes:
                raise ValueError(f"{self.name}: {part}: a label outside 0 to {self.classes - 1}")
