"""RoBERTa's tokens: every text comes back, marks in it are text, checkpoints' own files, bad input."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.data.roberta_tokens import ALPHABET, SPECIAL, RobertaTokenizer, train

TEXTS = ["the cat sat on the mat", "the dog sat on the cat, again and again"] * 5
TOKENIZER = train(TEXTS, 300)


@given(st.text(min_size=1, max_size=40))
@settings(max_examples=50)
def test_every_text_comes_back(text: str) -> None:
    (row,) = TOKENIZER.encode([text], 1000)
    assert row[0] == TOKENIZER.bos and row[-1] == TOKENIZER.eos
    assert not {TOKENIZER.bos, TOKENIZER.eos, TOKENIZER.pad, TOKENIZER.mask} & set(row[1:-1].tolist())
    assert TOKENIZER.decode(row) == text


def test_special_tokens_have_the_first_ids() -> None:
    assert TOKENIZER.special == [0, 1, 2, 3, 4]
    assert (TOKENIZER.bos, TOKENIZER.pad, TOKENIZER.eos, TOKENIZER.mask) == (0, 1, 2, 4)
    (row,) = TOKENIZER.encode(["say <mask> or </s>"], 100)
    assert TOKENIZER.decode(row) == "say <mask> or </s>"


def test_frequent_texts_are_short_and_equal_texts_give_equal_tokenizers() -> None:
    (row,) = TOKENIZER.encode([" the cat"], 100)
    assert len(row) == 4  # <s>, two words, </s>
    assert train(TEXTS, 300).to_json() == TOKENIZER.to_json()
    assert len(train(TEXTS, ALPHABET + len(SPECIAL))) == 261 < len(TOKENIZER) <= 300


def test_long_texts_are_cut_and_keep_their_ends() -> None:
    (whole,), (cut,) = TOKENIZER.encode(TEXTS[:1], 100), TOKENIZER.encode(TEXTS[:1], 5)
    assert len(cut) == 5 and list(cut) == [*whole[:4], TOKENIZER.eos]


def test_a_checkpoints_own_file() -> None:
    """A tokenizer with other ids and its own truncation and padding, which are disabled."""
    said = json.loads(TOKENIZER.to_json())
    swapped = dict(zip((0, 1, 2, 3, 4), (4, 0, 1, 2, 3)))
    for token in said["added_tokens"]:
        token["id"] = swapped[token["id"]]
    said["added_tokens"].sort(key=lambda token: token["id"])
    vocabulary = said["model"]["vocab"]
    said["model"]["vocab"] = {text: swapped.get(number, number) for text, number in vocabulary.items()}
    said["truncation"] = {"max_length": 4, "stride": 0, "strategy": "LongestFirst", "direction": "Right"}
    other = RobertaTokenizer(json.dumps(said))
    assert (other.bos, other.pad, other.eos, other.mask) == (4, 0, 1, 3)
    (row,), (own,) = other.encode(TEXTS[:1], 100), TOKENIZER.encode(TEXTS[:1], 100)
    assert list(row[1:-1]) == list(own[1:-1]) and len(row) > 6


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"vocabulary: 260 \(allowed: at least 261"):
        train(TEXTS, 260)
    with pytest.raises(ValueError, match="its JSON cannot be read"):
        RobertaTokenizer("{}")
    said = json.loads(TOKENIZER.to_json())
    said["added_tokens"] = [token for token in said["added_tokens"] if token["content"] != "<mask>"]
    del said["model"]["vocab"]["<mask>"]
    with pytest.raises(ValueError, match="has no <mask>"):
        RobertaTokenizer(json.dumps(said))
    with pytest.raises(ValueError, match="max_length: 2"):
        TOKENIZER.encode(TEXTS, 2)
