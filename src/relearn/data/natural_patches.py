"""Windows of two photographs, a Chinese temple and a flower, that come with scikit-learn: real pictures without a download.

A window has the least multiple of ``size`` that is 32 pixels or more on a side, and is averaged down: a window of 8 pixels would
show next to nothing but one shade. Windows are drawn from all places of both photographs without replacement (they may
overlap). The photographs are JPEGs of 640 × 427 pixels; the decoder is Pillow's, so that a pixel may differ by a level between
versions of it.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from relearn.data.outlier_images import Outliers, Wanted, fit

FILES = ("china.jpg", "flower.jpg")  # sklearn.datasets.load_sample_images
SHAPE = (427, 640, 3)
LEAST_WINDOW = 32  # pixels


def patches(wanted: Wanted) -> Outliers:
    """``count`` windows, in the order they were drawn.

    Raises:
        ValueError: scikit-learn is not installed, a window larger than a photograph, more windows than there are places.
        OSError: a photograph cannot be read.
    """
    side = wanted.size * -(-LEAST_WINDOW // wanted.size)
    down, across = SHAPE[0] - side + 1, SHAPE[1] - side + 1
    if down < 1:
        raise ValueError(f"natural_patches: windows of {side} pixels (allowed: at most {SHAPE[0]})")
    places = len(FILES) * down * across
    if wanted.count > places:
        raise ValueError(f"natural_patches: {wanted.count} images are asked for (allowed: at most {places})")
    pictures = photographs(wanted.folder)
    drawn = wanted.generator("natural_patches").choice(places, wanted.count, replace=False)
    which, row, column = np.unravel_index(drawn, (len(FILES), down, across))
    cut = [pictures[w][:, r : r + side, c : c + side] for w, r, c in zip(which, row, column)]
    images, done = fit("natural_patches", np.stack(cut), size=wanted.size, channels=wanted.channels)
    return Outliers(images, f"{wanted.count} windows of scikit-learn's two sample photographs{done}")


def photographs(folder: Path | None = None) -> tuple[NDArray[np.uint8], ...]:
    """The two photographs, (3, 427, 640) uint8 each; from ``folder``, by default scikit-learn's own.

    Raises:
        ValueError: scikit-learn is not installed, or a picture of another size. OSError: it cannot be read.
    """
    from PIL import Image

    found = []
    for name in FILES:
        path = (folder or _shipped()) / name
        with Image.open(path) as picture:
            pixels = np.asarray(picture.convert("RGB"))
        if pixels.shape != SHAPE:
            raise ValueError(f"{path}: pixels {pixels.shape} (allowed: {SHAPE})")
        found.append(pixels.transpose(2, 0, 1))
    return tuple(found)


def _shipped() -> Path:
    spec = find_spec("sklearn")  # finds, does not import
    if spec is None or not spec.submodule_search_locations:
        raise ValueError("natural_patches: scikit-learn is not installed, and the photographs come with it")
    return Path(next(iter(spec.submodule_search_locations))) / "datasets" / "images"
