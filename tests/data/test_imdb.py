"""IMDb: both forms give the same reviews; what is no IMDb is refused in one line."""

import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from relearn.data import imdb
from relearn.data.imdb import load

TEXTS = {"train": ["dull", "bad…<br />", "fine", "great\n!"], "test": ["a", "b", "c", "d"]}


def tables(folder: Path, texts: dict[str, list[str]] = TEXTS) -> Path:
    for part, rows in texts.items():
        kinds = ["neg"] * (len(rows) // 2) + ["pos"] * (len(rows) - len(rows) // 2)
        lines = [f"{kind}\t{row}\n".replace("great\n", "great ") for kind, row in zip(kinds, rows)]
        (folder / f"{part}.tsv").write_text("".join(lines), encoding="utf-8")
    return folder


def archive(folder: Path, texts: dict[str, list[str]] = TEXTS) -> Path:
    files = {
        "aclImdb/README": "read me",
        "aclImdb/train/unsup/0_0.txt": "x",
        "aclImdb/train/labeledBow.feat": "1",
    }
    for part, rows in texts.items():
        # As file systems list them, 10 comes before 9: numbers are what counts.
        for number, (kind, row) in enumerate(zip(("neg", "neg", "pos", "pos"), rows), 9):
            files[f"aclImdb/{part}/{kind}/{number}_{3 if kind == 'neg' else 8}.txt"] = row
    with tarfile.open(folder / "aclImdb_v1.tar.gz", "w:gz") as tar:
        for name in sorted(files):
            content = files[name].encode()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return folder


def official(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """Take a file for the official archive."""
    found = {"size": file.stat().st_size, "md5": hashlib.md5(file.read_bytes()).hexdigest()}
    monkeypatch.setattr(imdb, "ARCHIVE", replace(imdb.ARCHIVE, **found))


def test_both_forms_hold_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    official(monkeypatch, archive(tmp_path / "a") / imdb.ARCHIVE.name)
    from_tables, from_archive = load(tables(tmp_path), count=4), load(tmp_path / "a", count=4)
    assert from_archive.train.texts == TEXTS["train"] and from_archive.train.labels == [0, 0, 1, 1]
    assert from_tables.train.texts == ["dull", "bad…<br />", "fine", "great !"]
    assert from_tables.test == from_archive.test
    assert from_tables.source["sha256"]["test"] == from_archive.source["sha256"]["test"]
    assert from_tables.source["sha256"]["train"] != from_archive.source["sha256"]["train"]
    assert "aclImdb" in from_archive.source["from"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("good\tyes\n", "line 1: 'good"),
        ("neg yes\n", "line 1: 'neg yes'; allowed: neg or pos, a tab and a text"),
        ("neg\t\n", "line 1"),
        ("neg\ta\nneg\tb\npos\tc\npos\td\npos\te\n", "train: 5 reviews, 3 of them positive; allowed: 4, 2"),
        ("neg\ta\nneg\tb\nneg\tc\npos\td\n", "train: 4 reviews, 1 of them positive; allowed: 4, 2"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, line: str, said: str) -> None:
    tables(tmp_path)
    (tmp_path / "train.tsv").write_text(line)
    with pytest.raises(ValueError, match=said) as fault:
        load(tmp_path, count=4)
    assert "\n" not in str(fault.value)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has neither train.tsv nor aclImdb_v1.tar.gz"):
        load(tmp_path)
    tables(tmp_path)
    (tmp_path / "test.tsv").unlink()
    with pytest.raises(ValueError, match=r"test.tsv: missing"):
        load(tmp_path, count=4)
    (tmp_path / "test.tsv").write_bytes(b"neg\t\xff\n")
    with pytest.raises(ValueError, match="not UTF-8 at byte 4"):
        load(tmp_path, count=4)


def test_offline_the_archive_is_named(offline: Path) -> None:
    with pytest.raises(OSError, match=r"aclImdb_v1.tar.gz.*ai.stanford.edu") as fault:
        load()
    assert imdb.ARCHIVE.md5 in str(fault.value)


def test_an_archive_that_is_not_the_official_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bytes, expected 84125825; not the official archive"):
        load(archive(tmp_path), count=4)


def test_an_archive_without_reviews_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tarfile.open(tmp_path / imdb.ARCHIVE.name, "w:gz"):
        pass
    official(monkeypatch, tmp_path / imdb.ARCHIVE.name)
    with pytest.raises(ValueError, match="train: 0 reviews, 0 of them positive; allowed: 4, 2"):
        load(tmp_path, count=4)
