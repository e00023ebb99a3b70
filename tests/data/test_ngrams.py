"""Unigram and bigram cross-entropies against slow dictionaries, analytic cases, and probabilities that sum to one."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.data.ngrams import cross_entropies

BOS, EOS, UNK = 1, 2, 3
V = 8
lines = st.lists(st.lists(st.integers(UNK, V - 1), max_size=7), min_size=1, max_size=8)


def flat(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    ids = np.array([one for row in rows for one in row], np.uint8)
    return ids, np.cumsum([0, *map(len, rows)], dtype=np.int64)


def steps(rows: list[list[int]]) -> list[tuple[int, int]]:
    return [pair for row in rows for pair in zip([BOS, *row], [*row, EOS])]


def slow(train: list[list[int]], test: list[list[int]]) -> tuple[float, float]:
    pairs = Counter(steps(train))
    singles, firsts = Counter(y for _, y in steps(train)), Counter(x for x, _ in steps(train))
    kinds, n = V - 2, len(steps(train))
    one = [-math.log((singles[y] + 1) / (n + kinds)) for _, y in steps(test)]
    two = [-math.log((pairs[x, y] + 1) / (firsts[x] + kinds)) for x, y in steps(test)]
    return sum(one) / len(one), sum(two) / len(two)


@given(lines, lines)
@settings(max_examples=60, deadline=None)
def test_against_slow_dictionaries(train: list, test: list) -> None:
    got = cross_entropies(flat(train), flat(test), vocabulary=V)
    assert got == pytest.approx(slow(train, test), abs=1e-12)


def test_the_probabilities_of_all_lines_sum_to_one() -> None:
    """Over an alphabet of one character and unknown; train ends its lines soon, so long ones have no weight left."""
    train = flat([*[[]] * 50, *[[UNK]] * 50, *[[4]] * 50, [UNK, 4], [4, UNK]])
    mass = np.zeros(2)
    for length in range(10):
        for row in product([UNK, 4], repeat=length):
            nats = cross_entropies(train, flat([list(row)]), vocabulary=5)
            mass += np.exp(-(length + 1) * np.array(nats))
    assert mass == pytest.approx([1, 1], abs=5e-3) and (mass < 1).all()


def test_analytic_cases() -> None:
    # Train: 6 lines of one character each, 1 of every kind but eos; every first character is equally likely.
    train = [[y] for y in range(UNK, V)]
    unigram, bigram = cross_entropies(flat(train), flat(train), vocabulary=V)
    kinds, n = V - 2, 2 * len(train)
    ends = len(train)
    wanted = -0.5 * math.log(2 / (n + kinds)) - 0.5 * math.log((ends + 1) / (n + kinds))
    assert unigram == pytest.approx(wanted)
    first, end = 2 / (ends + kinds), 2 / (1 + kinds)
    assert bigram == pytest.approx(-0.5 * (math.log(first) + math.log(end)))


def test_more_text_of_one_order_makes_the_bigram_certain_and_not_the_unigram() -> None:
    rows = [[4, 5, 6, 7]] * 5000
    unigram, bigram = cross_entropies(flat(rows), flat(rows[:1]), vocabulary=V)
    assert unigram == pytest.approx(math.log(5), abs=1e-3) and 0 < bigram < 2e-3
    backwards = cross_entropies(flat(rows), flat([[7, 6, 5, 4]]), vocabulary=V)
    assert backwards[0] == pytest.approx(unigram) and backwards[1] > 5, "order counts for the bigram alone"


def test_no_lines() -> None:
    for train, test, name in (([], [[4]], "train"), ([[4]], [], "test")):
        with pytest.raises(ValueError, match=f"{name}: no lines; allowed: at least one"):
            cross_entropies(flat(train), flat(test), vocabulary=V)
