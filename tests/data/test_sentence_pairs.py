"""Pairs of sentences for translation, and sentences of the Python library."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relearn.data import CORPORA, library_sentences, module_of, pydoc_topics
from relearn.data.library_sentences import PARTS, load, part_of, sentences_of
from relearn.data.sentence_pairs import Corpus, load_pairs, tidy

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


def test_corpora_by_name() -> None:
    assert {name: module_of(name, CORPORA) for name in CORPORA} == {
        name: f"relearn.data.{name}" for name in ("number_words", "multi30k", "iwslt14")
    }
    assert load_pairs("number_words").languages == ("de", "en")
    with pytest.raises(
        ValueError, match=r"corpus 'wmt' is unknown; allowed: number_words, multi30k, iwslt14"
    ):
        load_pairs("wmt")


# sentences of the Python library ------------------------------------------------------------------------------------


TEXT = """The "if" statement is used for
   conditional execution, and it is old.  Short one here.
   It ends otherwise, which is why it is no sentence here:

      x = 1 if y else 2 for all of the things that there are.

It selects exactly one of the suites by evaluating the expressions. | a | b |
lower case begins what is no sentence of the kind that is kept."""


def test_a_sentence_is_prose_from_capital_to_full_stop() -> None:
    assert list(sentences_of(TEXT)) == [
        'The "if" statement is used for conditional execution, and it is old.',
        "It selects exactly one of the suites by evaluating the expressions.",
    ]


def test_no_sentence_is_in_two_parts_and_pretraining_has_seen_none_of_another_part() -> None:
    found = load()
    every = [one for part in PARTS for one in getattr(found, part)]
    assert len(every) == len(set(every)) > 3000
    for part in PARTS:
        assert len(getattr(found, part)) > 150
        assert all(6 <= len(one.split()) <= 30 for one in getattr(found, part))
    topics = {"valid": "dev", "test": "test", "train": "train"}
    kept = {part: set(getattr(found, part)) for part in PARTS}
    told = list(library_sentences.documents())
    from pydoc_data.topics import topics as texts

    longest = max(texts, key=lambda name: (len(texts[name]), name))
    assert told[0] == (topics[pydoc_topics.part_of(longest)], texts[longest])
    assert set(sentences_of(texts[longest])) <= kept[topics[pydoc_topics.part_of(longest)]]


def test_equal_pythons_give_equal_sentences_and_no_paths() -> None:
    one, other = load(), load()
    assert one == other and "/" not in json.dumps(one.source)
    assert {part_of(f"module{number}.py") for number in range(100)} == set(PARTS)


def test_a_python_without_its_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_sentences, "_files", lambda library: iter(()))
    with pytest.raises(FileNotFoundError, match="0 modules as files"):
        load()
