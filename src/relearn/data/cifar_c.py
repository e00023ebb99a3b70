"""CIFAR-10-C and CIFAR-100-C (Hendrycks & Dietterich, 2019) as released: ``<folder>/<corruption>.npy`` and ``labels.npy``.

Each array holds the test images at severities 1 to 5, one after the other, as (5 n, 32, 32, 3) uint8; ``labels.npy`` has one label for
each of the 5 n images. n is 10,000 in the released files. The folders also contain the four additional corruptions of
:data:`relearn.data.imagenet_c.EXTRA`, which are part of no mean. The archives are at https://zenodo.org/records/2535967 (CIFAR-10-C)
and https://zenodo.org/records/3555552 (CIFAR-100-C) under their own terms. Nothing is downloaded here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relearn.data.corruptions import LEVELS, NAMES

LABELS = "labels.npy"
SIDE = 32


@dataclass(frozen=True)
class Arrays:
    """The arrays of one folder; each is read only when requested."""

    folder: Path
    names: tuple[str, ...]
    """The requested corruptions in their usual order."""
    levels: tuple[int, ...]
    labels: NDArray[np.int64]
    """(5 n,)."""

    def part(self, name: str, level: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Images (n, 3, 32, 32) of a corruption at a severity, and their labels (n,).

        Raises:
            ValueError: an array of another shape or type. OSError: it cannot be read.
        """
        path, count = self.folder / f"{name}.npy", len(self.labels)
        found = _read(path)
        if found.dtype != np.uint8 or found.shape != (count, SIDE, SIDE, 3):
            raise ValueError(
                f"{path}: {found.dtype} {found.shape}; allowed: uint8 ({count}, {SIDE}, {SIDE}, 3), as many as {LABELS}"
            )
        size = count // len(LEVELS)
        rows = slice((level - 1) * size, level * size)
        return np.ascontiguousarray(found[rows].transpose(0, 3, 1, 2)), self.labels[rows]


def arrays(folder: Path, *, names: Sequence[str] = NAMES, levels: Sequence[int] = LEVELS) -> Arrays:
    """The requested corruptions and severities of a folder.

    Raises:
        ValueError: an unknown corruption or severity, a missing file, or labels of another form. OSError: a file cannot be read.
    """
    for name in names:
        if name not in NAMES:
            raise ValueError(f"corruption {name!r} is unknown; allowed: {', '.join(NAMES)}")
    for level in levels:
        if level not in LEVELS:
            raise ValueError(f"severity is {level!r}; allowed: {', '.join(map(str, LEVELS))}")
    for name in (LABELS, *(f"{name}.npy" for name in names)):
        if not (folder / name).is_file():
            raise ValueError(f"{folder}: no file {name}; allowed: {LABELS} and <corruption>.npy, as released")
    labels = _read(folder / LABELS)
    whole = labels.ndim == 1 and np.issubdtype(labels.dtype, np.integer)
    if not whole or not len(labels) or len(labels) % len(LEVELS):
        raise ValueError(
            f"{folder / LABELS}: {labels.dtype} {labels.shape}; allowed: integers, (5 n,), one for each image at each severity"
        )
    kept = tuple(name for name in NAMES if name in names)
    return Arrays(folder, kept, tuple(sorted(levels)), np.array(labels, np.int64))


def _read(path: Path) -> NDArray[Any]:
    """The array, memory-mapped.

    Raises:
        ValueError: not an array of numbers.
    """
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as fault:
        raise ValueError(f"{path}: not an array of numbers ({' '.join(str(fault).split())})") from None
