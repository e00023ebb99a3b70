"""The prepared stream: cut by position, bytes as numbers and back, cross-entropies against a slow count."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from relearn.data.prepared_stream import PARTS, load_prepared_stream, prepare, save_stream

contents = st.binary(min_size=40, max_size=400) | st.text("ab ", min_size=40, max_size=300).map(str.encode)


@given(contents)
@settings(max_examples=60, deadline=None)
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
@settings(max_examples=30, deadline=None)
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
    with pytest.raises(ValueError, match="not a safetensors file"):
        load_prepared_stream(path)
    save_file({"train": np.zeros(3, np.uint8)}, path)
    with pytest.raises(
        ValueError, match="not a prepared stream; `relearn long_short prepare_char_stream` writes one"
    ):
        load_prepared_stream(path)
