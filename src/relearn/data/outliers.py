"""Out-of-distribution images by name, in a network's input format, for detection (``relearn.measures.ood``).

=================  ========================================================================================
name               images
=================  ========================================================================================
cifar100           CIFAR-100's test images, near CIFAR-10 and without any of its classes
svhn               house numbers from street views, far from CIFAR-10
natural_patches    patches of the two photographs included in scikit-learn: natural, without a download
gaussian_noise     every pixel N(1/2, 1), clipped to [0, 1]
uniform_noise      every pixel U(0, 1)
corrupted          the in-distribution test images under the 15 common corruptions at severity 5
=================  ========================================================================================
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from relearn.data.outlier_images import Outliers, Wanted

if TYPE_CHECKING:
    from relearn.data.arrays import Prepared


def outliers(
    name: str,
    *,
    size: int,
    channels: int,
    count: int,
    seed: int,
    prepared: Prepared | None = None,
    folder: Path | None = None,
) -> Outliers:
    """``count`` out-of-distribution images (count, channels, size, size) uint8 of a set, and a description.

    The same arguments give the same images. For the conversion of other sizes and channels, see
    ``relearn.data.outlier_images``.

    Args:
        name: a key of ``relearn.data.OUTLIERS``.
        size, channels: the network's input.
        count: number of images.
        seed: seed of the random draws.
        prepared: the in-distribution data, for ``corrupted``.
        folder: a folder that already holds the set, for ``cifar100`` and ``svhn``; None uses the cache or downloads.

    Raises:
        ValueError: an unknown name, a number below 1, more images than the set has, an impossible conversion, or an
            unexpected file.
        OSError: a file can neither be read nor downloaded.
    """
    from relearn.data import OUTLIERS

    if name not in OUTLIERS:
        nearest = difflib.get_close_matches(str(name), OUTLIERS, n=1, cutoff=0.0)[0]
        raise ValueError(
            f"outliers {name!r} are unknown; did you mean {nearest!r}? allowed: {', '.join(OUTLIERS)}"
        )
    for key, value in (("size", size), ("count", count)):
        if value < 1:
            raise ValueError(f"{name}: {key} is {value} (allowed: at least 1)")
    if channels not in (1, 3):
        raise ValueError(f"{name}: channels is {channels} (allowed: 1 and 3)")
    module, _, function = OUTLIERS[name].partition(":")
    opened: Callable[[Wanted], Outliers] = getattr(import_module(module), function)
    return opened(Wanted(size, channels, count, seed, prepared, folder))
