"""Penn Treebank: both namings are one text, faults named, the addresses; the real copy. All sentences here are made up."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from relearn.data.ptb import OFFICIAL, load, remote

# The official form: lower case, N for numbers, <unk> for rare words, a blank on either side.
LINES = {
    "train": [" the <unk> sold N shares for $ N \n", " it is n't so \n", " a b \n"],
    "valid": [" a <unk> n't \n"],
    "test": [" mr. <unk> 's dog \n", " N \n"],
}


def folder(path: Path, *, prefix: str = "", **changes: bytes) -> Path:
    path.mkdir()
    for part, lines in LINES.items():
        (path / f"{prefix}{part}.txt").write_bytes(changes.get(part, "".join(lines).encode()))
    return path


def test_lines_become_sentences(tmp_path: Path) -> None:
    got = load(folder(tmp_path / "a"))
    assert got.train == ["the <unk> sold N shares for $ N", "it is n't so", "a b"]
    assert got.valid == ["a <unk> n't"] and got.test == ["mr. <unk> 's dog", "N"]
    assert got.source["copy"] == "unknown" and got.source["from"] == "a folder with the text files"
    wanted = hashlib.sha256("".join(LINES["test"]).encode()).hexdigest()
    assert got.source["sha256_of_files"]["test"] == wanted
    other = load(folder(tmp_path / "b", prefix="ptb."))
    assert other == got
    # Where both stand, the plain name counts; the last line may lack its end.
    (tmp_path / "b" / "valid.txt").write_bytes(b" other")
    assert load(tmp_path / "b").valid == ["other"]


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    """A line break other than a line feed is reported as an error and does not start a new sentence."""
    with pytest.raises(ValueError, match=r"train: line 0: 'a\\x85b'; allowed: one line"):
        load(folder(tmp_path / "a", train=" a\x85b \n c \n".encode()))
    assert load(folder(tmp_path / "b", train=b" a \r\n b \r\n")).train == ["a", "b"]


def test_blanks_inside_a_sentence_stay(tmp_path: Path) -> None:
    assert load(folder(tmp_path / "a", train=b" a  b \n")).train == ["a  b"]


def test_faults_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"valid.txt: not UTF-8 at byte 3; allowed: UTF-8 text"):
        load(folder(tmp_path / "a", valid=b" ab\xff\n"))
    with pytest.raises(ValueError, match=r"test: line 1: ''; allowed: one line, not empty"):
        load(folder(tmp_path / "b", test=b" a \n \n b \n"))
    (tmp_path / "b" / "train.txt").unlink()
    with pytest.raises(ValueError, match=r"b: has neither train.txt nor ptb.train.txt; allowed: one of them"):
        load(tmp_path / "b")


def test_without_a_folder_all_three_files_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = folder(tmp_path / "net", prefix="ptb.")
    asked = []

    def fetch(one):
        asked.append(one)
        return place / one.name

    monkeypatch.setattr("relearn.data.download.fetch", fetch)
    got = load()
    assert [one.name for one in asked] == ["ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"]
    assert got.source["from"].startswith("https://") and got.train == load(place).train
    for one, part in zip(asked, ("train", "valid", "test")):
        assert (one.size, one.sha256) == OFFICIAL[part] and one == remote(part)
        assert len(one.urls) == 2
        assert all(url.startswith("https://") and url.endswith(f"{part}.txt") for url in one.urls)


def test_offline_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEARN_CACHE", str(tmp_path))
    monkeypatch.setenv("RELEARN_OFFLINE", "1")
    with pytest.raises(OSError, match=r"ptb.train.txt: RELEARN_OFFLINE is set; by hand: fetch https"):
        load()


MIRROR = Path(os.environ.get("RELEARN_MIRROR", ""), "ptb")


@pytest.mark.skipif(
    "RELEARN_MIRROR" not in os.environ or not MIRROR.is_dir(),
    reason="RELEARN_MIRROR names no folder with the real Penn Treebank",
)
def test_the_real_copy() -> None:
    got = load(MIRROR)
    assert got.source["copy"] == "official"
    parts = {"train": got.train, "valid": got.valid, "test": got.test}
    assert [len(lines) for lines in parts.values()] == [42068, 3370, 3761]
    for part, lines in parts.items():
        # Exactly a blank on either side went: sizes agree with the official files'.
        assert sum(len(line.encode()) + 3 for line in lines) == OFFICIAL[part][0]
    words = [line.split() for line in got.train]
    assert sum(map(len, words)) == 887521 and len(set().union(*words)) == 9999
    assert sum(line.count("<unk>") for line in words) == 45020
    assert max(map(len, got.train)) == 518 and got.train[0].isascii()
