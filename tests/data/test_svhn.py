"""SVHN as outliers: MATLAB's order of axes, the official file alone, faults named."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.io import savemat

from relearn.data import svhn
from relearn.data.outlier_images import Wanted, select_images
from relearn.data.outliers import outliers

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 3, 32, 32), np.uint8)


def write(path, **changes):
    """A file as the official one: X (32, 32, 3, N), y (N, 1) with 10 for the digit 0."""
    savemat(path, {"X": IMAGES.transpose(2, 3, 1, 0), "y": np.full((5, 1), 10, np.uint8)} | changes)
    return path


def test_each_pixel_has_its_place(tmp_path):
    found = svhn.read_mat(write(tmp_path / "a.mat"))
    assert found.dtype == np.uint8 and found.flags.c_contiguous
    np.testing.assert_array_equal(found, IMAGES)


def test_only_the_official_file_is_taken(tmp_path):
    with pytest.raises(ValueError, match=r"lacks test_32x32.mat"):
        outliers("svhn", size=32, channels=3, count=1, seed=0, folder=tmp_path)
    write(tmp_path / "test_32x32.mat")
    with pytest.raises(
        ValueError, match=r"test_32x32.mat: \d+ bytes, expected 64275384; not the official file"
    ):
        outliers("svhn", size=32, channels=3, count=1, seed=0, folder=tmp_path)


def test_its_images_become_outliers(tmp_path, monkeypatch):
    monkeypatch.setattr(svhn, "fault_of", lambda path, remote: "")
    write(tmp_path / "test_32x32.mat")
    made = outliers("svhn", size=32, channels=3, count=5, seed=0, folder=tmp_path)
    np.testing.assert_array_equal(made.images, IMAGES)
    assert made.words == "SVHN, the official test images; 5 of 5 images"
    grey = outliers("svhn", size=16, channels=1, count=2, seed=0, folder=tmp_path)
    expected = select_images("svhn", IMAGES, Wanted(16, 1, 2, seed=0), "")
    np.testing.assert_array_equal(grey.images, expected.images)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": IMAGES.astype(float).transpose(2, 3, 1, 0)}, r"X is float64 \(32, 32, 3, 5\); allowed: uint8"),
        ({"X": IMAGES}, r"X is uint8 \(5, 3, 32, 32\); allowed: uint8 \(32, 32, 3, N\)"),
    ],
)
def test_other_arrays_are_refused(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        svhn.read_mat(write(tmp_path / "a.mat", **change))


def test_other_files_are_refused_in_one_line(tmp_path):
    savemat(tmp_path / "b.mat", {"y": np.zeros(3)})
    with pytest.raises(ValueError, match="X is nothing; allowed"):
        svhn.read_mat(tmp_path / "b.mat")
    for content in (b"<html>no such page</html>" * 20, b""):
        (tmp_path / "c.mat").write_bytes(content)
        with pytest.raises(ValueError, match=r"c.mat: not a MATLAB file") as caught:
            svhn.read_mat(tmp_path / "c.mat")
        assert "\n" not in str(caught.value)


def test_offline_the_error_says_what_to_fetch_and_where_to_put_it(tmp_path, monkeypatch):
    monkeypatch.setenv("RELEARN_OFFLINE", "1")
    monkeypatch.setenv("RELEARN_CACHE", str(tmp_path))
    with pytest.raises(OSError, match=r"https://ufldl\.stanford\.edu/housenumbers/test_32x32\.mat") as caught:
        outliers("svhn", size=32, channels=3, count=1, seed=0)
    assert str(tmp_path / "test_32x32.mat") in str(caught.value)
