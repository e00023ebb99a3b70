"""Insertion and deletion: what stays, what comes in, where; nothing else changes."""

import string
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from relearn.data.lra.perturb import MARKS, PUNCTUATION, delete, insert

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def is_subsequence(short: str, long: str) -> bool:
    rest = iter(long)
    return all(one in rest for one in short)


@given(text=TEXTS, seed=st.integers(0, 2**32))
def test_insertion_adds_ten_marks_and_keeps_the_text(text: str, seed: int) -> None:
    got = insert(text.encode(), np.random.default_rng(seed)).decode()  # decodes: no mark inside a character
    assert len(got) == len(text) + MARKS == len(text) + 10
    assert is_subsequence(text, got)
    added = Counter(got) - Counter(text)
    assert sum(added.values()) == 10 and set(added) <= set(string.punctuation)
    assert delete(got.encode()) == delete(text.encode())


@given(text=TEXTS)
def test_deletion_takes_all_punctuation_and_nothing_else(text: str) -> None:
    expected = "".join(one for one in text if one not in string.punctuation)
    assert delete(text.encode()).decode() == (expected or " ")


def test_places_differ_and_are_everywhere() -> None:
    text = b"x" * 12
    places: Counter[int] = Counter()
    marks: Counter[int] = Counter()
    runs = 1500
    for seed in range(runs):
        got = insert(text, np.random.default_rng(seed))
        gaps = got.split(b"x")
        assert len(gaps) == 13 and max(map(len, gaps)) == 1  # 10 of 13 gaps, one mark each
        places.update(place for place, gap in enumerate(gaps) if gap)
        marks.update(b"".join(gaps))
    assert set(marks) == set(PUNCTUATION) and len(PUNCTUATION) == 32
    for counts, share, total in ((places, 10 / 13, runs), (marks, 1 / 32, 10 * runs)):
        error = (share * (1 - share) / total) ** 0.5
        assert all(abs(count / total - share) < 5 * error for count in counts.values())


def test_a_short_text_takes_them_all() -> None:
    assert len(insert(b"ab", np.random.default_rng(0))) == 12
    assert len(insert(b"", np.random.default_rng(0), marks=3)) == 3


def test_the_generator_fixes_it() -> None:
    text = b"some words, and more"
    assert insert(text, np.random.default_rng(5)) == insert(text, np.random.default_rng(5))
    assert insert(text, np.random.default_rng(5)) != insert(text, np.random.default_rng(6))
