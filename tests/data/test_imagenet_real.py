"""Reassessed labels: the official file as it is published, and each image's own classes wherever it lies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from relearn.data import download, imagenet_real
from relearn.data.imagenet_real import classes_of_files, load


def official(number: int, folder: str = "n0") -> Path:
    return Path(folder) / f"ILSVRC2012_val_{number:08d}.JPEG"


def written(path: Path, labels: object) -> Path:
    path.write_text(json.dumps(labels))
    return path


def test_the_official_file_comes_with_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEARN_OFFLINE", "1")
    real = load()
    assert len(real) == 50_000 and sum(not one for one in real) == 3163
    assert real[0] == frozenset() and real[1] == {970, 795} and max(map(max, filter(None, real))) == 999


def test_another_copy_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = written(tmp_path / "other.json", [[1]])
    monkeypatch.setattr(imagenet_real, "file_of_timm", lambda name: other)
    asked = []
    monkeypatch.setattr(download, "fetch", lambda remote: asked.append(remote) or other)
    assert load() == (frozenset({1}),) and asked == [imagenet_real.FILE]
    assert imagenet_real.FILE.urls[0].startswith("https://raw.githubusercontent.com/google-research/")


def test_names_say_which_image_it_is(tmp_path: Path) -> None:
    real = load(written(tmp_path / "real.json", [[], [5, 6], [7], [8]]))
    files = [official(4, "a"), official(2, "b"), official(1, "c")]  # class by class, not by name
    assert classes_of_files(files, real) == (frozenset({8}), frozenset({5, 6}), frozenset())
    with pytest.raises(ValueError, match="image 5: no labels; allowed: 1 to 4"):
        classes_of_files([official(5)], real)
    with pytest.raises(ValueError, match="image 0: no labels"):
        classes_of_files([official(1), official(0)], real)


def test_files_of_other_names_are_in_the_order_of_their_names(tmp_path: Path) -> None:
    real = load(written(tmp_path / "real.json", [[0], [1], [2]]))
    files = [Path("z/b.png"), Path("y/c.png"), Path("x/a.png")]
    assert classes_of_files(files, real) == (frozenset({1}), frozenset({2}), frozenset({0}))
    for wrong in (files[:2], [*files[:2], Path("w/b.png")], []):
        with pytest.raises(ValueError, match="allowed: names as ILSVRC2012_val_00000001"):
            classes_of_files(wrong, real)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"a": 1}, "a list with a list of class numbers"),
        ([], "a list with a list of class numbers"),
        ([[1], 2], "a list with a list of class numbers"),
        ([[1], [-2]], "-2 among the classes"),
        ([["1"]], "'1' among the classes"),
        ([[True]], "True among the classes"),
    ],
)
def test_what_is_no_list_of_classes_is_refused(tmp_path: Path, labels: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        load(written(tmp_path / "real.json", labels))


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("[[1], ")
    with pytest.raises(ValueError, match=r"real.json: not a JSON text"):
        load(tmp_path / "real.json")
