r"""The prepared stream: written by `relearn long_short prepare_char_stream`, read by every long-context character model.

``stream.safetensors`` holds ``train``, ``valid`` and ``test``, (n,) uint8 each: ids that number the different bytes of the whole stream
in the order of their values. The header holds, as one JSON text, so that equal streams give equal bytes: the stream's name and these
byte values.

The split is by position: the first 90% train, then 5% valid, then 5% test (zhu2022, section 5.3.2: 90, 5 and 5 million of enwik8 and
text8). The vocabulary covers all three parts, as for every published number on these streams: a byte that occurs only in test costs bits,
but it can be predicted.

The baselines are the cross-entropies of unigrams and bigrams, of train on test, in bits per character with add-one smoothing:

.. math::
    H_1 = -\frac{1}{T} \sum_{t > 1} \log_2 \frac{n(y_t) + 1}{n + K}, \qquad
    H_2 = -\frac{1}{T} \sum_{t > 1} \log_2 \frac{n(y_{t-1}, y_t) + 1}{n(y_{t-1}) + K}

over all T characters of test except the first, with counts n in train and K ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from relearn.data import prepared_file

PARTS = ("train", "valid", "test")
HELD_OUT = 20  # 1/HELD_OUT of the characters for valid, as many for test
Ids = NDArray[np.uint8]


@dataclass(frozen=True)
class PreparedStream:
    """A stream in three parts.

    Attributes:
        dataset: the stream's name.
        symbols: the byte of each id.
        parts: ids by part.
    """

    dataset: str
    symbols: bytes
    parts: dict[str, Ids]

    @property
    def vocabulary(self) -> int:
        """Number of ids."""
        return len(self.symbols)

    def decode(self, ids: Iterable[int]) -> bytes:
        """The bytes of these ids.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        found = list(ids)
        wrong = next((one for one in found if not 0 <= one < self.vocabulary), None)
        if wrong is not None:
            raise ValueError(f"id is {wrong}; allowed: 0 to {self.vocabulary - 1}")
        return bytes(self.symbols[one] for one in found)


def prepare(content: bytes, *, name: str, characters: int = 0) -> tuple[PreparedStream, dict[str, float]]:
    """Split by position, number the bytes, and count.

    Args:
        content: the stream.
        name: its name, for the header.
        characters: use only this many from the beginning; 0 for all.

    Returns:
        the prepared stream, and ``{part}_characters_count``, ``vocabulary_count``, ``unigram_bpc``, ``bigram_bpc``.

    Raises:
        ValueError: fewer characters than requested, or too few for three parts of at least 2.
    """
    if characters < 0 or characters > len(content):
        raise ValueError(
            f"characters is {characters}; allowed: 0 (all) to {len(content)}, the length of {name}"
        )
    raw = np.frombuffer(content[: characters or None], np.uint8)
    held = len(raw) // HELD_OUT
    if held < 2:
        raise ValueError(f"{name}: {len(raw)} characters; allowed: at least {2 * HELD_OUT}")
    seen = np.bincount(raw, minlength=256) > 0
    numbers = (np.cumsum(seen) - 1).astype(np.uint8)
    ids = numbers[raw]
    cuts = np.split(ids, [len(ids) - 2 * held, len(ids) - held])
    parts = dict(zip(PARTS, cuts, strict=True))
    stream = PreparedStream(name, bytes(np.flatnonzero(seen).astype(np.uint8)), parts)
    unigram, bigram = cross_entropies(parts["train"], parts["test"], vocabulary=stream.vocabulary)
    metrics = {f"{part}_characters_count": float(len(parts[part])) for part in PARTS}
    metrics |= {
        "vocabulary_count": float(stream.vocabulary),
        "unigram_bpc": unigram,
        "bigram_bpc": bigram,
    }
    return stream, metrics


def cross_entropies(train: Ids, test: Ids, *, vocabulary: int) -> tuple[float, float]:
    """(unigram, bigram) of train on test, in bits per character; see the module."""
    singles = np.bincount(train, minlength=vocabulary)
    pairs = np.bincount(train[:-1].astype(np.int64) * vocabulary + train[1:], minlength=vocabulary**2)
    pairs = pairs.reshape(vocabulary, vocabulary)
    before, after = test[:-1], test[1:]
    unigram = np.log2(singles.sum() + vocabulary) - np.log2(singles[after] + 1.0)
    bigram = np.log2(pairs.sum(1)[before] + float(vocabulary)) - np.log2(pairs[before, after] + 1.0)
    return float(unigram.mean()), float(bigram.mean())


def save_stream(stream: PreparedStream, path: Path) -> None:
    """Write ``stream.safetensors``."""
    header = {"stream": stream.dataset, "symbols": list(stream.symbols)}
    prepared_file.write(path, stream.parts, header)


def load_prepared_stream(path: Path | str) -> PreparedStream:
    """Read a file written by :func:`save_stream`.

    Raises:
        SafetensorError: the file is damaged.
        ValueError: it does not hold a prepared stream.
        OSError: it cannot be read.
    """
    header, parts = prepared_file.read(
        path, "stream", "long_short prepare_char_stream", fields=("stream", "symbols"), arrays=PARTS
    )
    return PreparedStream(header["stream"], bytes(header["symbols"]), {part: parts[part] for part in PARTS})
