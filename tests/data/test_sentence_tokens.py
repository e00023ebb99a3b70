"""Sentences and pairs as three families read them: transformers' own tokenizers are the truth, bad input."""

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.data.sentence_tokens import FAMILIES, SPECIAL, Row, SentenceTokenizer
from relearn.data.sentence_vocabulary import STEP, canonical_pieces, train

TEXTS = [
    "the cat sat on the mat, isn't it?",
    "A dog sat on the cat: again & again",
    "Über ~ 42 öfen @ home",
] * 4
TOKENIZERS = {family: train(family, TEXTS, 300) for family in FAMILIES}
LETTERS = "acdeghimnost ',:?&~4" + "ABDU"  # letters that all families learnt

words = st.text(LETTERS, min_size=1, max_size=12).map(str.strip).filter(bool)
sentences = st.lists(words, min_size=1, max_size=8).map(" ".join)


def theirs(family: str) -> Any:
    """The tokenizer of transformers with the same vocabulary."""
    import transformers

    model = json.loads(TOKENIZERS[family].to_json())["model"]
    if family == "roberta":
        merges = [tuple(pair) for pair in model["merges"]]
        return transformers.RobertaTokenizerFast(vocab=model["vocab"], merges=merges)
    if family == "bert":
        return transformers.BertTokenizerFast(vocab=model["vocab"])
    return transformers.AlbertTokenizerFast(vocab=[tuple(one) for one in model["vocab"]])


THEIRS = {family: theirs(family) for family in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
@given(first=sentences, second=st.none() | sentences, longest=st.integers(6, 40))
@settings(max_examples=60)
def test_rows_are_those_of_transformers(family: str, first: str, second: str | None, longest: int) -> None:
    ((ids, types),) = TOKENIZERS[family].encode([(first, second)], longest)
    expected = THEIRS[family](first, second, truncation=True, max_length=longest, return_token_type_ids=True)
    assert ids.tolist() == expected["input_ids"]
    assert types.tolist() == expected["token_type_ids"]
    assert (ids.dtype, types.dtype) == (np.int32, np.int8)


def slow_cut(first: list[int], second: list[int], room: int) -> tuple[list[int], list[int]]:
    second_was_shorter = len(second) < len(first)
    first, second = list(first), list(second)
    while len(first) + len(second) > room:
        if len(first) != len(second):
            longer = first if len(first) > len(second) else second
        else:
            longer = second if second_was_shorter else first
        longer.pop()
    return first, second


@pytest.mark.parametrize("family", FAMILIES)
@given(first=sentences, second=sentences, longest=st.integers(6, 40))
@settings(max_examples=40)
def test_the_longer_text_is_cut_first(family: str, first: str, second: str, longest: int) -> None:
    own = TOKENIZERS[family]
    one, other = (ids[1:-1].tolist() for ids, _ in own.encode([(first, None), (second, None)], 10_000))
    between = [own.eos] * (2 if family == "roberta" else 1)
    one, other = slow_cut(one, other, longest - 2 - len(between))
    ((ids, types),) = own.encode([(first, second)], longest)
    assert ids.tolist() == [own.bos, *one, *between, *other, own.eos]
    second_from = len(one) + 1 + len(between)
    assert types.tolist() == [int(own.types > 1 and place >= second_from) for place in range(len(ids))]


@given(st.text(min_size=1, max_size=40))
@settings(max_examples=50)
def test_every_text_comes_back_from_bytes(text: str) -> None:
    own = TOKENIZERS["roberta"]
    (ids,) = own.encode_texts([text], 1000)
    assert own.decode(ids) == text
    assert not set(own.special) & set(ids[1:-1].tolist())


@pytest.mark.parametrize("family", ["bert", "albert"])
@given(
    text=st.lists(
        st.sampled_from(["the", "cat", "sat", "on", "mat", "dog", "again", "home"]), min_size=1
    ).map(" ".join)
)
@settings(max_examples=30)
def test_learnt_words_come_back_in_lower_case(family: str, text: str) -> None:
    own = TOKENIZERS[family]
    (ids,) = own.encode_texts([text.title()], 1000)
    assert own.decode(ids) == text
    ((unseen, _),) = own.encode([("Ω", None)], 10)
    assert own.special[1] in unseen.tolist()  # unknown


@pytest.mark.parametrize("family", FAMILIES)
def test_special_tokens_are_named_and_marks_in_texts_are_text(family: str) -> None:
    own = TOKENIZERS[family]
    assert own.special == [0, 1, 2, 3, 4] and own.family == family
    assert {own.bos, own.pad, own.eos, own.mask} < set(own.special)
    assert own.types == (1 if family == "roberta" else 2)
    (ids,) = own.encode_texts([f"a {SPECIAL[family][4]} {SPECIAL[family][2]}"], 1000)
    assert own.mask not in ids and own.bos not in ids[1:]


@pytest.mark.parametrize("family", FAMILIES)
def test_equal_texts_give_equal_tokenizers_in_every_process(family: str) -> None:
    """The package's own trainers of WordPiece and unigrams do not: see the module."""
    code = (
        "import json, sys; from relearn.data.sentence_vocabulary import train; "
        "print(train(sys.argv[1], json.loads(sys.argv[2]), 300).to_json(), end='')"
    )
    for _ in range(3):
        assert train(family, TEXTS, 300).to_json() == TOKENIZERS[family].to_json()
    found = subprocess.run(
        [sys.executable, "-c", code, family, json.dumps(TEXTS)], capture_output=True, text=True, check=True
    )
    assert found.stdout == TOKENIZERS[family].to_json()


@pytest.mark.parametrize("family", FAMILIES)
def test_json_and_back(family: str) -> None:
    own = TOKENIZERS[family]
    again = SentenceTokenizer.from_json(own.to_json())
    assert again.to_json() == own.to_json() and len(again) == len(own) <= 300
    rows: list[Row] = [(TEXTS[0], TEXTS[1]), (TEXTS[2], None)]
    for (ids, types), (ids_again, types_again) in zip(own.encode(rows, 30), again.encode(rows, 30)):
        assert ids.tolist() == ids_again.tolist() and types.tolist() == types_again.tolist()


def test_cutting_leaves_no_trace() -> None:
    before = TOKENIZERS["bert"].to_json()
    TOKENIZERS["bert"].encode([(TEXTS[0], TEXTS[1])], 8)
    assert TOKENIZERS["bert"].to_json() == before


@pytest.mark.parametrize("family", FAMILIES)
def test_of_a_checkpoint_in_a_folder(family: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp(family)
    THEIRS[family].save_pretrained(folder)
    own, read = TOKENIZERS[family], SentenceTokenizer.of_checkpoint(folder)
    assert read.family == family and len(read) == len(own) and read.special == own.special
    for (ids, _), (ids_read, _) in zip(
        own.encode([(TEXTS[0], TEXTS[2])], 20), read.encode([(TEXTS[0], TEXTS[2])], 20)
    ):
        assert ids.tolist() == ids_read.tolist()


def test_letters_that_were_pruned_get_one_value() -> None:
    """In whichever order the trainer gave them their values."""
    learnt = [("the", -2.00049), ("t", -3.0), ("rare", -7.0 - 1e-10)]
    letters = "abcdefghijklmnopqrsuvwxyz"
    found = [
        canonical_pieces(learnt + [(one, -7.0 + STEP * place) for place, one in enumerate(order)])
        for order in (letters, letters[::-1])
    ]
    assert found[0] == found[1]
    assert found[0] == [("the", -2.0), ("t", -3.0), *((one, -7.0) for one in sorted([*letters, "rare"]))]


def test_a_model_of_another_vocabulary_is_refused() -> None:
    own = TOKENIZERS["bert"]
    good = {"vocab_size": len(own), "pad_token_id": 0, "model_type": "bert", "type_vocab_size": 2}
    own.check_model(SimpleNamespace(**good))
    own.check_model(SimpleNamespace(vocab_size=len(own) + 64))
    for key, value, said in (
        ("vocab_size", len(own) - 1, f"{len(own)} tokens, the model embeds {len(own) - 1} "),
        ("vocab_size", len(own) + 129, "allowed: "),
        ("pad_token_id", 1, "pad_token_id is 0, the model's 1"),
        ("model_type", "roberta", "model_type is 'bert', the model's 'roberta'"),
        ("type_vocab_size", 1, "2 token types, the model has 1"),
    ):
        with pytest.raises(ValueError, match=said) as fault:
            own.check_model(SimpleNamespace(**{**good, key: value}))
        assert "\n" not in str(fault.value)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"family: 'gpt' \(allowed: roberta, bert, albert\)"):
        train("gpt", TEXTS, 300)
    with pytest.raises(ValueError, match="texts: none"):
        train("bert", [" "], 300)
    for family in FAMILIES:
        with pytest.raises(ValueError, match=r"vocabulary: 20 \(allowed: at least"):
            train(family, TEXTS, 20)
    with pytest.raises(ValueError, match="its JSON cannot be read"):
        SentenceTokenizer("{}")
    with pytest.raises(ValueError, match=r"its vocabulary is WordLevel \(allowed: BPE"):
        SentenceTokenizer(json.dumps({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}))
    with pytest.raises(ValueError, match=r"has no \[PAD\]"):
        SentenceTokenizer(
            json.dumps(
                {
                    "model": {
                        "type": "WordPiece",
                        "vocab": {"[UNK]": 0},
                        "unk_token": "[UNK]",
                        "continuing_subword_prefix": "##",
                        "max_input_chars_per_word": 9,
                    }
                }
            )
        )
    for family, least in (("roberta", 6), ("bert", 5), ("albert", 5)):
        own = TOKENIZERS[family]
        with pytest.raises(ValueError, match=r"max_length: 2 \(allowed: at least 3"):
            own.encode([("a", None)], 2)
        with pytest.raises(ValueError, match=f"at least {least}, a token of each of two texts"):
            own.encode([("a", None), ("a", "b")], least - 1)
        assert len(own.encode([("cat cat", "dog dog")], least)[0][0]) == least


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Any) -> None:
    with pytest.raises((ValueError, OSError), match="has no tokenizer that can be read") as fault:
        SentenceTokenizer.of_checkpoint(tmp_path)
    assert "\n" not in str(fault.value)
