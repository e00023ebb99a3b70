"""The digits: equal to scikit-learn's own loader; grey values survive; a wrong file is refused."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from relearn import data
from relearn.data import digits


def test_equal_to_load_digits() -> None:
    from sklearn.datasets import load_digits

    ours, theirs = data.load("digits"), load_digits()
    assert ours.train_images.shape == (1797, 1, 8, 8)
    np.testing.assert_array_equal(ours.train_labels, theirs.target)
    np.testing.assert_array_equal(np.rint(ours.train_images[:, 0] * (16 / 255)), theirs.images)
    assert [int(name) for name in ours.class_names] == list(theirs.target_names)
    assert ours.test_images is None and ours.train_exact.all()


def test_8_bit_pixels_are_the_nearest_and_lose_nothing() -> None:
    grey = np.arange(17)
    pixels = digits.to_8bit(grey)
    assert (np.abs(pixels - grey * 255 / 16) <= 0.5).all()
    assert pixels[0] == 0 and pixels[16] == 255 and pixels[8] == 128
    np.testing.assert_array_equal(np.rint(pixels * (16 / 255)), grey)


def rows(path: Path) -> list[str]:
    with gzip.open(path, "rt") as file:
        return file.readlines()


def write(folder: Path, lines: list[str]) -> Path:
    with gzip.open(folder / digits.FILE, "wt") as file:
        file.writelines(lines)
    return folder


def test_a_copy_elsewhere_is_as_good(tmp_path: Path) -> None:
    good = rows(digits._shipped() / digits.FILE)
    copy = data.load("digits", folder=write(tmp_path, good))
    np.testing.assert_array_equal(copy.train_images, data.load("digits").train_images)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: [*r[:3], r[3].replace("15", "14"), *r[4:]], "sha256 of the images"),
        (lambda r: r[:-1], "sha256 of the images"),
        (lambda r: [r[0].replace(",0\n", ",7\n"), *r[1:]], "sha256 of the labels"),
        (lambda r: [line.replace("16", "17") for line in r], "allowed: 64 grey values 0 to 16"),
        (lambda r: [line.rstrip() + ",0\n" for line in r], "rows hold 66 numbers"),
        (lambda r: ["<html>\n", *r], "not a table of numbers"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, change, message: str) -> None:
    folder = write(tmp_path, change(rows(digits._shipped() / digits.FILE)))
    with pytest.raises(ValueError, match=message) as caught:
        data.load("digits", folder=folder)
    assert digits.FILE in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    whole = (digits._shipped() / digits.FILE).read_bytes()
    (tmp_path / digits.FILE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="truncated"):
        data.load("digits", folder=tmp_path)
    for damaged in (b"<html>", whole[:30] + b"\xff" * 9 + whole[39:]):
        (tmp_path / digits.FILE).write_bytes(damaged)
        with pytest.raises(ValueError, match=r"digits\.csv\.gz: not a table of numbers"):
            data.load("digits", folder=tmp_path)


def test_an_unknown_data_set_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"'didgits' is unknown; allowed: digits, cifar10"):
        data.load("didgits")
    assert data.module_of("digits") == "relearn.data.digits"
