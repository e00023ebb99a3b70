r"""Scikit-learn's handwritten digits: 1,797 real grey-scale images, 8×8, included in the installed package.

Source: the test part of "Optical Recognition of Handwritten Digits" (E. Alpaydin, C. Kaynak, UCI, 1998), as
provided by ``sklearn.datasets.load_digits``. The file is read without importing scikit-learn, which would take
longer than the rest of the step.

Grey values are counts v = 0 … 16; an 8-bit pixel is

.. math:: u = \operatorname{round}(255\,v/16) = \lfloor (255\,v + 8)/16 \rfloor

(127.5 becomes 128). The map is invertible: v = round(16 u/255).

There is no official test set: all 1,797 images are training images, in file order, and the split forms a test
set from the images it does not use otherwise.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from relearn.data.images import Images, sha256_of

CLASS_NAMES = tuple("0123456789")
FILE = "digits.csv.gz"
SHA256 = (
    "b41ca9fd335466eee997366c2e6f6bbe0a1b4582afe091fc4eba35f4a254182f"  # of the 8-bit images (1797, 1, 8, 8)
)
LABELS_SHA256 = (
    "a3c91c262eddcf7ba8f0e37507c30284493c9b20412ffe4af30d536401f7ba21"  # of the labels as little-endian int64
)


def load(folder: Path | None = None) -> Images:
    """All 1,797 digits as (1797, 1, 8, 8) uint8.

    Args:
        folder: a folder with ``digits.csv.gz``; by default scikit-learn's own.

    Raises:
        ValueError: scikit-learn is not installed, or the file is not the known one.
        OSError: the file cannot be read.
    """
    path = (folder or _shipped()) / FILE
    try:
        with gzip.open(path, "rt", encoding="ascii") as file:
            rows = np.loadtxt(file, delimiter=",", dtype=np.int64, ndmin=2)
    except (EOFError, ValueError, gzip.BadGzipFile, zlib.error) as fault:
        raise ValueError(f"{path}: not a table of numbers, or truncated ({fault})") from None
    if rows.shape[1] != 65 or rows[:, :-1].min() < 0 or rows[:, :-1].max() > 16:
        raise ValueError(
            f"{path}: rows hold {rows.shape[1]} numbers; allowed: 64 grey values 0 to 16 and a label"
        )
    images, labels = to_8bit(rows[:, :-1]).reshape(-1, 1, 8, 8), np.ascontiguousarray(rows[:, -1])
    found = sha256_of(images)
    own = hashlib.sha256(labels.astype("<i8").tobytes()).hexdigest()
    for what, one, known in (("images", found, SHA256), ("labels", own, LABELS_SHA256)):
        if one != known:
            raise ValueError(f"{path}: sha256 of the {what} is {one}, the known data set has {known}")
    source = {
        "from": "scikit-learn's digits (UCI, test part)",
        "copy": "official",
        "sha256": {"train": found},
    }
    return Images(train_images=images, train_labels=labels, class_names=CLASS_NAMES, source=source)


def to_8bit(grey: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Grey counts 0 … 16 to pixels 0 … 255 by the formula above, any shape."""
    return ((grey * 255 + 8) // 16).astype(np.uint8)


def _shipped() -> Path:
    spec = find_spec("sklearn")  # does not import it
    if spec is None or not spec.submodule_search_locations:
        raise ValueError("digits: scikit-learn, which includes the images, is not installed")
    return Path(next(iter(spec.submodule_search_locations))) / "datasets" / "data"
