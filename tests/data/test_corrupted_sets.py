"""CIFAR-10-C's released arrays: severities are the fifths of a file, and what is no such file is refused in one line.

ImageNet-C's folders: every (corruption, severity) that is asked for, in groups or without, nothing else.
"""

from pathlib import Path

import numpy as np
import pytest

from relearn.data.cifar_c import arrays
from relearn.data.corruptions import LEVELS, NAMES
from relearn.data.imagenet_c import EXTRA, GROUPS, corrupted_folders

COUNT = 4  # images at each severity; 10,000 in the released files


def official(folder: Path, classes: int = 10) -> Path:
    """The layout of the archive: 15 corruptions and 4 more, labels five times over."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in (*NAMES, "saturate"):
        np.save(folder / f"{name}.npy", rng.integers(0, 256, (5 * COUNT, 32, 32, 3), np.uint8))
    np.save(folder / "labels.npy", np.tile(rng.integers(0, classes, COUNT), 5))
    return folder


def test_a_severity_is_a_fifth_of_the_file(tmp_path: Path) -> None:
    folder = official(tmp_path / "CIFAR-10-C")
    found = arrays(folder)
    assert found.names == NAMES and found.levels == (1, 2, 3, 4, 5)
    whole = np.load(folder / "fog.npy")
    for level in found.levels:
        images, labels = found.part("fog", level)
        assert images.shape == (COUNT, 3, 32, 32)
        assert np.array_equal(images.transpose(0, 2, 3, 1), whole[COUNT * (level - 1) : COUNT * level])
        assert np.array_equal(labels, np.load(folder / "labels.npy")[:COUNT])
    some = arrays(folder, names=["snow", "fog"], levels=[3, 1])
    assert some.names == ("snow", "fog") and some.levels == (1, 3), "the usual order"


def test_cifar_c_refusals(tmp_path: Path) -> None:
    folder = official(tmp_path / "CIFAR-10-C")
    for asked, said in (
        ({"names": ["fogs"]}, "corruption 'fogs' is unknown"),
        ({"levels": [6]}, "severity is 6; allowed: 1, 2, 3, 4, 5"),
    ):
        with pytest.raises(ValueError, match=said):
            arrays(folder, **asked)
    np.save(folder / "fog.npy", np.zeros((3, 32, 32, 3), np.uint8))
    with pytest.raises(
        ValueError, match=r"fog.npy: uint8 \(3, 32, 32, 3\); allowed: uint8 \(20, 32, 32, 3\)"
    ):
        arrays(folder).part("fog", 1)
    (folder / "fog.npy").write_text("no array")
    with pytest.raises(ValueError, match=r"fog.npy: not an array of numbers"):
        arrays(folder).part("fog", 1)
    (folder / "fog.npy").unlink()
    with pytest.raises(ValueError, match=r"no file fog.npy; allowed: labels.npy and <corruption>.npy"):
        arrays(folder)
    np.save(folder / "labels.npy", np.zeros(7, int))
    with pytest.raises(ValueError, match=r"labels.npy: int64 \(7,\); allowed: integers, \(5 n,\)"):
        arrays(folder, names=[])


def made(path: Path, names=NAMES, levels=LEVELS) -> Path:
    for name in names:
        for level in levels:
            (path / name / str(level) / "n01440764").mkdir(parents=True)
    return path


def test_every_pair_is_its_own_folder(tmp_path: Path) -> None:
    found = corrupted_folders(made(tmp_path))
    assert list(found) == [(name, level) for name in NAMES for level in LEVELS]
    assert all(place == tmp_path / name / str(level) for (name, level), place in found.items())


def test_groups_of_the_archives_may_stand_in_between(tmp_path: Path) -> None:
    made(tmp_path / "noise", NAMES[:3])
    made(tmp_path / "extra", EXTRA)
    made(tmp_path, NAMES[3:])
    (tmp_path / ".cache").mkdir()
    (tmp_path / "README").write_text("no folder")
    found = corrupted_folders(tmp_path)
    assert list(found) == [(name, level) for name in NAMES for level in LEVELS]
    assert found["shot_noise", 2] == tmp_path / "noise/shot_noise/2" and found["fog", 5] == tmp_path / "fog/5"
    assert not set(EXTRA) & set(NAMES) and not set(GROUPS) & set(NAMES + EXTRA)


def test_some_of_them_in_the_usual_order(tmp_path: Path) -> None:
    made(tmp_path, ("snow", "fog", "shot_noise"), (1, 3, 5))
    found = corrupted_folders(tmp_path, names=("fog", "shot_noise"), severities=(5, 1))
    assert list(found) == [("shot_noise", 1), ("shot_noise", 5), ("fog", 1), ("fog", 5)]


def test_imagenet_c_refusals(tmp_path: Path) -> None:
    made(tmp_path / "some", ("fog",), (1, 2))
    made(tmp_path / "odd", ("fogg",))
    for where, given, said in (
        ("some", {"names": ("fogs",)}, "corruption 'fogs' is unknown; did you mean 'fog'"),
        ("some", {"names": ("fog",), "severities": (0,)}, "severity is 0; allowed: 1, 2, 3, 4, 5"),
        ("some", {"names": ("fog",)}, "fog: no folder 3; allowed: severities 1, 2, 3, 4, 5"),
        ("some", {"names": ("fog", "snow"), "severities": (1,)}, "some: no folder snow; allowed: all of"),
        ("odd", {"names": ("fog",)}, "fogg: 'fogg' is not a corruption; did you mean 'fog'"),
    ):
        with pytest.raises(ValueError, match=said) as told:
            corrupted_folders(tmp_path / where, **given)
        assert "\n" not in str(told.value)
