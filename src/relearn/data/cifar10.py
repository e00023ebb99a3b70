"""CIFAR-10: 50,000 training and 10,000 test images, 3×32×32, ten classes (A. Krizhevsky, 2009).

The first available source is used:

1. ``folder`` with ``{train,test}_images.npy`` (uint8, (N, 32, 32, 3), RGB), ``{train,test}_labels.npy`` (integers) and optionally
   ``{train,test}_exact.npy`` (bool; False marks an image known not to be bit-exact);
2. ``folder`` with the official ``cifar-10-binary.tar.gz``;
3. the official archive, downloaded into the cache.

The archive is the official BINARY version, not the Python one: six files of 10,000 records, each a label byte and 3,072 pixel bytes, so
no pickle is loaded. Every copy is converted to these records and the sha256 of each batch is compared. This verifies labels, pixels and
order at once and classifies the copy as official, a known copy, or unknown.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relearn.data.images import Images
from relearn.data.remote import Remote, fault_of

CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ARCHIVE = Remote(
    name="cifar-10-binary.tar.gz",
    urls=(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "https://cave.cs.toronto.edu/kriz/cifar-10-binary.tar.gz",
    ),
    size=170052171,
    sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    md5="c32a1d4ab5d03f1284b67883e8d87530",  # stated on the data set's page
)
SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32  # bytes
INSIDE = "cifar-10-batches-bin"
PER_BATCH = 10_000
TRAIN_BATCHES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST_BATCHES = ("test_batch.bin",)
BATCHES = TRAIN_BATCHES + TEST_BATCHES

# sha256 of each batch as a file of records, in the order of BATCHES.
OFFICIAL: tuple[str, ...] = (
    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
)
# A copy assembled from public files: 72 training and 20 test images, mostly ships, were compressed as JPEG.
APPROXIMATED: tuple[str, ...] = (
    "0def081c410489f98b3935c2d405fc7436d23377894a5d6a710ce1fad8082588",
    "4d0a9f6a8434c9b3b3de28d817dc3d360a3f82d86a14f3c7bf6d2d8fc64188e2",
    "1a4d0920ea06101641902b09fdac800cad7b5105963deee31ddff8e83fbabe6c",
    "1a1401a79ee78d63b83259d2b3f22a52142e7dd6309a0164c460dc6abd7ac38b",
    "ce4b8267c2f77f8915b4299443568f52defe265996f0a8b7966b63b7adf6d4d2",
    "123ca0dad8f960344d9149742165d4215093c84c8c4bdc5922af93b614bdb501",
)
INEXACT_IN_APPROXIMATED = (72, 20)


def load(folder: Path | None = None) -> Images:
    """CIFAR-10 in official order, (50000, 3, 32, 32) and (10000, 3, 32, 32) uint8.

    ``source["copy"]`` is ``official`` (every byte), ``approximated`` (the known copy with 92 inexact images)
    or ``unknown``: then only shapes, labels and class sizes have been verified.

    Args:
        folder: see the module; None downloads.

    Raises:
        ValueError: the folder holds neither version, or its contents are not CIFAR-10.
        OSError: files cannot be read or fetched.
    """
    if folder is None:
        from relearn.data.download import fetch

        return read_archive(fetch(ARCHIVE), source={"from": ARCHIVE.urls[0]})
    if (folder / "train_images.npy").exists():
        return read_arrays(folder)
    archive = folder / ARCHIVE.name
    if not archive.exists():
        raise ValueError(f"{folder}: has neither train_images.npy nor {ARCHIVE.name}; allowed: one of them")
    if fault := fault_of(archive, ARCHIVE):
        raise ValueError(f"{archive}: {fault}; not the official archive")
    return read_archive(archive, source={"from": f"a folder with {ARCHIVE.name}"})


def read_archive(archive: Path, *, source: dict[str, Any], per_batch: int = PER_BATCH) -> Images:
    """Read the six batches of the official binary archive; nothing is unpacked to disk.

    Args:
        archive: a tar file that holds ``cifar-10-batches-bin/*.bin``.
        source: known facts about the source; the others are added.
        per_batch: records in each batch.

    Raises:
        ValueError: the archive is broken, a batch is missing or has the wrong size, or a label is above 9.
    """
    from relearn.data.archive import read_members

    contents = read_members(archive, [f"{INSIDE}/{batch}" for batch in BATCHES])
    for name, content in contents.items():
        if len(content) != per_batch * RECORD:
            raise ValueError(
                f"{archive}: {name} has {len(content)} bytes, {per_batch} records have {per_batch * RECORD}"
            )
    records = {
        name: np.frombuffer(content, np.uint8).reshape(-1, RECORD) for name, content in contents.items()
    }
    parts: dict[str, Any] = {}
    for part, batches in (("train", TRAIN_BATCHES), ("test", TEST_BATCHES)):
        joined = np.concatenate([records[f"{INSIDE}/{batch}"] for batch in batches])
        parts[f"{part}_labels"] = joined[:, 0].astype(np.int64)
        parts[f"{part}_images"] = joined[:, 1:].reshape(-1, *SHAPE)
    return _images(parts, source, per_batch)


def read_arrays(folder: Path, *, per_batch: int = PER_BATCH) -> Images:
    """Read ``{train,test}_{images,labels,exact}.npy``; images are memory-mapped.

    Raises:
        ValueError: a file is missing, not a plain array, or has the wrong shape, type or class balance; or the mask of
            inexact images is missing or wrong for a copy known to have some.
    """
    parts: dict[str, Any] = {}
    for part, batches in (("train", len(TRAIN_BATCHES)), ("test", len(TEST_BATCHES))):
        count = batches * per_batch
        images = _array(folder / f"{part}_images.npy", (count, 32, 32, 3), np.uint8)
        parts[f"{part}_images"] = images.transpose(0, 3, 1, 2)
        parts[f"{part}_labels"] = _array(folder / f"{part}_labels.npy", (count,), np.integer).astype(np.int64)
        exact = folder / f"{part}_exact.npy"
        if exact.exists():
            parts[f"{part}_exact"] = np.array(_array(exact, (count,), np.bool_))
    return _images(parts, {"from": "a folder with arrays"}, per_batch)


def batch_digests(
    images: NDArray[np.uint8], labels: NDArray[np.int64], per_batch: int = PER_BATCH
) -> list[str]:
    """sha256 of each ``per_batch`` images as official records: a label byte, then the pixels by channel."""
    digests = []
    for start in range(0, len(images), per_batch):
        batch = slice(start, start + per_batch)
        records = np.empty((len(labels[batch]), RECORD), np.uint8)
        records[:, 0] = labels[batch]
        records[:, 1:] = images[batch].reshape(-1, RECORD - 1)
        digests.append(hashlib.sha256(records.data).hexdigest())
    return digests


def _images(parts: dict[str, Any], source: dict[str, Any], per_batch: int) -> Images:
    images = Images(class_names=CLASS_NAMES, source=source, **parts)
    assert images.test_images is not None and images.test_labels is not None and images.test_exact is not None
    for part, labels in (("train", images.train_labels), ("test", images.test_labels)):
        sizes = np.bincount(labels, minlength=10)
        if (sizes != len(labels) // 10).any():
            raise ValueError(f"{part}: class sizes {sizes.tolist()}; allowed: {len(labels) // 10} each")
    digests = batch_digests(images.train_images, images.train_labels, per_batch)
    digests += batch_digests(images.test_images, images.test_labels, per_batch)
    copy = {OFFICIAL: "official", APPROXIMATED: "approximated"}.get(tuple(digests), "unknown")
    inexact = (int((~images.train_exact).sum()), int((~images.test_exact).sum()))
    allowed = {"official": (0, 0), "approximated": INEXACT_IN_APPROXIMATED}.get(copy, inexact)
    if inexact != allowed:
        raise ValueError(
            f"train_exact.npy, test_exact.npy: {inexact[0]} and {inexact[1]} images are marked inexact; "
            f"the copy {copy!r} has {allowed[0]} and {allowed[1]}"
        )
    source |= {"copy": copy, "sha256": dict(zip(BATCHES, digests))}
    source |= {"inexact_train": inexact[0], "inexact_test": inexact[1]}
    return images


def _array(path: Path, shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise ValueError(f"{path}: missing") from None
    except (ValueError, EOFError) as fault:
        raise ValueError(
            f"{path}: not a plain array, or truncated ({' '.join(str(fault).split())})"
        ) from None
    if array.shape != shape or not np.issubdtype(array.dtype, kind):
        raise ValueError(f"{path}: {array.dtype} {array.shape}; allowed: {kind.__name__} {shape}")
    return np.asarray(array)
