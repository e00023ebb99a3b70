"""The prepared characters: text → ids → text, train alone makes the vocabulary, counts are those of a slow count."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.data.characters import UNKNOWN, PreparedCharacters, load_characters, prepare, save_characters
from relearn.data.sentence_pairs import PARTS
from relearn.data.text_lines import Text, load_text

BOS, EOS, UNK = 1, 2, 3
LINES = {
    "train": ["the <unk> sold N shares", "so it is", "a b c", "zebra", "x"],
    "valid": ["the <unk>", "is so"],
    "test": ["an äpfel", "N N", "the zebra", "sold shares of it"],
}


def text(**changes: list[str]) -> Text:
    return Text(**(LINES | changes), source={})


def made(max_length: int = 100, **counts: int) -> tuple[PreparedCharacters, dict[str, float]]:
    return prepare(text(), name="some", max_length=max_length, **counts)


def lines_of(prepared: PreparedCharacters, part: str) -> list[str]:
    ragged = prepared.part(part)
    return [prepared.decode(ragged[i].tolist()) for i in range(len(ragged))]


def test_ids_give_every_line_back(tmp_path: Path) -> None:
    save_characters(made()[0], tmp_path / "characters.safetensors")
    got = load_characters(tmp_path / "characters.safetensors")
    assert (got.dataset, got.max_length, got.characters) == ("some", 100, made()[0].characters)
    for part in PARTS:
        assert got.part(part).ids.dtype == torch.int32 and got.part(part).offsets.dtype == torch.int64
        assert got.arrays[f"{part}_ids"].dtype == np.uint8
    assert lines_of(got, "train") == LINES["train"] and lines_of(got, "valid") == LINES["valid"]
    unseen = str.maketrans(dict.fromkeys("äpf", UNKNOWN))
    assert lines_of(got, "test") == [line.translate(unseen) for line in LINES["test"]]
    again = tmp_path / "again.safetensors"
    save_characters(made()[0], again)
    assert again.read_bytes() == (tmp_path / "characters.safetensors").read_bytes()
    umask = os.umask(0)
    os.umask(umask)
    assert again.stat().st_mode & 0o777 == 0o666 & ~umask


def test_the_vocabulary_is_that_of_train() -> None:
    got, metrics = made()
    assert got.characters == " <>Nabcdehiklnorstuxz"  # code points in order; written out by hand
    assert got.vocabulary == metrics["vocabulary_count"] == 4 + len(got.characters)
    assert got.encode("a<") == [4 + got.characters.index("a"), 4 + got.characters.index("<")]
    other = prepare(text(valid=["ÄÖÜ"], test=["ß"]), name="some", max_length=100)[0]
    assert other.characters == got.characters
    # The control: in train they count.
    assert "ß" in prepare(text(train=["ß"]), name="some", max_length=100)[0].characters


def test_the_rare_word_is_five_characters() -> None:
    got = made()[0]
    assert len(got.encode("<unk>")) == 5 and got.decode(got.encode("<unk>")) == "<unk>"
    assert UNK not in got.encode("<unk>"), "the word of the treebank is no unknown character"


def test_characters_outside_the_vocabulary_are_unknown() -> None:
    got, metrics = made()
    ids = got.part("test")[0].tolist()
    wanted = "an äpfel"
    assert [one == UNK for one in ids] == [c in "äpf" for c in wanted] and len(ids) == len(wanted)
    assert got.decode(ids) == f"an {UNKNOWN}{UNKNOWN}{UNKNOWN}el"
    held = [c for part in ("valid", "test") for line in LINES[part] for c in line]
    assert metrics["unknown_frac"] == pytest.approx(4 / len(held))  # ä, p, f, and the f of "of"


def test_decoding_ends_at_the_end() -> None:
    got = made()[0]
    a = got.encode("a")
    assert got.decode([BOS, *a, EOS, *a, 0]) == "a" and got.decode([0, *a]) == "a" and got.decode([]) == ""
    for one in (-1, got.vocabulary):
        with pytest.raises(ValueError, match=f"id is {one}; allowed: 0 to {got.vocabulary - 1}"):
            got.decode([one])


def test_long_lines_go_from_every_part() -> None:
    got, metrics = made(max_length=8)
    kept = {part: [line for line in lines if len(line) <= 8] for part, lines in LINES.items()}
    assert kept["train"] == ["so it is", "a b c", "zebra", "x"] and len(kept["test"]) == 2
    left = {part: len(LINES[part]) - len(kept[part]) for part in PARTS}
    assert (
        {part: metrics[f"{part}_left_out_count"] for part in PARTS}
        == left
        == {"train": 1, "valid": 1, "test": 2}
    )
    assert metrics["left_out_frac"] == 4 / 11 and metrics["longest_count"] == 8 == got.max_length
    assert [len(line) for line in lines_of(got, "test")] == [len(line) for line in kept["test"]]
    assert "k" not in got.characters, "the line that had it is no part of train"
    assert made()[1]["left_out_frac"] == 0 and made()[1]["longest_count"] == 23


def test_subsets_are_evenly_spaced_among_those_that_stay() -> None:
    got, metrics = made(max_length=8, train_sentences=2, test_sentences=1, valid_sentences=9)
    assert lines_of(got, "train") == ["so it is", "zebra"] and lines_of(got, "valid") == ["is so"]
    assert metrics["train_sentences_count"] == 2 and metrics["train_characters_count"] == len("so it iszebra")
    assert metrics["test_sentences_count"] == metrics["valid_sentences_count"] == 1
    assert metrics["left_out_frac"] == 4 / 11, "what a subset does not take is not left out"
    assert "c" not in got.characters


@given(
    st.lists(
        st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=9), min_size=1, max_size=6
    ),
    st.lists(
        st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=9), min_size=1, max_size=6
    ),
    st.integers(0, 4),
)
@settings(max_examples=40)
def test_any_text_goes_there_and_back(train: list[str], test: list[str], count: int) -> None:
    got, metrics = prepare(
        Text(train, test, test, {}), name="any", max_length=9, train_sentences=count, test_sentences=count
    )
    used = [train[i * len(train) // count] for i in range(count)] if 0 < count < len(train) else train
    known = set("".join(used))
    assert set(got.characters) == known and list(got.characters) == sorted(known)
    assert lines_of(got, "valid") == ["".join(c if c in known else UNKNOWN for c in line) for line in test]
    for line in test:
        assert got.encode(line) == [4 + got.characters.index(c) if c in known else UNK for c in line]
    assert metrics["valid_characters_count"] == sum(map(len, test)) == len(got.part("valid").ids)


def test_many_characters_take_wider_ids(tmp_path: Path) -> None:
    for count, kind in ((252, np.uint8), (253, np.int16)):
        alphabet = "".join(map(chr, range(0x4E00, 0x4E00 + count)))
        got = prepare(text(train=[alphabet]), name="wide", max_length=count)[0]
        assert got.arrays["train_ids"].dtype == kind and got.vocabulary == 4 + count
        save_characters(got, tmp_path / "wide.safetensors")
        assert lines_of(load_characters(tmp_path / "wide.safetensors"), "train") == [alphabet]


def test_faults(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="part is 'dev'; allowed: train, valid, test"):
        made()[0].part("dev")
    with pytest.raises(ValueError, match="max_length is 0; allowed: 1 or more"):
        made(max_length=0)
    with pytest.raises(ValueError, match="max_length is 2; allowed: at least 5, valid's shortest line"):
        made(max_length=2)
    for part in PARTS:
        with pytest.raises(ValueError, match=rf"{part}_sentences is -1; allowed: 0 \(all\) or more"):
            made(**{f"{part}_sentences": -1})
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    path = tmp_path / "other.safetensors"
    save_file({"images": np.zeros(3)}, path)
    with pytest.raises(
        ValueError,
        match=r"other.safetensors: not a prepared text, text, characters, max_length, train_ids",
    ):
        load_characters(path)
    path.write_bytes(b"cut")
    with pytest.raises(SafetensorError, match=r"other.safetensors: .*relearn l2_attention prepare_ptb_lines"):
        load_characters(path)


def test_the_real_treebank(mirror: Callable[..., Path]) -> None:
    raw = load_text("ptb", folder=mirror("ptb"))
    got, metrics = prepare(raw, name="ptb", max_length=288)
    wanted = {"train": (41740, 4868454, 328), "valid": (3356, 385082, 14), "test": (3735, 430371, 26)}
    for part, counts in wanted.items():
        kinds = ("sentences", "characters", "left_out")
        assert tuple(metrics[f"{part}_{kind}_count"] for kind in kinds) == counts
    assert metrics["vocabulary_count"] == 53 and metrics["unknown_frac"] == 0
    assert lines_of(got, "test") == [line for line in raw.test if len(line) <= 288]
