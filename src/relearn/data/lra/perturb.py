"""Insertion and deletion of punctuation in test samples (zhu2022, section 5.3.1, table 5.3).

*Insertion*: 10 random punctuation marks at 10 random places. *Deletion*: all punctuation is taken out. Neither should
change what a text means; both shift all characters behind. Networks are trained on the texts as they are.

Punctuation is ASCII's, ``string.punctuation``, 32 marks; the dissertation names no set, and the released code has none of
this. Marks and places are uniform, places different wherever a text has so many; no mark goes inside a character of
several bytes. Both act on the whole text, before it is cut to a network's length: deletion brings text from behind
the cut in, insertion moves some out.
"""

from __future__ import annotations

import string

import numpy as np

PUNCTUATION = string.punctuation.encode()
MARKS = 10


def insert(text: bytes, generator: np.random.Generator, *, marks: int = MARKS) -> bytes:
    """``text`` with ``marks`` random marks at random places, its end and beginning among them.

    Args:
        text: UTF-8.
        generator: of the places and marks.
        marks: how many.
    """
    found = np.frombuffer(text, np.uint8)
    places = np.append(np.flatnonzero((found & 0xC0) != 0x80), len(found))  # no place inside a character
    at = generator.choice(places, marks, replace=len(places) < marks)
    new = np.frombuffer(PUNCTUATION, np.uint8)[generator.integers(len(PUNCTUATION), size=marks)]
    return np.insert(found, at, new).tobytes()


def delete(text: bytes) -> bytes:
    """``text`` without its punctuation; a text of nothing else becomes a blank, because no sequence is empty."""
    return text.translate(None, PUNCTUATION) or b" "
