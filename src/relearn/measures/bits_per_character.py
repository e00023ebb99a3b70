r"""Bits per character of a language model on a stream: by windows that overlap, or piece by piece with a cache.

.. math:: \mathrm{BPC} = -\frac{1}{n - 1} \sum_{t=2}^{n} \log_2 p(c_t \mid c_{s_t}, \dots, c_{t-1})

Characters :math:`2 \dots n` are predicted once each; what differs is the beginning :math:`s_t` of the context.

**Windows**, context C and step S. The first window reads the first C characters and scores all its predictions; every further one
begins S characters later and scores its last S, each from at least :math:`C - S + 1` and at most C characters. The last window ends
with the stream and scores what is left over. zhu2022 (section 5.3.2) takes C = 32K and S = 512, "the next 512 tokens given the previous
32K"; the text does not say what happens before 32K characters have been read. A causal network predicts in the one first window what it
would in windows that grow by S.

**Cached**, context C and step S. The stream is read in pieces of S characters, each with what the network kept of the C before: the way of
the released code (S = 256, C = 32768), n/S passes over S characters instead of n/S over C.

======  ====================================  =======================
symbol  meaning                               code
======  ====================================  =======================
c       characters, ids                       ``ids`` (n,)
C       characters read at most, or kept      ``context``, or ``read``
S       characters scored a window or piece   ``step``
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
"""What a network keeps of the characters that it has read; nothing is asked of it here."""


@dataclass(frozen=True)
class Window:
    """Inputs ``start`` .. ``end``-1 (0-based), of whose predictions the last ``scored`` count: characters up to ``end``."""

    start: int
    end: int
    scored: int


def windows(characters: int, *, context: int, step: int) -> list[Window]:
    """The windows of a stream of so many characters; see the module.

    Raises:
        ValueError: fewer than 2 characters, a context below 1, or a step outside 1 .. context.
    """
    _checked(characters=characters, context=context, step=step)
    if step > context:
        raise ValueError(f"step is {step}; allowed: 1 to {context}, the context")
    last = characters - 1  # so many characters have one behind them
    first = min(context, last)
    found = [Window(0, first, first)]
    for end in range(first + step, last + step, step):
        stop = min(end, last)
        found.append(Window(stop - context, stop, step - (end - stop)))
    return found


def windowed(
    predict: Callable[[Tensor], Tensor], ids: Tensor, *, context: int, step: int, batch_size: int = 1
) -> float:
    """BPC by windows that overlap.

    Args:
        predict: characters (B, T) int64 → logits (B, T, V); the caller sees to eval mode and gradients.
        ids: the stream, (n,) of any whole type, on the network's device.
        context, step: C and S.
        batch_size: windows at once.

    Raises:
        ValueError: see :func:`windows`.
    """
    total = 0.0
    for group in _groups(windows(len(ids), context=context, step=step), batch_size):
        rows = torch.stack([ids[one.start : one.end + 1] for one in group]).long()
        scored = group[0].scored
        total += _bits(predict(rows[:, :-1])[:, -scored:], rows[:, -scored:])
    return total / (len(ids) - 1)


def cached(read: Callable[[Tensor, Kept | None], tuple[Tensor, Kept]], ids: Tensor, *, step: int) -> float:
    """BPC piece by piece.

    Args:
        read: (characters (1, T), what it kept of those before, or None) → (logits (1, T, V), what it keeps for the next piece, C places);
            the caller sees to eval mode and gradients.
        ids: the stream, (n,) of any whole type, on the network's device.
        step: S.

    Raises:
        ValueError: fewer than 2 characters, a step below 1.
    """
    _checked(characters=len(ids), step=step)
    total, kept = 0.0, None
    for start in range(0, len(ids) - 1, step):
        row = ids[start : start + step + 1].long()[None]
        logits, kept = read(row[:, :-1], kept)
        total += _bits(logits, row[:, 1:])
    return total / (len(ids) - 1)


def _bits(logits: Tensor, targets: Tensor) -> float:
    """Sum over all targets, of at least single precision."""
    wide = logits.float() if logits.element_size() < 4 else logits
    nats = cross_entropy(wide.flatten(0, 1), targets.flatten(), reduction="sum")
    return float(nats) / math.log(2)


def _groups(found: list[Window], size: int) -> Iterator[list[Window]]:
    """Windows of equal length and equal score, at most ``size`` together, in their order."""
    for _, alike in itertools.groupby(found, key=lambda one: (one.end - one.start, one.scored)):
        same = list(alike)
        yield from (same[start : start + size] for start in range(0, len(same), size))


def _checked(*, characters: int, **sizes: int) -> None:
    if characters < 2:
        raise ValueError(f"characters is {characters}; allowed: 2 or more")
    for key, value in sizes.items():
        if value < 1:
            raise ValueError(f"{key} is {value}; allowed: 1 or more")
