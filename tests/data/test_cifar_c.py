"""CIFAR-10-C's released arrays: severities are the fifths of a file, and what is no such file is refused in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from relearn.data.cifar_c import arrays
from relearn.data.corruptions import NAMES

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


def test_refusals(tmp_path: Path) -> None:
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
