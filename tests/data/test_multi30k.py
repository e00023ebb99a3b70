"""Multi30k: plain and packed folders are one corpus, faults named, the official addresses; the real copy."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from relearn.data import multi30k
from relearn.data.multi30k import LANGUAGES, OFFICIAL, STEMS, load, remote
from relearn.data.sentence_pairs import sha256_of

SIDES = {"de": "Ein Hund läuft.\nZwei  Äpfel \n", "en": "A dog runs.\nTwo apples\n"}


def folder(path: Path, *, packed: bool = False, **changes: bytes) -> Path:
    path.mkdir()
    for stem in STEMS.values():
        for language in LANGUAGES:
            content = changes.get(f"{stem}_{language}", SIDES[language].encode())
            if packed:
                (path / f"{stem}.{language}.gz").write_bytes(gzip.compress(content))
            else:
                (path / f"{stem}.{language}").write_bytes(content)
    return path


def test_lines_become_pairs(tmp_path: Path) -> None:
    got = load(folder(tmp_path / "plain"))
    wanted = [("Ein Hund läuft.", "A dog runs."), ("Zwei Äpfel", "Two apples")]
    assert got.train == got.valid == got.test == wanted and got.languages == ("de", "en")
    assert got.source["copy"] == "unknown"
    packed = load(folder(tmp_path / "packed", packed=True))
    assert packed.source["sha256"] == got.source["sha256"]


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    """A line separator inside a caption must not shift all that follow."""
    odd = "Ein\u2028Hund\x85 läuft\nZwei\n".encode()
    assert [a for a, _ in load(folder(tmp_path / "a", val_de=odd)).valid] == ["Ein Hund läuft", "Zwei"]


def test_faults_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"val: 3 sentences in de, 2 in en; allowed: equal numbers"):
        load(folder(tmp_path / "a", val_de=b"a\nb\nc\n"))
    with pytest.raises(ValueError, match=r"test_2016_flickr.en: not UTF-8 at byte 2"):
        load(folder(tmp_path / "b", test_2016_flickr_en=b"ab\xff\n"))
    with pytest.raises(ValueError, match=r"train: pair 1, en: ''; allowed: one line, not empty"):
        load(folder(tmp_path / "c", train_en=b"a\n \n"))
    (tmp_path / "a" / "train.de").unlink()
    with pytest.raises(ValueError, match=r"has neither train.de nor train.de.gz; allowed: one of them"):
        load(tmp_path / "a")
    whole = gzip.compress(SIDES["de"].encode() * 9)
    for content in (b"no gzip", whole[:-9], whole[:12] + b"\xff\xff" + whole[14:]):
        (tmp_path / "a" / "train.de.gz").write_bytes(content)
        with pytest.raises(ValueError, match=r"train.de.gz: not a gzip file, or truncated"):
            load(tmp_path / "a")


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = folder(tmp_path / "a", packed=True)
    monkeypatch.setattr(multi30k, "LARGEST", 20)
    with pytest.raises(ValueError, match=r"train.de.gz: more than 20 bytes of text"):
        load(place)


def test_without_a_folder_all_six_files_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = folder(tmp_path / "net", packed=True)
    asked = []

    def fetch(one):
        asked.append(one)
        return place / one.name.removeprefix("multi30k-")

    monkeypatch.setattr("relearn.data.download.fetch", fetch)
    got = load()
    assert {one.name for one in asked} == {f"multi30k-{name}.gz" for name in OFFICIAL} and len(asked) == 6
    assert got.source["from"].startswith("https://") and got.train == load(place).train
    for one in asked:
        assert all(url.startswith("https://") and url.endswith(one.name[9:]) for url in one.urls)


def test_offline_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEARN_CACHE", str(tmp_path))
    monkeypatch.setenv("RELEARN_OFFLINE", "1")
    with pytest.raises(OSError, match=r"multi30k-train.de.gz: RELEARN_OFFLINE is set; by hand: fetch https"):
        load()


MIRROR = Path(os.environ.get("RELEARN_MIRROR", ""), "multi30k")


@pytest.mark.skipif(
    "RELEARN_MIRROR" not in os.environ or not MIRROR.is_dir(),
    reason="RELEARN_MIRROR names no folder with the real Multi30k",
)
def test_the_real_copy() -> None:
    got = load(MIRROR)
    assert got.source["copy"] == "official"
    assert [len(part) for part in (got.train, got.valid, got.test)] == [29000, 1014, 1000]
    assert set(OFFICIAL) == {f"{stem}.{language}" for stem in STEMS.values() for language in LANGUAGES}
    # The languages are the right way round: articles of one are rare in the other.
    german, english = (" ".join(pair[side] for pair in got.test).lower().split() for side in (0, 1))
    assert german.count("ein") > 100 * english.count("ein") and english.count("the") > 100 * german.count(
        "the"
    )
    # The two official mirrors hold the same file as the one whose text is here.
    assert (
        sha256_of(got.test) == got.source["sha256"]["test"] and remote("val.de").size == OFFICIAL["val.de"][0]
    )
