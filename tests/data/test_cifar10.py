"""CIFAR-10: the official records byte by byte, both forms of a copy equal, faults named; the real copy."""

import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from relearn import data
from relearn.data import cifar10
from relearn.data.cifar10 import BATCHES, RECORD, batch_digests, read_archive, read_arrays
from relearn.data.images import channel_statistics, sha256_of

SMALL = 20  # images in a batch, two a class


def batch(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (SMALL, 32, 32, 3), np.uint8), rng.permutation(np.arange(SMALL) % 10)


def record(image: np.ndarray, label: int) -> bytes:
    """One record as the data set's page describes it: label; red, green, blue, each row by row."""
    return bytes([label, *(int(image[y, x, c]) for c in range(3) for y in range(32) for x in range(32))])


def pack(path: Path, contents: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture(scope="module")
def contents() -> dict[str, bytes]:
    made = {"batches.meta.txt": b"airplane\n"}
    for number, name in enumerate(BATCHES):
        images, labels = batch(number)
        made[name] = b"".join(record(image, label) for image, label in zip(images, labels.tolist()))
    return made


def arrays(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    batches = [batch(number) for number in range(6)]
    for part, some in (("train", batches[:5]), ("test", batches[5:])):
        np.save(folder / f"{part}_images.npy", np.concatenate([images for images, _ in some]))
        np.save(folder / f"{part}_labels.npy", np.concatenate([labels for _, labels in some]))
    return folder


def test_the_archive_gives_each_pixel_its_place(tmp_path: Path, contents: dict[str, bytes]) -> None:
    got = read_archive(pack(tmp_path / "a.tar.gz", contents), source={"from": "here"}, per_batch=SMALL)
    assert got.test_images is not None and got.test_labels is not None
    assert got.train_images.shape == (5 * SMALL, 3, 32, 32) and got.test_images.shape == (SMALL, 3, 32, 32)
    for number in range(5):
        images, labels = batch(number)
        part = slice(number * SMALL, (number + 1) * SMALL)
        np.testing.assert_array_equal(got.train_images[part].transpose(0, 2, 3, 1), images)
        np.testing.assert_array_equal(got.train_labels[part], labels)
    np.testing.assert_array_equal(got.test_images.transpose(0, 2, 3, 1), batch(5)[0])
    np.testing.assert_array_equal(got.test_labels, batch(5)[1])
    assert got.class_names[6] == "frog" and got.class_names[8] == "ship"
    # The digests are those of the files that went into the archive.
    wanted = {name: hashlib.sha256(contents[name]).hexdigest() for name in BATCHES}
    assert got.source["sha256"] == wanted and got.source["copy"] == "unknown"


def test_a_folder_of_arrays_is_the_same_set(tmp_path: Path, contents: dict[str, bytes]) -> None:
    one = read_archive(pack(tmp_path / "a.tar.gz", contents), source={}, per_batch=SMALL)
    two = read_arrays(arrays(tmp_path / "arrays"), per_batch=SMALL)
    for name in ("train_images", "train_labels", "test_images", "test_labels"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        assert getattr(one, name).dtype == getattr(two, name).dtype
    assert one.source["sha256"] == two.source["sha256"]


def test_known_copies_are_recognised_by_every_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = arrays(tmp_path / "arrays")
    digests = tuple(read_arrays(folder, per_batch=SMALL).source["sha256"].values())
    monkeypatch.setattr(cifar10, "OFFICIAL", digests)
    assert read_arrays(folder, per_batch=SMALL).source["copy"] == "official"
    labels = np.load(folder / "test_labels.npy")
    np.save(folder / "test_labels.npy", labels[::-1])  # other labels for the same images
    assert read_arrays(folder, per_batch=SMALL).source["copy"] == "unknown"


def test_the_mask_of_inexact_images_is_kept_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = arrays(tmp_path / "arrays")
    exact = np.ones(5 * SMALL, bool)
    exact[[3, 40]] = False
    np.save(folder / "train_exact.npy", exact)
    got = read_arrays(folder, per_batch=SMALL)
    np.testing.assert_array_equal(got.train_exact, exact)
    assert got.test_exact is not None and got.test_exact.all()
    assert (got.source["inexact_train"], got.source["inexact_test"]) == (2, 0)
    digests = tuple(got.source["sha256"].values())
    monkeypatch.setattr(cifar10, "APPROXIMATED", digests)
    monkeypatch.setattr(cifar10, "INEXACT_IN_APPROXIMATED", (2, 0))
    assert read_arrays(folder, per_batch=SMALL).source["copy"] == "approximated"
    (folder / "train_exact.npy").unlink()
    with pytest.raises(ValueError, match=r"train_exact.npy.*: 0 and 0 .*'approximated' has 2 and 0"):
        read_arrays(folder, per_batch=SMALL)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("train_labels", lambda a: a[:-1], r"train_labels.npy: int64 \(99,\); allowed: integer \(100,\)"),
        ("train_labels", lambda a: a + 1, "train: label 10 at index"),
        ("train_labels", lambda a: np.zeros_like(a), "train: class sizes .*; allowed: 10 each"),
        ("train_labels", lambda a: a.astype(float), "allowed: integer"),
        ("train_images", lambda a: a[1:], r"allowed: uint8 \(100, 32, 32, 3\)"),
        ("train_images", lambda a: a.transpose(0, 3, 1, 2), r"allowed: uint8 \(100, 32, 32, 3\)"),
        ("test_images", lambda a: a / 255, "test_images.npy: float64"),
        ("test_images", lambda a: np.array([None], object), "not a plain array, or truncated"),
        ("train_exact", lambda a: np.ones(3, bool), r"train_exact.npy: bool \(3,\)"),
    ],
)
def test_a_folder_with_other_contents_is_refused(tmp_path: Path, name: str, change, message: str) -> None:
    path = arrays(tmp_path / "arrays") / f"{name}.npy"
    np.save(path, change(np.load(path) if path.exists() else None), allow_pickle=True)
    with pytest.raises(ValueError, match=message) as caught:
        read_arrays(path.parent, per_batch=SMALL)
    assert "\n" not in str(caught.value)


def test_missing_and_torn_arrays_are_named(tmp_path: Path) -> None:
    folder = arrays(tmp_path / "arrays")
    path = folder / "test_images.npy"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"test_images.npy: not a plain array, or truncated"):
        read_arrays(folder, per_batch=SMALL)
    path.unlink()
    with pytest.raises(ValueError, match=r"test_images.npy: missing"):
        read_arrays(folder, per_batch=SMALL)


def test_batches_of_another_size_or_missing_are_named(tmp_path: Path, contents: dict[str, bytes]) -> None:
    short = contents | {"data_batch_3.bin": contents["data_batch_3.bin"][:-1]}
    with pytest.raises(ValueError, match=rf"data_batch_3.bin has {SMALL * RECORD - 1} bytes"):
        read_archive(pack(tmp_path / "a.tar.gz", short), source={}, per_batch=SMALL)
    fewer = {name: content for name, content in contents.items() if name != "test_batch.bin"}
    with pytest.raises(ValueError, match=r"lacks cifar-10-batches-bin/test_batch.bin"):
        read_archive(pack(tmp_path / "b.tar.gz", fewer), source={}, per_batch=SMALL)


def test_a_folder_must_hold_one_of_the_two_forms(tmp_path: Path, contents: dict[str, bytes]) -> None:
    with pytest.raises(ValueError, match=r"neither train_images.npy nor cifar-10-binary.tar.gz"):
        data.load("cifar10", folder=tmp_path)
    pack(tmp_path / "cifar-10-binary.tar.gz", contents)
    with pytest.raises(ValueError, match=r"expected 170052171; not the official archive"):
        data.load("cifar10", folder=tmp_path)


def test_without_a_folder_offline_says_where_the_archive_goes(offline: Path) -> None:
    with pytest.raises(OSError, match=r"https://www\.cs\.toronto\.edu.*cifar-10-binary\.tar\.gz") as caught:
        data.load("cifar10")
    assert str(offline / "cifar-10-binary.tar.gz") in str(caught.value)


def test_digests_do_not_depend_on_the_memory_layout() -> None:
    images, labels = batch(0)
    first = images.transpose(0, 3, 1, 2)
    assert batch_digests(first, labels, 7) == batch_digests(np.ascontiguousarray(first), labels, 7)
    assert len(batch_digests(first, labels, 7)) == 3


def test_the_real_images(mirror: Callable[..., Path]) -> None:
    got = data.load("cifar10", folder=mirror("cifar10", "train_images.npy").parent)
    assert got.test_images is not None and got.test_labels is not None
    assert np.bincount(got.train_labels).tolist() == [5000] * 10
    assert np.bincount(got.test_labels).tolist() == [1000] * 10
    assert got.source["copy"] in ("official", "approximated")
    if got.source["copy"] == "approximated":
        # The checksums that this copy was published with, over the pixels alone.
        pixels = (sha256_of(got.train_images), sha256_of(got.test_images))
        assert pixels == (
            "f789fd8fdc860bd682a6d77fbd99fee3ddee3890221a6e9b6ab011d2b15a07fd",
            "1fe46ff47f5fb6c1b24f0b5448654cac0e0d3e1e0c16f9cbac842307814b553a",
        )
        assert (~got.train_exact).sum() == 72
    # The published statistics of the training set, to the digits that are printed everywhere.
    mean, std = channel_statistics(got.train_images)
    np.testing.assert_allclose(mean, [0.4914, 0.4822, 0.4465], atol=6e-5)
    np.testing.assert_allclose(std, [0.2470, 0.2435, 0.2616], atol=6e-5)
