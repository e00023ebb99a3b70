"""Street View House Numbers as out-of-distribution images: 26,032 test images, 3 × 32 × 32 (Netzer et al., 2011).

The cropped version (format 2), a MATLAB level 5 file with ``X`` (32, 32, 3, N) uint8; its labels are not used. The source is
``folder`` with the official ``test_32x32.mat``, or the same file downloaded into the cache. The data set's page links it by http;
here the same address is used with https.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from relearn.data.outlier_images import Outliers, Wanted, select_images
from relearn.data.remote import Remote, fault_of

FILE = Remote(
    name="test_32x32.mat",
    urls=("https://ufldl.stanford.edu/housenumbers/test_32x32.mat",),
    size=64275384,
    sha256="cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
    md5="eb5a983be6a315427106f1b164d9cef3",
)


def outliers(wanted: Wanted) -> Outliers:
    """``count`` of the images, in the requested form.

    Raises:
        ValueError: see :func:`load` and :func:`relearn.data.outlier_images.select_images`. OSError: likewise.
    """
    return select_images("svhn", load(wanted.folder), wanted, "SVHN, the official test images")


def load(folder: Path | None = None) -> NDArray[np.uint8]:
    """The test images (26032, 3, 32, 32) uint8.

    Args:
        folder: a folder with the official file; None downloads it.

    Raises:
        ValueError: the folder lacks the file, or the file is not the official one. OSError: it cannot be read or fetched.
    """
    if folder is None:
        from relearn.data.download import fetch

        return read_mat(fetch(FILE))
    path = folder / FILE.name
    if not path.exists():
        raise ValueError(f"{folder}: lacks {FILE.name}")
    if fault := fault_of(path, FILE):
        raise ValueError(f"{path}: {fault}; not the official file")
    return read_mat(path)


def read_mat(path: Path) -> NDArray[np.uint8]:
    """``X`` of a MATLAB file, (32, 32, 3, N), as (N, 3, 32, 32).

    Raises:
        ValueError: not a MATLAB file, or one without such an array.
    """
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        found = loadmat(path, variable_names=["X"]).get("X")
    except (MatReadError, ValueError, TypeError, NotImplementedError) as fault:
        raise ValueError(f"{path}: not a MATLAB file ({' '.join(str(fault).split())})") from None
    if found is None or found.dtype != np.uint8 or found.ndim != 4 or found.shape[:3] != (32, 32, 3):
        shape = "nothing" if found is None else f"{found.dtype} {found.shape}"
        raise ValueError(f"{path}: X is {shape}; allowed: uint8 (32, 32, 3, N)")
    return np.ascontiguousarray(found.transpose(3, 2, 0, 1))
