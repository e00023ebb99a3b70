"""The prepared stream: cut by position, bytes as numbers and back, cross-entropies against a slow count.

Unigram and bigram cross-entropies against slow dictionaries, analytic cases, and probabilities that sum to one.
"""

import math
from collections import Counter
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError
from safetensors.numpy import save_file

from relearn.data.ngrams import cross_entropies
from relearn.data.prepared_stream import PARTS, load_prepared_stream, prepare, save_stream

contents = st.binary(min_size=40, max_size=400) | st.text("ab ", min_size=40, max_size=300).map(str.encode)


@given(contents)
@settings(max_examples=60)
def test_the_parts_side_by_side_are_the_stream(content: bytes) -> None:
    stream, metrics = prepare(content, name="x")
    assert b"".join(stream.decode(stream.parts[part].tolist()) for part in PARTS) == content
    held = len(content) // 20
    assert [len(stream.parts[part]) for part in PARTS] == [len(content) - 2 * held, held, held]
    assert [metrics[f"{part}_characters_count"] for part in PARTS] == [len(content) - 2 * held, held, held]
    assert stream.symbols == bytes(sorted(set(content))) and stream.vocabulary == len(set(content))
    assert all(ids.dtype == np.uint8 for ids in stream.parts.values())


def slow(train: list[int], test: list[int], kinds: int) -> tuple[float, float]:
    unigram = bigram = 0.0
    for before, after in pairwise(test):
        unigram -= math.log2((train.count(after) + 1) / (len(train) + kinds))
        together = sum(pair == (before, after) for pair in pairwise(train))
        bigram -= math.log2((together + 1) / (train[:-1].count(before) + kinds))
    return unigram / (len(test) - 1), bigram / (len(test) - 1)


@given(contents)
@settings(max_examples=30)
def test_the_cross_entropies_are_those_of_a_slow_count(content: bytes) -> None:
    stream, metrics = prepare(content, name="x")
    expected = slow(stream.parts["train"].tolist(), stream.parts["test"].tolist(), stream.vocabulary)
    assert (metrics["unigram_bpc"], metrics["bigram_bpc"]) == pytest.approx(expected)


def test_an_even_coin_costs_a_bit_and_a_rule_almost_nothing() -> None:
    coin = np.random.default_rng(0).integers(97, 99, 100_000, np.uint8).tobytes()
    _, told = prepare(coin, name="coin")
    assert told["unigram_bpc"] == pytest.approx(1, abs=1e-3)
    assert told["bigram_bpc"] == pytest.approx(1, abs=1e-3)
    _, told = prepare(b"ab" * 50_000, name="rule")
    assert told["unigram_bpc"] == pytest.approx(1, abs=1e-3) and told["bigram_bpc"] < 1e-3


def test_the_beginning_alone() -> None:
    stream, _ = prepare(bytes(range(200)), name="x", characters=60)
    assert stream.vocabulary == 60 and len(stream.parts["train"]) == 54


def test_a_file_gives_back_what_was_saved(tmp_path: Path) -> None:
    stream, _ = prepare(b"hello, stream " * 20, name="greeting")
    for name in ("a", "b"):
        save_stream(stream, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    got = load_prepared_stream(tmp_path / "a")
    assert (got.dataset, got.symbols) == ("greeting", stream.symbols)
    for part in PARTS:
        np.testing.assert_array_equal(got.parts[part], stream.parts[part])


def test_faults(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="x: 39 characters; allowed: at least 40"):
        prepare(b"a" * 39, name="x")
    for wrong in (-1, 101):
        with pytest.raises(ValueError, match=rf"characters is {wrong}; allowed: 0 \(all\) to 100"):
            prepare(b"a" * 100, name="x", characters=wrong)
    stream, _ = prepare(b"ab" * 50, name="x")
    with pytest.raises(ValueError, match="id is 2; allowed: 0 to 1"):
        stream.decode([0, 2])
    path = tmp_path / "s"
    path.write_bytes(b"text")
    with pytest.raises(SafetensorError, match="not a safetensors file"):
        load_prepared_stream(path)
    save_file({"train": np.zeros(3, np.uint8)}, path)
    with pytest.raises(
        ValueError,
        match=r"not a prepared stream, stream, .* missing; `relearn long_short prepare_char_stream` writes one",
    ):
        load_prepared_stream(path)


BOS, EOS, UNK = 1, 2, 3
V = 8
lines = st.lists(st.lists(st.integers(UNK, V - 1), max_size=7), min_size=1, max_size=8)


def flat(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    ids = np.array([one for row in rows for one in row], np.uint8)
    return ids, np.cumsum([0, *map(len, rows)], dtype=np.int64)


def steps(rows: list[list[int]]) -> list[tuple[int, int]]:
    return [pair for row in rows for pair in zip([BOS, *row], [*row, EOS])]


def slow_of_lines(train: list[list[int]], test: list[list[int]]) -> tuple[float, float]:
    pairs = Counter(steps(train))
    singles, firsts = Counter(y for _, y in steps(train)), Counter(x for x, _ in steps(train))
    kinds, n = V - 2, len(steps(train))
    one = [-math.log((singles[y] + 1) / (n + kinds)) for _, y in steps(test)]
    two = [-math.log((pairs[x, y] + 1) / (firsts[x] + kinds)) for x, y in steps(test)]
    return sum(one) / len(one), sum(two) / len(two)


@given(lines, lines)
@settings(max_examples=60)
def test_against_slow_dictionaries(train: list, test: list) -> None:
    got = cross_entropies(flat(train), flat(test), vocabulary=V)
    assert got == pytest.approx(slow_of_lines(train, test), abs=1e-12)


def test_the_probabilities_of_all_lines_sum_to_one() -> None:
    """Over an alphabet of one character and unknown; train ends its lines soon, so long ones have no weight left."""
    train = flat([*[[]] * 50, *[[UNK]] * 50, *[[4]] * 50, [UNK, 4], [4, UNK]])
    mass = np.zeros(2)
    for length in range(10):
        for row in product([UNK, 4], repeat=length):
            nats = cross_entropies(train, flat([list(row)]), vocabulary=5)
            mass += np.exp(-(length + 1) * np.array(nats))
    assert mass == pytest.approx([1, 1], abs=5e-3) and (mass < 1).all()


def test_cross_entropies_of_known_texts_are_exact() -> None:
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


def test_a_part_without_lines_is_refused() -> None:
    for train, test, name in (([], [[4]], "train"), ([[4]], [], "test")):
        with pytest.raises(ValueError, match=f"{name}: no lines; allowed: at least one"):
            cross_entropies(flat(train), flat(test), vocabulary=V)
