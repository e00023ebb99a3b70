"""Patches of two photographs, a Chinese temple and a flower, included in scikit-learn: natural images without a download.

The side of a patch is the smallest multiple of ``size`` that is at least 32 pixels, and the patch is averaged down; patches of 8 pixels
would show little more than a single shade. Patches are drawn without replacement from all positions in both photographs, and may overlap.
The photographs are JPEGs of 640 × 427 pixels, decoded by Pillow, so a pixel may differ by one level between its versions.
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
    """``count`` patches, in the order drawn.

    Raises:
        ValueError: scikit-learn is not installed, a patch would be larger than a photograph, or there are too few positions.
        OSError: a photograph cannot be read.
    """
    side = wanted.size * -(-LEAST_WINDOW // wanted.size)
    down, across = SHAPE[0] - side + 1, SHAPE[1] - side + 1
    if down < 1:
        raise ValueError(f"natural_patches: windows of {side} pixels (allowed: at most {SHAPE[0]})")
    places = len(FILES) * down * across
    if wanted.count > places:
        raise ValueError(f"natural_patches: {wanted.count} images requested (allowed: at most {places})")
    pictures = photographs(wanted.folder)
    drawn = wanted.generator("natural_patches").choice(places, wanted.count, replace=False)
    which, row, column = np.unravel_index(drawn, (len(FILES), down, across))
    cut = [pictures[w][:, r : r + side, c : c + side] for w, r, c in zip(which, row, column)]
    images, done = fit("natural_patches", np.stack(cut), size=wanted.size, channels=wanted.channels)
    return Outliers(images, f"{wanted.count} windows of scikit-learn's two sample photographs{done}")


def photographs(folder: Path | None = None) -> tuple[NDArray[np.uint8], ...]:
    """The two photographs, (3, 427, 640) uint8 each; from ``folder``, by default scikit-learn's own.

    Raises:
        ValueError: scikit-learn is not installed, or a photograph has another size. OSError: it cannot be read.
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
    spec = find_spec("sklearn")  # does not import it
    if spec is None or not spec.submodule_search_locations:
        raise ValueError("natural_patches: scikit-learn, which includes the photographs, is not installed")
    return Path(next(iter(spec.submodule_search_locations))) / "datasets" / "images"
