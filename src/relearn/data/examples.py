"""Texts with their answers, as a task gives them: one sentence, a pair, or candidates of which one is right.

A sample is a list of rows, a row is a text and, where the task has one, a second text. A task of sentences or pairs has one row a
sample; a ranking task has one row a candidate, and its label is the number of the right one, counted from 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Row = tuple[str, str | None]


@dataclass(frozen=True)
class Examples:
    """Samples of one part of a task.

    Attributes:
        rows: a list a sample: one (text, second text or None), or one a candidate.
        labels: one a sample, (N,): a class or the right candidate's number (int64), or a value (float32); None: not known.
        ids: a name a sample, all different.

    Raises:
        ValueError: numbers of samples that differ, no row, an empty text, labels of another type, a label that is no candidate, a
            value that is not finite, an id twice.
    """

    rows: list[list[Row]]
    labels: Tensor | None
    ids: list[str]

    def __post_init__(self) -> None:
        count = len(self.rows)
        if len(self.ids) != count:
            raise ValueError(f"ids: {len(self.ids)} (allowed: {count}, one a sample)")
        if len(set(self.ids)) != count:
            twice = Counter(self.ids).most_common(1)[0][0]
            raise ValueError(f"ids: {twice!r} is there twice (allowed: all different)")
        for name, rows in zip(self.ids, self.rows):
            if not rows:
                raise ValueError(f"rows: sample {name} has none (allowed: at least one)")
            # A second text may be empty: it stands for "nothing said"; a row without any text would be all special tokens.
            if any(not text.strip() and not (other or "").strip() for text, other in rows):
                raise ValueError(f"rows: sample {name} has a row without a text (allowed: a text)")
        if self.labels is not None:
            self._check_labels(self.labels)

    def _check_labels(self, labels: Tensor) -> None:
        count = len(self.rows)
        if labels.shape != (count,):
            raise ValueError(f"labels: shape {tuple(labels.shape)} (allowed: ({count},), one a sample)")
        if labels.dtype not in (torch.int64, torch.float32):
            raise ValueError(f"labels: {labels.dtype} (allowed: int64, or float32 for regression)")
        for name, rows, label in zip(self.ids, self.rows, labels.tolist()):
            if labels.dtype == torch.float32:
                if not -float("inf") < label < float("inf"):
                    raise ValueError(f"labels: {label} of sample {name} (allowed: a finite value)")
            elif label < 0 or (len(rows) > 1 and label >= len(rows)):
                most = f"at most {len(rows) - 1}, its last candidate" if len(rows) > 1 else "at least 0"
                raise ValueError(f"labels: {label} of sample {name} (allowed: {most})")

    def __len__(self) -> int:
        """Samples."""
        return len(self.rows)

    def part(self, numbers: Sequence[int]) -> Examples:
        """The samples of these numbers, in this order.

        Raises:
            ValueError: a number below 0.
            IndexError: a number that no sample has.
        """
        if any(number < 0 for number in numbers):
            raise ValueError(f"numbers: {min(numbers)} (allowed: at least 0)")
        labels = None if self.labels is None else self.labels[torch.tensor(list(numbers), dtype=torch.int64)]
        return Examples([self.rows[one] for one in numbers], labels, [self.ids[one] for one in numbers])
