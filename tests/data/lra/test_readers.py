"""Readers of the tasks' own files (reviews, pairs of papers, images) and the one door to all tasks."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from relearn.data import digits, imdb
from relearn.data.evenly_spaced import evenly_spaced, evenly_spaced_places, evenly_spaced_rows
from relearn.data.images import Images
from relearn.data.lra import PARTS, TASKS, images, retrieval, task, text
from relearn.data.lra.samples import Samples, Task

ALL = dict.fromkeys(PARTS, 0)


@given(count=st.integers(0, 200), wanted=st.integers(0, 300))
def test_samples_are_evenly_spaced(count: int, wanted: int) -> None:
    found = evenly_spaced_places(count, wanted)
    assert (
        evenly_spaced_rows(range(count), wanted)
        == evenly_spaced(torch.arange(count), wanted).tolist()
        == found
    )
    assert len(found) == len(set(found)) == (min(wanted, count) if wanted else count)
    assert all(0 <= one < count for one in found)
    if found:
        gaps = np.diff([*found, count + found[0]])
        assert gaps.max() - gaps.min() <= 1


# reviews


def reviews(folder: Path, count: int = 40) -> Path:
    for part in ("train", "test"):
        rows = [f"{'neg' if i < count // 2 else 'pos'}\t{part} {i}: nice…<br />\n" for i in range(count)]
        (folder / f"{part}.tsv").write_text("".join(rows), encoding="utf-8")
    return folder


def test_every_tenth_training_review_is_for_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imdb, "load", partial(imdb.load, count=40))
    made = text.make("imdb", ALL, max_length=8, folder=reviews(tmp_path))
    rows = {part: [row.decode() for row in getattr(made, part).rows] for part in PARTS}
    assert rows["valid"] == [f"train {i}: nice…<br />" for i in (9, 19, 29, 39)]
    assert rows["train"] == [f"train {i}: nice…<br />" for i in range(40) if i % 10 != 9]
    assert rows["test"] == [f"test {i}: nice…<br />" for i in range(40)]
    assert made.train.labels == [0] * 18 + [1] * 18 and made.valid.labels == [0, 0, 1, 1]
    fewer = text.make("imdb", {"train": 6, "valid": 2, "test": 4}, max_length=8, folder=tmp_path)
    assert [sum(getattr(fewer, part).labels) for part in PARTS] == [3, 1, 2]


# pairs of papers


def table(path: Path, *rows: str) -> None:
    path.write_bytes("".join(row + "\n" for row in rows).encode())


def test_papers_are_read_in_their_published_form(tmp_path: Path) -> None:
    table(tmp_path / "new_aan_pairs.train.tsv", "1.0\tA1\tB2\tone paper\tits source", "0.0\tA\tB\tü\t\"q' x")
    table(tmp_path / "new_aan_pairs.eval.tsv", "0\tA\tB\tx\ty")
    table(tmp_path / "new_aan_pairs.test.tsv", "1\tA\tB\tx\ty\r")
    made = retrieval.make("aan", ALL, max_length=3, folder=tmp_path)
    assert made.train == Samples([b"one paper", b"its source", "ü".encode(), b"\"q' x"], [1, 0])
    assert made.valid == Samples([b"x", b"y"], [0]) and made.test == Samples([b"x", b"y"], [1])
    assert made.pairs and made.written


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("1.0\tA\tB\tx", "line 2: 4 columns; allowed: 5"),
        ("yes\tA\tB\tx\ty", "line 2: label 'yes'"),
        ("1.0\tA\tB\t\ty", "line 2: label '1.0'; allowed: 0 or 1, and two texts"),
        ("", "line 2: 1 columns"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, row: str, said: str) -> None:
    table(tmp_path / "t.tsv", "1.0\tA\tB\tx\ty", row)
    with pytest.raises(ValueError, match=said):
        retrieval.read(tmp_path / "t.tsv")


def test_papers_want_a_folder(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"no folder; required: \$RELEARN_MIRROR/aan .* new_aan_pairs.eval.tsv"
    ):
        retrieval.make("aan", ALL, max_length=3)
    with pytest.raises(FileNotFoundError):
        retrieval.make("aan", ALL, max_length=3, folder=tmp_path)


# images


def test_grey_is_the_weighted_mean() -> None:
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (5, 3, 4, 6), dtype=np.uint8)
    got = images.grey(pixels)
    weighed = (pixels.astype(float) * np.array([0.299, 0.587, 0.114])[None, :, None, None]).sum(1)
    assert np.abs(got.reshape(5, 4, 6) - weighed).max() <= 0.5 + 1e-9
    one = images.grey(pixels[:, :1])
    assert (one == pixels[:, 0].reshape(5, 24)).all()
    assert (images.grey(np.full((1, 3, 2, 2), 255, np.uint8)) == 255).all()


def test_digits_are_in_one_part_each() -> None:
    made = task.make("image", "digits", samples=ALL, max_length=64)
    found = digits.load()
    rows = {part: getattr(made, part).rows for part in PARTS}
    assert sum(map(len, rows.values())) == 1797
    assert rows["valid"] == [found.train_images[i].tobytes() for i in range(7, 1797, 10)]
    assert rows["test"][:2] == [found.train_images[i].tobytes() for i in (8, 9)]
    assert made.test.labels[:2] == found.train_labels[8:10].tolist()
    assert made.values == 256 and made.classes == 10


def test_an_official_test_part_stays_the_test_part(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.arange(20, dtype=np.uint8)[:, None, None, None].repeat(3, 1).repeat(2, 2).repeat(2, 3)
    monkeypatch.setattr(
        images.data,
        "load",
        lambda name, folder: Images(
            train_images=pixels,
            train_labels=np.arange(20) % 2,
            test_images=pixels[:4] + 100,
            test_labels=np.array([0, 1, 1, 0]),
            class_names=("a", "b"),
            source={},
        ),
    )
    made = images.make("cifar10", {"train": 6, "valid": 0, "test": 0})
    assert [row[0] for row in made.train.rows] == [0, 3, 6, 9, 12, 15]
    assert [row[0] for row in made.valid.rows] == [18, 19]
    assert [row[0] for row in made.test.rows] == [100, 101, 102, 103] and made.test.labels == [0, 1, 1, 0]


# the one door


def test_every_task_has_its_data_sets() -> None:
    assert tuple(task.DATASETS) == TASKS
    for name, form in (
        ("listops", {"min_length": 5, "max_length": 40, "max_depth": 3}),
        ("pathfinder", {"size": 16, "dashes": 3, "distractors": 0}),
    ):
        made = task.make(name, "generated", samples=dict.fromkeys(PARTS, 4), max_length=30, seed=3, form=form)
        assert made.name == name and made.source["seed"] == 3 and len(made.test.labels) == 4


@pytest.mark.parametrize(
    ("name", "dataset", "changes", "said"),
    [
        ("speech", "imdb", {}, "task is 'speech'; allowed: listops"),
        ("text", "aan", {}, "dataset is 'aan'; allowed for text: imdb, python"),
        ("text", "python", {"samples": {"train": 1}}, "samples: found train"),
        ("text", "python", {"max_length": 0}, "max_length is 0"),
        ("text", "python", {"form": {"size": 3}}, "form: found size"),
        ("listops", "generated", {"form": {"size": 3}}, "form: .*'size'"),
        ("pathfinder", "generated", {"form": {"sise": 3}}, "form: .*'sise'"),
        ("image", "digits", {"samples": {"train": -1, "valid": 1, "test": 1}}, "samples is -1"),
    ],
)
def test_impossible_requests_are_refused(name: str, dataset: str, changes: dict, said: str) -> None:
    arguments = {"samples": dict.fromkeys(PARTS, 4), "max_length": 30, **changes}
    with pytest.raises(ValueError, match=said) as fault:
        task.make(name, dataset, **arguments)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"values": 257}, "257 values"),
        ({"test": Samples([], [])}, "test has no samples"),
        ({"pairs": True}, "train has 1 sequences; allowed: 2"),
        ({"train": Samples([b""], [0])}, "train: sequence 0"),
        ({"train": Samples([b"\x03"], [0])}, "values below 3"),
        ({"valid": Samples([b"\x00"], [2])}, "valid: a label outside 0 to 1"),
    ],
)
def test_samples_are_checked(changes: dict, said: str) -> None:
    one = Samples([b"\x02\x01"], [1])
    arguments = {"values": 3, "classes": 2, **dict.fromkeys(PARTS, one), **changes}
    with pytest.raises(ValueError, match=said):
        Task("listops", "generated", **arguments)
