r"""Bits per character of a language model on a stream, by overlapping windows or by segments with a cache.

.. math:: \mathrm{BPC} = -\frac{1}{n - 1} \sum_{t=2}^{n} \log_2 p(c_t \mid c_{s_t}, \dots, c_{t-1})

Characters :math:`2 \dots n` are predicted once each; the two methods differ in the start :math:`s_t` of the context.

**Windows**, context C and step S. The first window contains the first C characters, and all its predictions are scored. Each further window
starts S characters later, and its last S predictions are scored, each given at least :math:`C - S + 1` and at most C characters.
The last window ends with the stream, and the remaining predictions are scored. zhu2022 (section 5.3.2) uses C = 32K and S = 512, "the
next 512 tokens given the previous 10 32K"; the text does not specify what happens before 32K characters have been read. For a causal
network, the single first window gives the same predictions as windows growing by S characters.

**Cached**, context C and step S. The stream is processed in segments of S characters, each with the network's cache of the C previous ones,
as in the released code (S = 256, C = 32768). This takes n/S passes over S characters instead of n/S over C.

======  ====================================  =======================
symbol  meaning                               code
======  ====================================  =======================
c       characters, ids                       ``ids`` (n,)
C       maximum context, or size of the cache  ``context``, or ``read``
S       characters scored per window or segment  ``step``
======  ====================================  =======================
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

Kept = Any
"""Cache of a network for the characters it has read; this file treats it as opaque."""


@dataclass(frozen=True)
class Window:
    """Inputs ``start`` .. ``end``-1 (0-based), predicting characters up to ``end``; the last ``scored`` predictions count."""

    start: int
    end: int
    scored: int


def windows(characters: int, *, context: int, step: int) -> list[Window]:
    """Return the windows for a stream of this length; see the module docstring.

    Raises:
        ValueError: fewer than 2 characters, a context below 1, or a step outside 1 .. context.
    """
    _check(characters=characters, context=context, step=step)
    if step > context:
        raise ValueError(f"step is {step}; allowed: 1 to {context}, the context")
    last = characters - 1  # number of characters that have a successor
    first = min(context, last)
    found = [Window(0, first, first)]
    for end in range(first + step, last + step, step):
        stop = min(end, last)
        found.append(Window(stop - context, stop, step - (end - stop)))
    return found


def windowed(
    predict: Callable[[Tensor], Tensor], ids: Tensor, *, context: int, step: int, batch_size: int = 1
) -> float:
    """Compute BPC by overlapping windows.

    Args:
        predict: characters (B, T) int64 → logits (B, T, V); the caller sets eval mode and disables gradients.
        ids: the stream, (n,) of any integer type, on the network's device.
        context, step: C and S.
        batch_size: number of windows processed at once.

    Raises:
        ValueError: see :func:`windows`; a batch size below 1.
    """
    _check(characters=len(ids), batch_size=batch_size)
    total = 0.0
    for group in _groups(windows(len(ids), context=context, step=step), batch_size):
        rows = torch.stack([ids[one.start : one.end + 1] for one in group]).long()
        scored = group[0].scored
        total += _bits(predict(rows[:, :-1])[:, -scored:], rows[:, -scored:])
    return total / (len(ids) - 1)


def cached(read: Callable[[Tensor, Kept | None], tuple[Tensor, Kept]], ids: Tensor, *, step: int) -> float:
    """Compute BPC segment by segment, with a cache.

    Args:
        read: (characters (1, T), the previous cache or None) → (logits (1, T, V), cache of C positions for the next segment);
            the caller sets eval mode and disables gradients.
        ids: the stream, (n,) of any integer type, on the network's device.
        step: S.

    Raises:
        ValueError: fewer than 2 characters, a step below 1.
    """
    _check(characters=len(ids), step=step)
    total, kept = 0.0, None
    for start in range(0, len(ids) - 1, step):
        row = ids[start : start + step + 1].long()[None]
        logits, kept = read(row[:, :-1], kept)
        total += _bits(logits, row[:, 1:])
    return total / (len(ids) - 1)


def _bits(logits: Tensor, targets: Tensor) -> float:
    """Return the sum of -log2 p over all targets, computed in at least single precision."""
    wide = logits.float() if logits.element_size() < 4 else logits
    nats = cross_entropy(wide.flatten(0, 1), targets.flatten(), reduction="sum")
    return float(nats) / math.log(2)


def _groups(found: list[Window], size: int) -> Iterator[list[Window]]:
    """Group consecutive windows of equal length and equal number of scored predictions, at most ``size`` per group."""
    for _, alike in itertools.groupby(found, key=lambda one: (one.end - one.start, one.scored)):
        same = list(alike)
        yield from (same[start : start + size] for start in range(0, len(same), size))


def _check(*, characters: int, **sizes: int) -> None:
    if characters < 2:
        raise ValueError(f"characters is {characters}; allowed: 2 or more")
    for key, value in sizes.items():
        if value < 1:
            raise ValueError(f"{key} is {value}; allowed: 1 or more")
