"""Texts with their answers: single sentences, pairs, or candidates of which one is correct.

A sample is a list of rows; a row is a text and, for some tasks, a second text. Tasks on sentences or pairs have one row per sample; ranking
tasks have one row per candidate, and the label is the number of the correct one, counted from 0.
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
        rows: one list per sample, with one (text, second text or None), or one per candidate.
        labels: one per sample, (N,): a class or the number of the correct candidate (int64), or a value (float32); None: unknown.
        ids: a unique name per sample.

    Raises:
        ValueError: numbers of samples that differ, no row, an empty text, labels of the wrong type, a label that is not a candidate, a
            value that is not finite, or a duplicate id.
    """

    rows: list[list[Row]]
    labels: Tensor | None
    ids: list[str]

    def __post_init__(self) -> None:
        count = len(self.rows)
        if len(self.ids) != count:
            raise ValueError(f"ids: {len(self.ids)} (allowed: {count}, one per sample)")
        if len(set(self.ids)) != count:
            twice = Counter(self.ids).most_common(1)[0][0]
            raise ValueError(f"ids: {twice!r} occurs twice (allowed: all different)")
        for name, rows in zip(self.ids, self.rows):
            if not rows:
                raise ValueError(f"rows: sample {name} has none (allowed: at least one)")
            # A second text may be empty; a row without any text would consist of special tokens only.
            if any(not text.strip() and not (other or "").strip() for text, other in rows):
                raise ValueError(f"rows: sample {name} has a row without a text (allowed: a text)")
        if self.labels is not None:
            self._check_labels(self.labels)

    def _check_labels(self, labels: Tensor) -> None:
        count = len(self.rows)
        if labels.shape != (count,):
            raise ValueError(f"labels: shape {tuple(labels.shape)} (allowed: ({count},), one per sample)")
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
        """The samples with these numbers, in this order.

        Raises:
            ValueError: a number below 0.
            IndexError: a number beyond the last sample.
        """
        if any(number < 0 for number in numbers):
            raise ValueError(f"numbers: {min(numbers)} (allowed: at least 0)")
        labels = None if self.labels is None else self.labels[torch.tensor(list(numbers), dtype=torch.int64)]
        return Examples([self.rows[one] for one in numbers], labels, [self.ids[one] for one in numbers])
