r"""Cross-entropies of characters counted in train: what a language model has to beat.

Over the targets of the test lines (their characters and an end mark each, as a network predicts them),

.. math::
    H_1 = -\frac{1}{T} \sum_t \log \frac{n(y_t) + 1}{n + K}, \qquad
    H_2 = -\frac{1}{T} \sum_t \log \frac{n(y_{t-1}, y_t) + 1}{n(y_{t-1}) + K}

======  =============================================================================================
symbol  meaning
======  =============================================================================================
y_t     a target of test; y_{t-1} the character before it, bos before the first one of a line
T       targets of test: characters and lines
n(y)    how often train has the target y; n(x, y): how often after x; n(x): how often x is followed
n       targets of train
K       what a target can be: eos, unknown and the characters of the vocabulary; pad and bos never are
======  =============================================================================================

Both are add-one (Laplace) smoothed, so that what train never has gets a probability, too. In nats a target.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from relearn.data.bpe import BOS, EOS

Lines = tuple[NDArray[Any], NDArray[np.int64]]  # ids behind one another, offsets
NEVER = 2  # ids that are no target: pad and bos


def cross_entropies(train: Lines, test: Lines, *, vocabulary: int) -> tuple[float, float]:
    """(unigram, bigram) of train on test, in nats a target; see the module.

    Args:
        train, test: as ``relearn.data.characters.PreparedCharacters.flat`` gives them, without bos and eos.
        vocabulary: number of ids, pad and bos among them.

    Raises:
        ValueError: a part has no lines.
    """
    for name, lines in (("train", train), ("test", test)):
        if len(lines[1]) < 2:
            raise ValueError(f"{name}: no lines; at least one is needed")
    kinds = vocabulary - NEVER
    before, after = _steps(*train)
    pairs = np.bincount(before * vocabulary + after, minlength=vocabulary**2).reshape(vocabulary, vocabulary)
    singles = pairs.sum(0)
    before, after = _steps(*test)
    unigram = np.log(singles.sum() + kinds) - np.log(singles[after] + 1.0)
    bigram = np.log(pairs.sum(1)[before] + float(kinds)) - np.log(pairs[before, after] + 1.0)
    return float(unigram.mean()), float(bigram.mean())


def _steps(ids: NDArray[Any], offsets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(what stands before, target) of every target of the lines."""
    wide = ids.astype(np.int64)
    return np.insert(wide, offsets[:-1], BOS), np.insert(wide, offsets[1:], EOS)
