r"""Unigram and bigram cross-entropies of characters: baselines for language models.

Over the targets of the test lines (their characters and one eos each, as predicted by a network),

.. math::
    H_1 = -\frac{1}{T} \sum_t \log \frac{n(y_t) + 1}{n + K}, \qquad
    H_2 = -\frac{1}{T} \sum_t \log \frac{n(y_{t-1}, y_t) + 1}{n(y_{t-1}) + K}

======  =============================================================================================
symbol  meaning
======  =============================================================================================
y_t     a target of test; y_{t-1} the character before it, bos before the first one of a line
T       number of test targets: characters and lines
n(y)    count of target y in train; n(x, y): count of y after x; n(x): count of x followed by anything
n       number of training targets
K       number of possible targets: eos, unknown and the vocabulary's characters, but not pad and bos
======  =============================================================================================

Both use add-one (Laplace) smoothing, so that unseen targets have a probability, too. Unit: nats per target.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from relearn.data.bpe import BOS, EOS

Lines = tuple[NDArray[Any], NDArray[np.int64]]  # concatenated ids, offsets
NEVER = 2  # ids that are never targets: pad and bos


def cross_entropies(train: Lines, test: Lines, *, vocabulary: int) -> tuple[float, float]:
    """(unigram, bigram) of train on test, in nats per target; see the module.

    Args:
        train, test: as returned by ``relearn.data.characters.PreparedCharacters.flat``, without bos and eos.
        vocabulary: number of ids, including pad and bos.

    Raises:
        ValueError: a part has no lines.
    """
    for name, lines in (("train", train), ("test", test)):
        if len(lines[1]) < 2:
            raise ValueError(f"{name}: no lines; allowed: at least one")
    kinds = vocabulary - NEVER
    before, after = _steps(*train)
    pairs = np.bincount(before * vocabulary + after, minlength=vocabulary**2).reshape(vocabulary, vocabulary)
    singles = pairs.sum(0)
    before, after = _steps(*test)
    unigram = np.log(singles.sum() + kinds) - np.log(singles[after] + 1.0)
    bigram = np.log(pairs.sum(1)[before] + float(kinds)) - np.log(pairs[before, after] + 1.0)
    return float(unigram.mean()), float(bigram.mean())


def _steps(ids: NDArray[Any], offsets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(preceding id, target) for every target of the lines."""
    wide = ids.astype(np.int64)
    return np.insert(wide, offsets[:-1], BOS), np.insert(wide, offsets[1:], EOS)
