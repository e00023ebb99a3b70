"""Tasks by name: parts, kinds, metrics, numbers of samples; real files where they are at hand."""

import json
import os
from pathlib import Path

import pytest
import torch

from relearn.data import glue, imdb
from relearn.data.text_tasks import CHOICES, GLUE, KINDS, TASKS, metric_of, read

MIRROR = Path(os.environ.get("RELEARN_MIRROR", ""))
NONE = {"train": 0, "dev": 0, "test": 0}


def nowhere(name: str) -> Path | None:
    raise AssertionError(f"{name} was asked for")


def test_kind_and_metric_of_every_task_without_reading() -> None:
    for task in TASKS:
        kind, metric = metric_of(task)
        assert kind in KINDS and metric in ("accuracy", "mcc", "pearson")
        assert (kind == "ranking") == (task in CHOICES or task in ("qnli", "wnli"))
    for name, form, kind, metric in GLUE.values():
        assert metric == glue.TASKS[name].metrics[0]
        assert (kind == "regression") == (not glue.TASKS[name].words) and form == (
            "ranking" if kind == "ranking" else "pairs"
        )


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Small files of ARC, CommonsenseQA and Regents."""
    for part, count in (("Train", 5), ("Dev", 3), ("Test", 4)):
        for own in ("ARC-Easy", "ARC-Challenge"):
            path = tmp_path / "arc" / own / f"{own}-{part}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(
                "".join(question(f"{own}-{part}-{number}", "ABC", "B") for number in range(count))
            )
    (tmp_path / "csqa").mkdir()
    for name, key in (
        ("train_rand_split", "E"),
        ("dev_rand_split", "A"),
        ("test_rand_split_no_answers", None),
    ):
        (tmp_path / "csqa" / f"{name}.jsonl").write_text(question(name, "ABCDE", key))
    (tmp_path / "regents").mkdir()
    (tmp_path / "regents" / "train.jsonl").write_text(question("r", "1234", "2"))
    return tmp_path


def question(name: str, keys: str, key: str | None) -> str:
    choices = [{"label": one, "text": one} for one in keys]
    said = {
        "id": name,
        "question": {"stem": "Which?", "choices": choices},
        **({"answerKey": key} if key else {}),
    }
    return json.dumps(said) + "\n"


def test_questions_of_several_sets_are_read_with_their_candidates(folders: Path) -> None:
    def folder_of(name: str) -> Path | None:
        return folders / name

    easy, both = (read(name, {"train": 3, "dev": 0, "test": 2}, folder_of) for name in ("arc_easy", "arc"))
    assert (easy.kind, easy.classes, easy.metric) == ("ranking", 1, "accuracy")
    assert easy.train.ids == [f"ARC-Easy-Train-{number}" for number in (0, 1, 3)]
    assert both.train.ids == ["ARC-Easy-Train-0", "ARC-Easy-Train-3", "ARC-Challenge-Train-1"]
    assert len(easy.dev) == 3 and len(both.dev) == 6 and len(easy.test) == 2 and easy.test.labels is not None
    csqa = read("csqa", NONE, folder_of)
    assert csqa.test.labels is None
    assert csqa.train.rows[0][0] == ("Q: Which?", "A: A") and csqa.train.labels is not None
    regents = read("regents", {}, folder_of)
    assert len(regents.train) == 1 and not len(regents.dev) and not len(regents.test)
    for task in (easy, both, csqa, regents):
        assert str(folders) not in json.dumps(task.source) and "sha256" in task.source


def test_of_reviews_every_tenth_is_for_dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("train", "test"):
        lines = [f"{'neg' if number < 20 else 'pos'}\t{part} {number}" for number in range(40)]
        (tmp_path / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    real = imdb.load
    monkeypatch.setattr(imdb, "load", lambda folder: real(folder, count=40))
    found = read("imdb", {"train": 0, "dev": 2, "test": 4}, lambda name: tmp_path)
    assert [text for ((text, _),) in found.dev.rows] == ["train 9", "train 29"]
    assert len(found.train) == 36 and "train-9" not in found.train.ids
    assert found.test.ids == ["test-0", "test-10", "test-20", "test-30"]
    assert found.test.labels is not None and found.test.labels.tolist() == [0, 0, 1, 1]
    assert (found.kind, found.classes, found.metric) == ("classification", 2, "accuracy")


def test_samples_set_apart_are_not_trained_on(folders: Path) -> None:
    """The train part is spread over what is left, and the parts set apart do not depend on how many are trained on."""
    whole = read("arc_easy", NONE, folders.__truediv__)
    apart = read("arc_easy", {"held_out": 2}, folders.__truediv__)
    fewer = read("arc_easy", {"train": 1, "held_out": 2}, folders.__truediv__)
    assert apart.further["held_out"].ids == [whole.train.ids[0], whole.train.ids[2]]
    assert apart.train.ids == [whole.train.ids[place] for place in (1, 3, 4)]
    assert fewer.further["held_out"].ids == apart.further["held_out"].ids and len(fewer.train) == 1
    assert set(fewer.train.ids) <= set(apart.train.ids) and "held_out" not in whole.further
    with pytest.raises(ValueError, match=r"samples.held_out: 5 \(allowed: below the 5 training samples\)"):
        read("arc_easy", {"held_out": 5}, folders.__truediv__)
    with pytest.raises(ValueError, match=r"samples.held_out: 1 \(allowed for acceptability: 0\)"):
        read("acceptability", {"held_out": 1}, nowhere)


def test_damaged_sentences_need_no_folder() -> None:
    found = read("acceptability", {"train": 10, "dev": 4, "test": 4}, nowhere)
    assert [len(one) for one in (found.train, found.dev, found.test)] == [10, 4, 4]
    assert found.test.labels is not None
    assert (found.kind, found.classes, found.metric) == ("classification", 2, "accuracy")


@pytest.mark.skipif(not (MIRROR / "glue" / "glue" / "CoLA").is_dir(), reason="RELEARN_MIRROR has no GLUE")
@pytest.mark.parametrize(
    ("task", "sizes", "classes"),
    [
        ("cola", (8551, 1043), 2),
        ("rte", (2490, 277), 2),
        ("mrpc", (3668, 408), 2),
        ("stsb", (5749, 1500), 1),
        ("wnli_pairs", (635, 71), 2),
        ("wnli", None, 1),
    ],
)
def test_real_files_are_read_whole_and_thinned_evenly(
    task: str, sizes: tuple[int, int] | None, classes: int
) -> None:
    found = read(task, NONE, lambda name: MIRROR / name)
    some = read(task, {"train": 10, "dev": 5, "test": 0}, lambda name: MIRROR / name)
    assert found.classes == classes and "sha256" in found.source
    assert sizes is None or (len(found.train), len(found.dev)) == sizes
    assert some.train.ids == [found.train.ids[number * len(found.train) // 10] for number in range(10)]
    for part in (found.train, found.dev):
        assert part.labels is not None
        assert part.labels.dtype == (torch.float32 if task == "stsb" else torch.int64)
    assert all(len(rows) >= 2 for rows in found.dev.rows) == (task == "wnli")


def test_wrong_arguments_are_refused() -> None:
    for ask in (lambda: read("squad", NONE, nowhere), lambda: metric_of("squad")):
        with pytest.raises(ValueError, match=r"task: 'squad' \(allowed: cola, sst2, .*acceptability\)"):
            ask()
    with pytest.raises(ValueError, match=r"samples.dev: -1 \(allowed: at least 0, all of them\)"):
        read("acceptability", {"dev": -1}, nowhere)
    with pytest.raises(
        ValueError, match=r"samples.valid: no such part \(allowed: train, dev, test, held_out\)"
    ):
        read("acceptability", {"valid": 1}, nowhere)
