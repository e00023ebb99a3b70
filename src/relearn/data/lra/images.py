"""Images as sequences of grey values, flattened row by row; the model gets no 2-D position information.

CIFAR-10 as in the arena (Tay et al. 2021, section 3.1): 1,024 values of 0 to 255, ten classes. Grey is
round(0.299 R + 0.587 G + 0.114 B); the arena's reader uses the same weights in floating point, so a pixel may differ by one. The last tenth
of the 50,000 training images is for validation, as in the arena.

``digits``, scikit-learn's 1,797 grey-scale images of 8 × 8 (see ``relearn.data.digits``), is not part of the arena: sequences of 64 values
for machines without the data set. Of every ten consecutive images the last two are for test and the one before for validation.
The file runs through 0 to 9 in places, so the classes of these parts differ in size (validation: 7 to 34 images each).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relearn import data
from relearn.data.evenly_spaced import evenly_spaced_places
from relearn.data.images import Images
from relearn.data.lra.samples import Samples, Task

DATASETS = ("cifar10", "digits")


def make(dataset: str, samples: Mapping[str, int], *, folder: Path | None = None) -> Task:
    """The task with the given numbers of evenly spaced images in train, valid and test; 0 is all.

    Raises:
        ValueError: an unknown data set, or an error of its reader.
        OSError: a file can neither be read nor downloaded.
    """
    if dataset not in DATASETS:
        raise ValueError(f"dataset is {dataset!r}; allowed for image: {', '.join(DATASETS)}")
    images = data.load(dataset, folder=folder)
    parts: dict[str, Any] = {}
    for part, (kept, labels) in _parts(images).items():
        rows = evenly_spaced_places(len(labels), samples[part])
        values = grey(np.asarray(kept[rows]))
        parts[part] = Samples([one.tobytes() for one in values], labels[rows].tolist())
    return Task("image", dataset, 256, len(images.class_names), **parts, source=dict(images.source))


def grey(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(N, 1 or 3, H, W) as grey values (N, H·W), flattened row by row."""
    if images.shape[1] == 1:
        return images.reshape(len(images), -1)
    weighed = np.tensordot(images.astype(np.uint32), np.array([299, 587, 114], np.uint32), axes=(1, 0))
    return ((weighed + 500) // 1000).astype(np.uint8).reshape(len(images), -1)


def _parts(images: Images) -> dict[str, tuple[NDArray[np.uint8], NDArray[np.int64]]]:
    pixels, labels = images.train_images, images.train_labels
    if images.test_images is not None and images.test_labels is not None:
        cut = len(labels) * 9 // 10
        return {
            "train": (pixels[:cut], labels[:cut]),
            "valid": (pixels[cut:], labels[cut:]),
            "test": (images.test_images, images.test_labels),
        }
    place = np.arange(len(labels)) % 10
    rows = {"train": place < 7, "valid": place == 7, "test": place > 7}
    return {part: (pixels[chosen], labels[chosen]) for part, chosen in rows.items()}
