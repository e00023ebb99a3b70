"""Multi30k: plain and packed folders are one corpus, faults named, the official addresses; the real copy.

Penn Treebank: both namings are one text, faults named, the addresses; the real copy. All sentences here are made up.
"""

import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from relearn.data import multi30k, ptb
from relearn.data.sentence_pairs import sha256_of

SIDES = {"de": "Ein Hund läuft.\nZwei  Äpfel \n", "en": "A dog runs.\nTwo apples\n"}


def multi30k_folder(path: Path, *, packed: bool = False, **changes: bytes) -> Path:
    path.mkdir()
    for stem in multi30k.STEMS.values():
        for language in multi30k.LANGUAGES:
            content = changes.get(f"{stem}_{language}", SIDES[language].encode())
            if packed:
                (path / f"{stem}.{language}.gz").write_bytes(gzip.compress(content))
            else:
                (path / f"{stem}.{language}").write_bytes(content)
    return path


def test_lines_become_pairs(tmp_path: Path) -> None:
    got = multi30k.load(multi30k_folder(tmp_path / "plain"))
    wanted = [("Ein Hund läuft.", "A dog runs."), ("Zwei Äpfel", "Two apples")]
    assert got.train == got.valid == got.test == wanted and got.languages == ("de", "en")
    assert got.source["copy"] == "unknown"
    packed = multi30k.load(multi30k_folder(tmp_path / "packed", packed=True))
    assert packed.source["sha256"] == got.source["sha256"]


def test_multi30k_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    """A line separator inside a caption must not shift all that follow."""
    odd = "Ein\u2028Hund\x85 läuft\nZwei\n".encode()
    assert [a for a, _ in multi30k.load(multi30k_folder(tmp_path / "a", val_de=odd)).valid] == [
        "Ein Hund läuft",
        "Zwei",
    ]


def test_multi30k_faults_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"val: 3 sentences in de, 2 in en; allowed: equal numbers"):
        multi30k.load(multi30k_folder(tmp_path / "a", val_de=b"a\nb\nc\n"))
    with pytest.raises(ValueError, match=r"test_2016_flickr.en: not UTF-8 at byte 2"):
        multi30k.load(multi30k_folder(tmp_path / "b", test_2016_flickr_en=b"ab\xff\n"))
    with pytest.raises(ValueError, match=r"train: pair 1, en: ''; allowed: one line, not empty"):
        multi30k.load(multi30k_folder(tmp_path / "c", train_en=b"a\n \n"))
    (tmp_path / "a" / "train.de").unlink()
    with pytest.raises(ValueError, match=r"has neither train.de nor train.de.gz; allowed: one of them"):
        multi30k.load(tmp_path / "a")
    whole = gzip.compress(SIDES["de"].encode() * 9)
    for content in (b"no gzip", whole[:-9], whole[:12] + b"\xff\xff" + whole[14:]):
        (tmp_path / "a" / "train.de.gz").write_bytes(content)
        with pytest.raises(ValueError, match=r"train.de.gz: not a gzip file, or truncated"):
            multi30k.load(tmp_path / "a")


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = multi30k_folder(tmp_path / "a", packed=True)
    monkeypatch.setattr(multi30k, "LARGEST", 20)
    with pytest.raises(ValueError, match=r"train.de.gz: more than 20 bytes of text"):
        multi30k.load(place)


@pytest.mark.parametrize(
    ("module", "file"), [(multi30k, "multi30k-train.de.gz"), (ptb, "ptb.train.txt")], ids=["multi30k", "ptb"]
)
def test_offline_says_what_to_do(offline: Path, module: ModuleType, file: str) -> None:
    with pytest.raises(OSError, match=f"{file}: RELEARN_OFFLINE is set; by hand: fetch https"):
        module.load()


def test_multi30k_the_real_copy(mirror: Callable[..., Path]) -> None:
    got = multi30k.load(mirror("multi30k"))
    assert got.source["copy"] == "official"
    assert [len(part) for part in (got.train, got.valid, got.test)] == [29000, 1014, 1000]
    assert set(multi30k.OFFICIAL) == {
        f"{stem}.{language}" for stem in multi30k.STEMS.values() for language in multi30k.LANGUAGES
    }
    # The languages are the right way round: articles of one are rare in the other.
    german, english = (" ".join(pair[side] for pair in got.test).lower().split() for side in (0, 1))
    assert german.count("ein") > 100 * english.count("ein") and english.count("the") > 100 * german.count(
        "the"
    )
    # The two official mirrors hold the same file as the one whose text is here.
    assert (
        sha256_of(got.test) == got.source["sha256"]["test"]
        and multi30k.remote("val.de").size == multi30k.OFFICIAL["val.de"][0]
    )


# The official form: lower case, N for numbers, <unk> for rare words, a blank on either side.
LINES = {
    "train": [" the <unk> sold N shares for $ N \n", " it is n't so \n", " a b \n"],
    "valid": [" a <unk> n't \n"],
    "test": [" mr. <unk> 's dog \n", " N \n"],
}


def ptb_folder(path: Path, *, prefix: str = "", **changes: bytes) -> Path:
    path.mkdir()
    for part, lines in LINES.items():
        (path / f"{prefix}{part}.txt").write_bytes(changes.get(part, "".join(lines).encode()))
    return path


def test_lines_become_sentences(tmp_path: Path) -> None:
    got = ptb.load(ptb_folder(tmp_path / "a"))
    assert got.train == ["the <unk> sold N shares for $ N", "it is n't so", "a b"]
    assert got.valid == ["a <unk> n't"] and got.test == ["mr. <unk> 's dog", "N"]
    assert got.source["copy"] == "unknown" and got.source["from"] == "a folder with the text files"
    wanted = hashlib.sha256("".join(LINES["test"]).encode()).hexdigest()
    assert got.source["sha256_of_files"]["test"] == wanted
    other = ptb.load(ptb_folder(tmp_path / "b", prefix="ptb."))
    assert other == got
    # Where both stand, the plain name counts; the last line may lack its end.
    (tmp_path / "b" / "valid.txt").write_bytes(b" other")
    assert ptb.load(tmp_path / "b").valid == ["other"]


def test_ptb_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    """A line break other than a line feed is reported as an error and does not start a new sentence."""
    with pytest.raises(ValueError, match=r"train: line 0: 'a\\x85b'; allowed: one line"):
        ptb.load(ptb_folder(tmp_path / "a", train=" a\x85b \n c \n".encode()))
    assert ptb.load(ptb_folder(tmp_path / "b", train=b" a \r\n b \r\n")).train == ["a", "b"]


def test_blanks_inside_a_sentence_stay(tmp_path: Path) -> None:
    assert ptb.load(ptb_folder(tmp_path / "a", train=b" a  b \n")).train == ["a  b"]


def test_ptb_faults_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"valid.txt: not UTF-8 at byte 3; allowed: UTF-8 text"):
        ptb.load(ptb_folder(tmp_path / "a", valid=b" ab\xff\n"))
    with pytest.raises(ValueError, match=r"test: line 1: ''; allowed: one line, not empty"):
        ptb.load(ptb_folder(tmp_path / "b", test=b" a \n \n b \n"))
    (tmp_path / "b" / "train.txt").unlink()
    with pytest.raises(ValueError, match=r"b: has neither train.txt nor ptb.train.txt; allowed: one of them"):
        ptb.load(tmp_path / "b")


@pytest.mark.parametrize("module", [multi30k, ptb], ids=["multi30k", "ptb"])
def test_without_a_folder_all_files_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType
) -> None:
    if module is multi30k:
        place, names = (
            multi30k_folder(tmp_path / "net", packed=True),
            [f"{one}.gz" for one in multi30k.OFFICIAL],
        )
    else:
        place, names = ptb_folder(tmp_path / "net", prefix="ptb."), [f"ptb.{one}.txt" for one in ptb.OFFICIAL]
    asked = []

    def fetch(one):
        asked.append(one)
        return place / one.name.removeprefix("multi30k-")

    monkeypatch.setattr("relearn.data.download.fetch", fetch)
    got = module.load()
    assert sorted(one.name.removeprefix("multi30k-") for one in asked) == sorted(names)
    assert got.source["from"].startswith("https://") and got.train == module.load(place).train
    for one in asked:
        end = one.name.removeprefix("multi30k-").removeprefix("ptb.")
        assert all(url.startswith("https://") and url.endswith(end) for url in one.urls)
    if module is ptb:
        for one, part in zip(asked, ("train", "valid", "test")):
            assert (one.size, one.sha256) == ptb.OFFICIAL[part] and one == ptb.remote(part)
            assert len(one.urls) == 2


def test_ptb_the_real_copy(mirror: Callable[..., Path]) -> None:
    got = ptb.load(mirror("ptb"))
    assert got.source["copy"] == "official"
    parts = {"train": got.train, "valid": got.valid, "test": got.test}
    assert [len(lines) for lines in parts.values()] == [42068, 3370, 3761]
    for part, lines in parts.items():
        # Exactly a blank on either side went: sizes agree with the official files'.
        assert sum(len(line.encode()) + 3 for line in lines) == ptb.OFFICIAL[part][0]
    words = [line.split() for line in got.train]
    assert sum(map(len, words)) == 887521 and len(set().union(*words)) == 9999
    assert sum(line.count("<unk>") for line in words) == 45020
    assert max(map(len, got.train)) == 518 and got.train[0].isascii()
