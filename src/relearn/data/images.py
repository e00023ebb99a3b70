"""Common form of all image data sets: validated 8-bit images with labels and their source."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = 1000  # images processed at once, to avoid large copies


@dataclass(frozen=True)
class Images:
    """One labelled image data set.

    ==============  ==================================================================  ==================
    attribute       meaning                                                             shape, type
    ==============  ==================================================================  ==================
    train_images    the training images, in the data set's order; value/255 in [0, 1]   (N, C, H, W) uint8
    train_labels    class of each, 0 to K-1                                             (N,) int64
    test_images     the official test images; None if there is no official test set      (M, C, H, W) uint8
    test_labels     class of each; None likewise                                        (M,) int64
    class_names     names of the K classes                                              K texts
    train_exact     False: this training image is known not to be bit-exact             (N,) bool
    test_exact      the same for the test images; None if there are none                 (M,) bool
    source          origin of the bytes and their sha256: plain JSON, no paths           dict
    ==============  ==================================================================  ==================

    Raises:
        ValueError: shapes, types or lengths do not fit together, or a label is outside 0 to K-1.
    """

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    source: dict[str, Any]
    test_images: NDArray[np.uint8] | None = None
    test_labels: NDArray[np.int64] | None = None
    train_exact: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, bool))
    test_exact: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        if not len(self.train_exact):
            object.__setattr__(self, "train_exact", np.ones(len(self.train_images), bool))
        _check("train", self.train_images, self.train_labels, self.train_exact, len(self.class_names))
        if (self.test_images is None) != (self.test_labels is None):
            raise ValueError(
                "test: images without labels or labels without images (allowed: both or neither)"
            )
        if self.test_images is not None and self.test_labels is not None:
            if self.test_exact is None:
                object.__setattr__(self, "test_exact", np.ones(len(self.test_images), bool))
            assert self.test_exact is not None
            _check("test", self.test_images, self.test_labels, self.test_exact, len(self.class_names))
            if self.test_images.shape[1:] != self.train_images.shape[1:]:
                found, wanted = self.test_images.shape[1:], self.train_images.shape[1:]
                raise ValueError(f"test: images are {found}, the training images {wanted}")


def _check(part: str, images: Any, labels: Any, exact: Any, classes: int) -> None:
    if images.dtype != np.uint8 or images.ndim != 4:
        raise ValueError(f"{part}: images are {images.dtype} {images.shape}; allowed: uint8 (N, C, H, W)")
    if labels.dtype != np.int64 or labels.shape != images.shape[:1]:
        raise ValueError(f"{part}: labels are {labels.dtype} {labels.shape}; allowed: int64 ({len(images)},)")
    if exact.dtype != np.bool_ or exact.shape != images.shape[:1]:
        raise ValueError(f"{part}: exact mask is {exact.dtype} {exact.shape}; allowed: bool ({len(images)},)")
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        raise ValueError(f"{part}: label {labels[wrong[0]]} at index {wrong[0]}; allowed: 0 to {classes - 1}")


def channel_statistics(images: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    r"""Mean and standard deviation of each channel on the [0, 1] scale, over all pixels of all images.

    .. math:: \mu_c = \tfrac1{255}\,\mathrm{mean}_{n,h,w}\, x_{nchw}, \qquad
              \sigma_c^2 = \tfrac1{255^2}\,\mathrm{mean}_{n,h,w}\, x_{nchw}^2 - \mu_c^2

    The sums are computed with integers, so the result does not depend on the order of the images. σ is the
    population standard deviation over all pixels. (The constants .2023, .1994, .2010 in many CIFAR-10 programs are
    means of the σ of single images; over all pixels of the training set σ is .2470, .2435, .2616.)

    Args:
        images: (N, C, H, W) uint8.

    Returns:
        mean and std, (C,) float32.

    Raises:
        ValueError: no images, or a channel is constant (its σ would divide by zero).
    """
    if not len(images):
        raise ValueError("channel statistics: no images")
    channels = images.shape[1]
    first, second = np.zeros(channels, np.int64), np.zeros(channels, np.int64)
    for start in range(0, len(images), CHUNK):
        block = images[start : start + CHUNK]
        first += block.sum((0, 2, 3), dtype=np.int64)
        second += np.square(block, dtype=np.uint16).sum((0, 2, 3), dtype=np.int64)  # 255² fits 16 bits
    count = images.size // channels
    # n·Σx² - (Σx)² in Python's integers is exact; in float64 it could cancel.
    spread = [count * int(b) - int(a) ** 2 for a, b in zip(first, second)]
    if min(spread) == 0:
        raise ValueError(f"channel statistics: channel {spread.index(0)} is constant")
    std = np.sqrt(np.array(spread, np.float64)) / (255.0 * count)
    return (first / (255.0 * count)).astype(np.float32), std.astype(np.float32)


def sha256_of(images: NDArray[np.uint8]) -> str:
    """sha256 of the bytes of (N, C, H, W) images in C order, without a copy of the whole."""
    digest = hashlib.sha256()
    for start in range(0, len(images), CHUNK):
        digest.update(np.ascontiguousarray(images[start : start + CHUNK]).data)
    return digest.hexdigest()
