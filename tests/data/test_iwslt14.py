"""IWSLT'14: the recipe's cuts on text made for them, archive and files alike, faults named; the partial copy."""

import html
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relearn.data.iwslt14 import (
    EVERY,
    LANGUAGES,
    TEST,
    TESTS,
    TRAIN,
    filter_pairs,
    load,
    segment_pairs,
    split_valid,
    training_pairs,
)

TALK = "<url>http://x</url>\n<keywords>a, b</keywords>\n<talkid>1</talkid>\n<title>{}</title>\n<description>{}</description>\n"


def xml(sentences: list[str]) -> str:
    segments = "\n".join(
        f'<seg id="{i}"> {html.escape(s, quote=False)} </seg>' for i, s in enumerate(sentences, 1)
    )
    return f'<?xml version="1.0"?>\n<mteval><doc docid="1"><title>No Sentence</title>\n{segments}\n</doc></mteval>\n'


def files() -> dict[str, bytes]:
    """Two talks of 40 lines, numbered, so that each sentence says where it stood."""
    made = {}
    for language, name in zip(LANGUAGES, TRAIN):
        talks = [
            TALK.format(f"Title {language} {talk}", f"About {language} {talk}")
            + "".join(f" Line {language} {talk} {i}. \n" for i in range(40))
            for talk in range(2)
        ]
        made[name] = "".join(talks).encode()
    for name in TEST:
        language = name.split(".")[-2]
        made[name] = xml([f"{name.split('.')[2]} {language} it’s {i} & more" for i in range(3)]).encode()
    return made


def folder(path: Path, content: dict[str, bytes]) -> Path:
    path.mkdir(parents=True)
    for name, one in content.items():
        (path / name).write_bytes(one)
    return path


def test_the_parts_of_the_recipe(tmp_path: Path) -> None:
    got = load(folder(tmp_path / "a", files()))
    wanted = [
        (f"{say} de {talk}{end}", f"{say} en {talk}{end}")
        for talk in range(2)
        for say, end in [("title", ""), ("about", ""), *(("line", f" {i}.") for i in range(40))]
    ]
    assert got.valid == wanted[22::23] and got.train == [
        pair for i, pair in enumerate(wanted) if i % 23 != 22
    ]
    assert len(got.test) == 3 * len(TESTS)
    assert got.test[0] == ("dev2010 de it's 0 & more", "dev2010 en it's 0 & more")
    assert [pair[0].split()[0] for pair in got.test[::3]] == [name.split(".")[1] for name in TESTS]
    assert got.source["pairs"]["train"] == {"here": len(got.train), "published": 160239}


def test_archive_and_files_are_one_corpus(tmp_path: Path) -> None:
    place = tmp_path / "archive"
    place.mkdir()
    with tarfile.open(place / "de-en.tgz", "w:gz") as tar:
        for name, content in files().items():
            member = tarfile.TarInfo(f"de-en/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    plain, below = load(folder(tmp_path / "a", files())), tmp_path / "b"
    folder(below / "de-en", files())
    assert load(place).source["sha256"] == plain.source["sha256"] == load(below).source["sha256"]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=12))
def test_pairs_too_unequal_go(lengths: list) -> None:
    pairs = [(" ".join(["a"] * m), " ".join(["b"] * n)) for m, n in lengths]
    wanted = [i for i, (m, n) in enumerate(lengths) if m and n and 2 * m <= 3 * n and 2 * n <= 3 * m]
    assert filter_pairs(pairs) == [pairs[i] for i in wanted]


def test_long_pairs_go_and_marks_count_as_words() -> None:
    for count, stays in ((175, True), (176, False)):
        pair = (" ".join(["a"] * count), " ".join(["b"] * 170))
        assert filter_pairs([pair]) == ([pair] if stays else [])
    assert filter_pairs([("a, b!", "a b")]) == [] != filter_pairs([("a, b", "a b")])


@given(st.integers(0, 100))
def test_every_23rd_pair_is_valid(count: int) -> None:
    pairs = [(str(i), str(i)) for i in range(1, count + 1)]
    train, valid = split_valid(pairs)
    assert [int(a) for a, _ in valid] == [i for i in range(1, count + 1) if i % EVERY == 0]
    assert sorted(train + valid) == sorted(pairs)


def test_sides_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="x: 2 lines in de, 1 in en; allowed: equal numbers"):
        training_pairs("a\nb\n", "a\n", name="x")
    with pytest.raises(ValueError, match="x: line 2 is about the talk in one language"):
        training_pairs("a\n<url>u</url>\n", "a\nb\n", name="x")
    with pytest.raises(ValueError, match="x: 2 segments in de, 1 in en"):
        segment_pairs(xml(["a", "b"]), xml(["a"]), name="x")
    with pytest.raises(ValueError, match="x: 0 segments in de, 0 in en"):
        segment_pairs("", "", name="x")
    with pytest.raises(ValueError, match=r"train.tags.de-en.en: not UTF-8 at byte 0"):
        load(folder(tmp_path / "a", files() | {TRAIN[1]: b"\xff"}))


def test_what_is_missing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        OSError, match=r"iwslt14: not downloaded automatically.*fetch https://.*de-en.tgz.* and put it at"
    ):
        load()
    content = files()
    del content[TEST[3]]
    with pytest.raises(
        ValueError, match=r"lacks IWSLT14.TEDX.dev2012.de-en.en.xml; required: de-en.tgz or its files"
    ):
        load(folder(tmp_path / "a", content))


def test_the_partial_copy_cannot_train(mirror: Callable[..., Path]) -> None:
    with pytest.raises(
        ValueError, match=r"lacks train.tags.de-en.de.*valid_test.de-en.tsv has valid and test only"
    ):
        load(mirror("iwslt14", "valid_test.de-en.tsv").parent)
