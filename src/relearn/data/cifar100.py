"""CIFAR-100 as out-of-distribution images for CIFAR-10: 3 × 32 × 32, a hundred other classes (A. Krizhevsky, 2009).

Both sets are subsets of the 80 million tiny images and share no class, though some are close (pickup truck and truck, leopard
and cat): the usual near-distribution test of detection. Labels are not used.

The first available source is used:

1. ``folder`` with ``test_images.npy``, the official test images, or ``images.npy``, any other images (uint8, (N, 32, 32, 3), RGB);
2. ``folder`` with the official ``cifar-100-binary.tar.gz``;
3. the official archive, downloaded into the cache.

The archive is the official BINARY version, not the Python one, so no pickle is loaded: records of a coarse label byte, a fine label
byte and 3,072 pixel bytes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from relearn.data.images import sha256_of
from relearn.data.outlier_images import Outliers, Wanted, select_images
from relearn.data.remote import Remote, fault_of

ARCHIVE = Remote(
    name="cifar-100-binary.tar.gz",
    urls=(
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "https://cave.cs.toronto.edu/kriz/cifar-100-binary.tar.gz",
    ),
    size=168513733,
    sha256="58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
    md5="03b5dce01913d631647c71ecec9e9cb8",  # stated on the data set's page
)
MEMBER = "cifar-100-binary/test.bin"
LABELS, PIXELS = 2, 3 * 32 * 32  # bytes of a record
TEST = 10_000
# Pixels of a class-balanced 10,000 of all 60,000 images, assembled from public files: not the official test set.
BALANCED = "80c5b59ded79d1216b6f844de7843880d4c7a048188cb0b2de3c3f56c507ef88"
OFFICIAL_TEST = "the official test images"


def outliers(wanted: Wanted) -> Outliers:
    """``count`` of the images, in the requested form.

    Raises:
        ValueError: see :func:`load` and :func:`relearn.data.outlier_images.select_images`. OSError: likewise.
    """
    images, words = load(wanted.folder)
    return select_images("cifar100", images, wanted, f"CIFAR-100, {words}")


def load(folder: Path | None = None) -> tuple[NDArray[np.uint8], str]:
    """The images (N, 3, 32, 32) uint8, and a description of their source.

    Args:
        folder: see the module; None downloads.

    Raises:
        ValueError: the folder holds none of the versions, or its contents are not CIFAR-100.
        OSError: files cannot be read or fetched.
    """
    if folder is None:
        from relearn.data.download import fetch

        return read_archive(fetch(ARCHIVE)), OFFICIAL_TEST
    for name in ("test_images.npy", "images.npy"):
        if (folder / name).exists():
            images = _array(folder / name)
            found = sha256_of(images)
            words = (
                "a class-balanced 10,000 of all 60,000" if found == BALANCED else f"{name}, sha256 {found}"
            )
            return images, words
    archive = folder / ARCHIVE.name
    if not archive.exists():
        raise ValueError(
            f"{folder}: has none of test_images.npy, images.npy and {ARCHIVE.name}; allowed: one of them"
        )
    if fault := fault_of(archive, ARCHIVE):
        raise ValueError(f"{archive}: {fault}; not the official archive")
    return read_archive(archive), OFFICIAL_TEST


def read_archive(archive: Path, *, count: int = TEST) -> NDArray[np.uint8]:
    """The test images of the official binary archive; nothing is unpacked to disk.

    Raises:
        ValueError: the archive is broken, or its test part is missing or has the wrong size.
    """
    from relearn.data.archive import read_members

    content = read_members(archive, [MEMBER])[MEMBER]
    record = LABELS + PIXELS
    if len(content) != count * record:
        raise ValueError(
            f"{archive}: {MEMBER} has {len(content)} bytes, {count} records have {count * record}"
        )
    return np.frombuffer(content, np.uint8).reshape(count, record)[:, LABELS:].reshape(-1, 3, 32, 32)


def _array(path: Path) -> NDArray[np.uint8]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as fault:
        raise ValueError(
            f"{path}: not a plain array, or truncated ({' '.join(str(fault).split())})"
        ) from None
    if array.dtype != np.uint8 or array.shape[1:] != (32, 32, 3) or not len(array):
        raise ValueError(f"{path}: {array.dtype} {array.shape}; allowed: uint8 (N, 32, 32, 3)")
    return array.transpose(0, 3, 1, 2)
