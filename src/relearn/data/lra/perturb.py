"""Insertion and deletion of punctuation in test samples (zhu2022, section 5.3.1, table 5.3).

*Insertion*: 10 random punctuation marks at 10 random positions. *Deletion*: all punctuation is removed. Neither should
change the meaning of a text; both shift all later characters. Networks are trained on the original texts.

Punctuation is ASCII's, ``string.punctuation``, 32 marks; the dissertation names no set, and the released code lacks
this experiment. Marks and positions are uniform, and positions are distinct if the text is long enough; no mark is placed
inside a multi-byte character. Both operations act on the whole text before truncation to a network's length, so deletion
moves text into the visible part and insertion moves some out.
"""

from __future__ import annotations

import string

import numpy as np

PUNCTUATION = string.punctuation.encode()
MARKS = 10


def insert(text: bytes, generator: np.random.Generator, *, marks: int = MARKS) -> bytes:
    """``text`` with ``marks`` random marks at random positions, including start and end.

    Args:
        text: UTF-8.
        generator: random generator of positions and marks.
        marks: number of marks.
    """
    found = np.frombuffer(text, np.uint8)
    places = np.append(np.flatnonzero((found & 0xC0) != 0x80), len(found))  # no position inside a character
    at = generator.choice(places, marks, replace=len(places) < marks)
    new = np.frombuffer(PUNCTUATION, np.uint8)[generator.integers(len(PUNCTUATION), size=marks)]
    return np.insert(found, at, new).tobytes()


def delete(text: bytes) -> bytes:
    """``text`` without its punctuation; a text of punctuation only becomes a blank, because sequences must not be empty."""
    return text.translate(None, PUNCTUATION) or b" "
