"""Sentences of Python's own documentation: what is one, and that no sentence is in two parts."""

import json

import pytest

from relearn.data import library_sentences, pydoc_topics
from relearn.data.library_sentences import PARTS, load, part_of, sentences_of

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
