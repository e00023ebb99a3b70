"""The five sets by their official layouts, on small files of our own; forms, documents, archives, bad input."""

import hashlib
import json
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relearn.data.choices import (
    Question,
    Questions,
    arc,
    csqa,
    documents,
    examples,
    openbookqa,
    race,
    regents,
)
from relearn.data.choices.questions import sha256_of


def question(
    name: str, keys: Sequence[str] = "ABCD", key: str | None = "B", stem: str = "Which"
) -> dict[str, Any]:
    choices = [{"label": one, "text": f"{name} {one}"} for one in keys]
    answer = {} if key is None else {"answerKey": key}
    return {"id": name, "question": {"stem": stem, "choices": choices}, **answer}


def put(path: Path, *lines: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")


@pytest.fixture
def arc_folder(tmp_path: Path) -> Path:
    for own in ("ARC-Easy", "ARC-Challenge"):
        for part in ("Train", "Dev", "Test"):
            name = f"{own}-{part}"
            put(
                tmp_path / own / f"{name}.jsonl",
                question(f"{name}-0"),
                question(f"{name}-1", "12345", "5"),
                question(f"{name}-2", "ABC", "A"),
            )
    return tmp_path


def zipped(folder: Path, path: Path, root: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for one in sorted(folder.rglob("*.jsonl")):
            archive.write(one, f"{root}/{one.relative_to(folder).as_posix()}")
    return path


def as_official(monkeypatch: pytest.MonkeyPatch, module: Any, path: Path) -> None:
    content = path.read_bytes()
    fits = replace(module.ARCHIVE, size=len(content), sha256=hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(module, "ARCHIVE", fits)


def test_arc_easy_challenge_and_both(arc_folder: Path) -> None:
    easy, both = arc.load(arc_folder, sets=("easy",)), arc.load(arc_folder)
    challenge = arc.load(arc_folder, sets=("challenge",))
    for part in ("train", "dev", "test"):
        assert getattr(both, part) == getattr(easy, part) + getattr(challenge, part)
    assert [one.answer for one in easy.train] == [1, 4, 0]
    assert easy.source["questions"] == {"train": 3, "dev": 3, "test": 3} and easy.source["counts"] == "other"
    assert set(easy.source["sha256"].values()) == {
        sha256_of(getattr(easy, one)) for one in ("train", "dev", "test")
    }
    assert str(arc_folder) not in json.dumps(both.source)
    samples = examples(both.train)
    assert [len(rows) for rows in samples.rows] == [4, 5, 3, 4, 5, 3]
    assert samples.rows[2][1] == ("Which ARC-Easy-Train-2 B", None)
    assert samples.labels is not None and samples.labels.tolist() == [1, 4, 0] * 2


def test_arc_from_its_archive(
    arc_folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path_factory.mktemp("other")
    path = zipped(arc_folder, other / arc.ARCHIVE.name, arc.ROOT)
    with pytest.raises(ValueError, match=r"expected 680841265; not the official archive"):
        arc.load(other)
    as_official(monkeypatch, arc, path)
    found = arc.load(other)
    assert found.train == arc.load(arc_folder).train and found.source["from"] == "ARC-V1-Feb2018.zip"
    bad = other / arc.ARCHIVE.name
    bad.write_bytes(bad.read_bytes()[:-30])
    as_official(monkeypatch, arc, bad)
    with pytest.raises(ValueError, match="not a complete zip archive"):
        arc.load(other)


def test_an_archive_without_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "in" / "train.jsonl", question("q"))
    as_official(
        monkeypatch, openbookqa, zipped(tmp_path / "in", tmp_path / openbookqa.ARCHIVE.name, openbookqa.ROOT)
    )
    with pytest.raises(ValueError, match=r"lacks OpenBookQA-V1-Sep2018/Data/Main/dev.jsonl"):
        openbookqa.load(tmp_path)


@pytest.mark.parametrize("place", ["", "Data/Main", "OpenBookQA-V1-Sep2018/Data/Main"])
def test_openbookqa_is_read_from_both_of_its_places(tmp_path: Path, place: str) -> None:
    for part in ("train", "dev", "test"):
        put(tmp_path / place / f"{part}.jsonl", question(f"{part}-0", key="D", stem="The sun is"))
    found = openbookqa.load(tmp_path)
    assert found.dev[0].answer == 3
    assert examples(found.dev).rows == [[(f"The sun is dev-0 {key}", None) for key in "ABCD"]]


def test_commonsenseqa_keeps_its_test_answers_back(tmp_path: Path) -> None:
    for part, name in csqa.FILES.items():
        put(tmp_path / name, question(f"{part}-0", "ABCDE", None if part == "test" else "E", "Where?"))
    found = csqa.load(tmp_path)
    train, test = examples(found.train, "prefixed"), examples(found.test, "prefixed")
    assert train.rows == [[("Q: Where?", f"A: train-0 {key}") for key in "ABCDE"]]
    assert train.labels is not None and train.labels.tolist() == [4] and test.labels is None
    (tmp_path / csqa.FILES["dev"]).unlink()
    with pytest.raises(ValueError, match=r"dev_rand_split.jsonl: missing \(allowed: a file\)"):
        csqa.load(tmp_path)


def test_regents_may_have_a_training_part_only(tmp_path: Path) -> None:
    put(tmp_path / "train.jsonl", question("r1", "1234", "4"))
    found = regents.load(tmp_path)
    assert found.train[0].answer == 3 and not found.dev and not found.test
    for folder in (None, tmp_path / "nothing"):
        with pytest.raises(ValueError, match="there is no official file"):
            regents.load(folder)


ARTICLE = {
    "id": "high2.txt",
    "article": "Tom had\n a dog.  It was old.",
    "questions": ["Tom had  _  .", "What was old?"],
    "options": [["a cat", "a dog", "tea", "no"], ["Tom", "it", "he", "she"]],
    "answers": ["B", "B"],
}


@pytest.fixture
def race_folder(tmp_path: Path) -> Path:
    for part in ("train", "dev", "test"):
        for name in ("high/2", "middle/10", "high/1", "middle/9"):
            put(tmp_path / "RACE" / part / f"{name}.txt", ARTICLE)
    return tmp_path


def test_race_has_its_questions_in_the_order_of_its_articles(
    race_folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = race.load(race_folder)
    articles = ("middle/9", "middle/10", "high/1", "high/2")
    assert [one.id for one in found.train] == [f"{name}/{place}" for name in articles for place in (0, 1)]
    samples = examples(found.dev)
    passage = "Tom had a dog. It was old."
    assert samples.rows[0][1] == (passage, "Tom had a dog .")
    assert samples.rows[1][2] == (passage, "What was old? he")
    assert samples.labels is not None and samples.labels.tolist() == [1, 1] * 4
    other = tmp_path_factory.mktemp("other")
    with tarfile.open(other / race.ARCHIVE.name, "w:gz") as archive:
        archive.add(race_folder / "RACE", "RACE")
    as_official(monkeypatch, race, other / race.ARCHIVE.name)
    assert race.load(other).test == found.test


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"article": ""}, "article is '' (allowed: a text)"),
        ({"answers": ["B"]}, "questions, options, answers do not match"),
        ({"questions": None}, "questions, options, answers do not match"),
        ({"answers": ["B", "E"]}, "question 2: answer 'E' (allowed: A, B, C, D)"),
        ({"options": [["a", "b"], ["c"]]}, "question 2: options ['c'] (allowed: texts, at least 2)"),
        ({"questions": ["", "b"]}, "question 1: '' (allowed: a text)"),
    ],
)
def test_damaged_articles_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as fault:
        race.parse(json.dumps(ARTICLE | changes).encode(), "train/high/2.txt")
    assert str(fault.value).startswith(f"train/high/2.txt: {said}")


def test_articles_that_are_no_json_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^train/high/2.txt: not JSON in UTF-8 .* \(allowed: an object\)$"):
        race.parse(b"\xff", "train/high/2.txt")


def test_retrieved_documents_precede_the_question(arc_folder: Path) -> None:
    name = "ARC-Easy-Train-0"
    put(
        arc_folder / documents.NAME,
        {"id": name, "documents": ["for\nall"]},
        {"id": name, "label": "C", "documents": [f"d{number}" for number in range(12)]},
        {"id": "nobody asks", "documents": ["x"]},
    )
    found = arc.load(arc_folder)
    rows = examples(found.train).rows
    ten = " ".join(f"d{number}" for number in range(10))
    assert [first for first, _ in rows[0]] == ["for all", "for all", ten, "for all"]
    assert [second for _, second in rows[0]] == [f"Which {name} {key}" for key in "ABCD"]
    assert rows[1][0] == ("Which ARC-Easy-Train-1 1", None)
    assert found.source["documents"] and sha256_of(found.train) != sha256_of(
        [replace(one, passages=()) for one in found.train]
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"id": 1, "documents": []}, "id 1, label None (allowed: texts, or no label)"),
        ({"id": "a", "documents": "text"}, "documents text (allowed: a list of texts)"),
        ([], "id None"),
        (
            {"id": "ARC-Easy-Train-0", "label": "E", "documents": []},
            "label 'E' of 'ARC-Easy-Train-0' (allowed: A, B, C, D)",
        ),
        ({"id": "good", "documents": []}, "documents of 'good', label None, twice (allowed: one line)"),
    ],
)
def test_damaged_documents_are_refused(arc_folder: Path, line: Any, said: str) -> None:
    put(arc_folder / documents.NAME, {"id": "good", "documents": ["x"]}, line)
    with pytest.raises(ValueError) as fault:
        arc.load(arc_folder)
    assert f"documents.jsonl: line 2: {said}" in str(fault.value)


def test_wrong_arguments_are_refused(arc_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(ValueError, match=r"sets: hard \(allowed: easy, challenge\)"):
        arc.load(arc_folder, sets=("hard",))
    empty = tmp_path_factory.mktemp("empty")
    for load, said in (
        (arc.load, "has no ARC-Easy/ARC-Easy-Train.jsonl and no ARC-V1-Feb2018.zip"),
        (openbookqa.load, "has no train.jsonl and no OpenBookQA-V1-Sep2018.zip"),
        (race.load, "has no train/middle and no RACE.tar.gz"),
    ):
        with pytest.raises(ValueError, match=said):
            load(empty)
    (arc_folder / "ARC-Easy" / "ARC-Easy-Dev.jsonl").unlink()
    with pytest.raises(ValueError, match=r"ARC-Easy-Dev.jsonl: missing"):
        arc.load(arc_folder)
    known = Question("a", "b", ("c", "d"), ("A", "B"), 0)
    unknown = replace(known, id="u", answer=None)
    for train, dev, test, said in (
        ([], [], [], "train: no questions"),
        ([unknown], [], [], "train: question u has no answer"),
        ([known], [unknown], [], "dev: question u has no answer"),
        ([known], [], [known, unknown], "test: question u has no answer"),
    ):
        with pytest.raises(ValueError, match=said):
            Questions(train, dev, test, {})
    with pytest.raises(ValueError, match=r"form: 'free' \(allowed: joined, prefixed\)"):
        examples([known], "free")
