"""CIFAR-100 as outliers: the official records byte by byte, arrays, faults named; the real copy.

SVHN as outliers: MATLAB's order of axes, the official file alone, faults named.
"""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from relearn.data import cifar100, svhn
from relearn.data.outlier_images import Wanted, select_images
from relearn.data.outliers import outliers

COUNT = 6
CIFAR100 = np.random.default_rng(0).integers(0, 256, (COUNT, 32, 32, 3), np.uint8)


def record(image: np.ndarray, coarse: int, fine: int) -> bytes:
    """One record as the data set's page describes it: two labels; red, green, blue, each row by row."""
    pixels = (int(image[y, x, c]) for c in range(3) for y in range(32) for x in range(32))
    return bytes([coarse, fine, *pixels])


def pack(path: Path, content: bytes, name: str = "test.bin") -> Path:
    with tarfile.open(path, "w:gz") as tar:
        member = tarfile.TarInfo(f"cifar-100-binary/{name}")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return path


CONTENT = b"".join(record(image, 19 - n, 99 - n) for n, image in enumerate(CIFAR100))


def test_the_archive_gives_each_pixel_its_place(tmp_path):
    found = cifar100.read_archive(pack(tmp_path / "a.tar.gz", CONTENT), count=COUNT)
    np.testing.assert_array_equal(found.transpose(0, 2, 3, 1), CIFAR100)


def test_arrays_are_the_same_images(tmp_path):
    np.save(tmp_path / "images.npy", CIFAR100)
    found, words = cifar100.load(tmp_path)
    np.testing.assert_array_equal(found.transpose(0, 2, 3, 1), CIFAR100)
    assert words.startswith("images.npy, sha256 ")
    np.save(tmp_path / "test_images.npy", CIFAR100[::-1])  # goes before
    np.testing.assert_array_equal(cifar100.load(tmp_path)[0].transpose(0, 2, 3, 1), CIFAR100[::-1])


def test_outliers_are_these_images_in_the_form_asked_for(tmp_path):
    np.save(tmp_path / "images.npy", CIFAR100)
    asked = {"count": 4, "seed": 1, "folder": tmp_path}
    made = outliers("cifar100", size=32, channels=3, **asked)
    every = {image.tobytes() for image in CIFAR100.transpose(0, 3, 1, 2).copy()}
    assert len({image.tobytes() for image in made.images} & every) == 4
    small = outliers("cifar100", size=8, channels=1, **asked)
    assert small.images.shape == (4, 1, 8, 8)
    assert small.words.endswith("4 of 6 images, made grey (BT.601), averaged down from 32 to 8 pixels")
    with pytest.raises(ValueError, match=r"cifar100: images of 32 x 32 pixels for a network of 64 x 64"):
        outliers("cifar100", size=64, channels=3, **asked)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.astype(float), r"images.npy: float64 \(6, 32, 32, 3\); allowed: uint8 \(N, 32, 32, 3\)"),
        (lambda a: a.transpose(0, 3, 1, 2), r"images.npy: uint8 \(6, 3, 32, 32\); allowed"),
        (lambda a: a[:0], r"images.npy: uint8 \(0, 32, 32, 3\); allowed"),
        (lambda a: np.array([None], object), "not a plain array, or truncated"),
    ],
)
def test_cifar100_other_arrays_are_refused(tmp_path, change, message):
    np.save(tmp_path / "images.npy", change(CIFAR100), allow_pickle=True)
    with pytest.raises(ValueError, match=message) as caught:
        cifar100.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_faults_of_the_archive_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"test.bin has 18443 bytes, 6 records have 18444"):
        cifar100.read_archive(pack(tmp_path / "a.tar.gz", CONTENT[:-1]), count=COUNT)
    with pytest.raises(ValueError, match=r"lacks cifar-100-binary/test.bin"):
        cifar100.read_archive(pack(tmp_path / "b.tar.gz", CONTENT, "train.bin"), count=COUNT)
    with pytest.raises(
        ValueError, match=r"has none of test_images.npy, images.npy and cifar-100-binary.tar.gz"
    ):
        cifar100.load(tmp_path)
    pack(tmp_path / "cifar-100-binary.tar.gz", CONTENT)
    with pytest.raises(ValueError, match="expected 168513733; not the official archive"):
        cifar100.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "address", "file"),
    [
        ("cifar100", r"https://www\.cs\.toronto\.edu.*cifar-100-binary\.tar\.gz", "cifar-100-binary.tar.gz"),
        ("svhn", r"https://ufldl\.stanford\.edu/housenumbers/test_32x32\.mat", "test_32x32.mat"),
    ],
)
def test_offline_the_error_says_what_to_fetch_and_where_to_put_it(offline, name, address, file):
    with pytest.raises(OSError, match=address) as caught:
        outliers(name, size=32, channels=3, count=1, seed=0)
    assert str(offline / file) in str(caught.value)


def test_the_real_images(mirror):
    found, words = cifar100.load(mirror("cifar100_ood", "images.npy").parent)
    assert found.shape == (10000, 3, 32, 32)
    assert words == "a class-balanced 10,000 of all 60,000"
    # the mean of each channel over all 60,000 images, within 5 standard errors of a sample of images
    each = found.mean((2, 3)) / 255
    error = each.std(0) / 100
    assert (np.abs(each.mean(0) - [0.5074, 0.4867, 0.4411]) < 5 * error).all()


SVHN = np.random.default_rng(0).integers(0, 256, (5, 3, 32, 32), np.uint8)


def write(path, **changes):
    """A file as the official one: X (32, 32, 3, N), y (N, 1) with 10 for the digit 0."""
    savemat(path, {"X": SVHN.transpose(2, 3, 1, 0), "y": np.full((5, 1), 10, np.uint8)} | changes)
    return path


def test_each_pixel_has_its_place(tmp_path):
    found = svhn.read_mat(write(tmp_path / "a.mat"))
    assert found.dtype == np.uint8 and found.flags.c_contiguous
    np.testing.assert_array_equal(found, SVHN)


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
    np.testing.assert_array_equal(made.images, SVHN)
    assert made.words == "SVHN, the official test images; 5 of 5 images"
    grey = outliers("svhn", size=16, channels=1, count=2, seed=0, folder=tmp_path)
    expected = select_images("svhn", SVHN, Wanted(16, 1, 2, seed=0), "")
    np.testing.assert_array_equal(grey.images, expected.images)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": SVHN.astype(float).transpose(2, 3, 1, 0)}, r"X is float64 \(32, 32, 3, 5\); allowed: uint8"),
        ({"X": SVHN}, r"X is uint8 \(5, 3, 32, 32\); allowed: uint8 \(32, 32, 3, N\)"),
    ],
)
def test_svhn_other_arrays_are_refused(tmp_path, change, message):
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
