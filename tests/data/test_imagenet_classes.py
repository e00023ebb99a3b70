"""Folders and outputs: numbers are numbers, identifiers keep their place in ImageNet, other names need all classes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from relearn.data.imagenet_classes import file_of_timm, identifiers, label_by_class
from relearn.data.imagenet_folder import listing


def folder(path: Path, names: list[str], each: int = 1) -> Path:
    for name in names:
        (path / name).mkdir(parents=True)
        for number in range(each):
            Image.new("RGB", (4, 4)).save(path / name / f"{number}.png")
    return path


def labels(found) -> dict[str, set[int]]:
    told: dict[str, set[int]] = {}
    for path, label in zip(found.files, found.labels.tolist()):
        told.setdefault(path.parent.name, set()).add(label)
    return told


def test_numbers_are_no_text(tmp_path: Path) -> None:
    names = [str(number) for number in range(101)]
    found = label_by_class(folder(tmp_path, names, each=2), classes=1000)
    assert labels(found) == {name: {int(name)} for name in names} and len(found) == 202
    assert found.classes[100] == "100" and found.classes[999] == ""
    assert labels(listing(tmp_path))["2"] == {13}, "as text 0, 1, 10, 100, 11, …: the trap"


def test_numbers_with_leading_noughts_and_gaps(tmp_path: Path) -> None:
    assert labels(label_by_class(folder(tmp_path, ["007", "12", "003"]), classes=13)) == {
        "003": {3},
        "007": {7},
        "12": {12},
    }


def test_identifiers_keep_their_number_where_folders_are_missing(tmp_path: Path) -> None:
    every = identifiers()
    assert len(every) == len(set(every)) == 1000 and list(every) == sorted(every)
    assert every[0] == "n01440764" and every[999] == "n15075141"
    found = label_by_class(folder(tmp_path, [every[999], every[1], every[500]]), classes=1000)
    assert labels(found) == {every[999]: {999}, every[1]: {1}, every[500]: {500}}


def test_other_names_are_numbered_alphabetically_if_all_are_there(tmp_path: Path) -> None:
    path = folder(tmp_path, ["cat", "ant", "n01440764"])
    assert labels(label_by_class(path, classes=3)) == {"ant": {0}, "cat": {1}, "n01440764": {2}}
    with pytest.raises(ValueError, match="3 class folders; allowed: 4, or folders named by number"):
        label_by_class(path, classes=4)


def test_identifiers_of_a_network_of_few_classes_are_names_like_others(tmp_path: Path) -> None:
    path = folder(tmp_path, [identifiers()[7], identifiers()[3]])
    assert labels(label_by_class(path, classes=2)) == {identifiers()[3]: {0}, identifiers()[7]: {1}}


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="class 10; allowed: 0 to 9"):
        label_by_class(folder(tmp_path / "a", ["0", "10"]), classes=10)
    with pytest.raises(ValueError, match="two folders for one number"):
        label_by_class(folder(tmp_path / "b", ["1", "01"]), classes=10)


def test_files_of_timm_are_found_without_its_import() -> None:
    assert file_of_timm("imagenet_synsets.txt").is_file()
    assert not file_of_timm("no such file").exists()


def test_real_folders_keep_their_numbers(mirror: Callable[..., Path], tmp_path: Path) -> None:
    every = listing(mirror("imagenet_sample_derived"))
    found = label_by_class(mirror("imagenet_sample_derived"), classes=1000)
    assert found.labels.tolist() == every.labels.tolist() and found.classes == every.classes == identifiers()
    for name in ("n01484850", "n15075141"):
        (tmp_path / name).symlink_to(mirror("imagenet_sample_derived") / name)
    assert labels(label_by_class(tmp_path, classes=1000)) == {"n01484850": {2}, "n15075141": {999}}
