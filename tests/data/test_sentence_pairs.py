"""Sentence pairs: faults named, the digest that of the lines, evenly spaced choices, corpora by name."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relearn.data import CORPORA
from relearn.data.sentence_pairs import Corpus, corpus_module_of, evenly_spaced, load_pairs, tidy

GOOD = [("ein Hund", "a dog")]


def corpus(**changes: list[tuple[str, str]]) -> Corpus:
    parts = {"train": GOOD, "valid": GOOD, "test": GOOD} | changes
    return Corpus(**parts, languages=("de", "en"), source={"from": "here"})


def test_the_digest_is_that_of_the_lines() -> None:
    two = [*GOOD, ("Größe", "size")]
    wanted = hashlib.sha256("ein Hund\ta dog\nGröße\tsize\n".encode()).hexdigest()
    assert corpus(valid=two).source["sha256"]["valid"] == wanted
    # Sides or pairs in another order are another corpus.
    assert corpus(valid=[(b, a) for a, b in two]).source["sha256"]["valid"] != wanted
    assert corpus(valid=two[::-1]).source["sha256"]["valid"] != wanted


@pytest.mark.parametrize("wrong", ["", " a", "a ", "a\nb", "a\u2028b", "a\x85b"])
def test_a_sentence_is_one_clean_line(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"test: pair 1, en: .*; allowed: one line, not empty"):
        corpus(test=[*GOOD, ("gut", wrong)])


def test_an_empty_part_is_refused() -> None:
    with pytest.raises(ValueError, match="valid: no sentence pairs"):
        corpus(valid=[])


@given(st.text())
def test_tidy_makes_what_a_corpus_takes(text: str) -> None:
    clean = tidy(text)
    assert tidy(clean) == clean and "".join(clean.split()) == "".join(text.split())
    if clean:
        corpus(train=[(clean, clean)])


@given(st.integers(1, 60), st.integers(0, 70))
def test_a_choice_is_evenly_spaced(total: int, count: int) -> None:
    pairs = [(str(i), str(i)) for i in range(total)]
    got = [int(a) for a, _ in evenly_spaced(pairs, count)]
    if count == 0 or count >= total:
        assert got == list(range(total))
        return
    assert len(got) == count and got[0] == 0
    gaps = [b - a for a, b in zip(got, [*got[1:], total])]
    assert min(gaps) >= 1 and max(gaps) - min(gaps) <= 1


def test_a_negative_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="pairs is -1; allowed: 0"):
        evenly_spaced(GOOD, -1)


def test_corpora_by_name() -> None:
    assert {name: corpus_module_of(name) for name in CORPORA} == {
        name: f"relearn.data.{name}" for name in ("number_words", "multi30k", "iwslt14")
    }
    assert load_pairs("number_words").languages == ("de", "en")
    with pytest.raises(
        ValueError, match=r"corpus 'wmt' is unknown; allowed: number_words, multi30k, iwslt14"
    ):
        load_pairs("wmt")
