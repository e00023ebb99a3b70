r"""Noise images with independent pixels, as in Liang, Li and Srikant (2018, arXiv 1706.02690, section 4.2).

.. math:: x_{chw} = \min(1, \max(0, z_{chw})), \quad z \sim N(1/2, 1) \qquad\text{or}\qquad x_{chw} \sim U(0, 1)

Pixels are rounded to the nearest of the 256 levels, as in all other sets.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from relearn.data.outlier_images import Outliers, Wanted


def gaussian(wanted: Wanted) -> Outliers:
    """N(1/2, 1) clipped to [0, 1]: about 31% of the pixels are black and as many white."""
    return Outliers(
        _levels(wanted.generator("gaussian_noise").normal(0.5, 1.0, _shape(wanted))),
        f"{wanted.count} images of Gaussian noise, N(1/2, 1) cut to [0, 1], seed {wanted.seed}",
    )


def uniform(wanted: Wanted) -> Outliers:
    """Pixels from U(0, 1)."""
    return Outliers(
        _levels(wanted.generator("uniform_noise").random(_shape(wanted))),
        f"{wanted.count} images of uniform noise, seed {wanted.seed}",
    )


def _shape(wanted: Wanted) -> tuple[int, int, int, int]:
    return wanted.count, wanted.channels, wanted.size, wanted.size


def _levels(pixels: NDArray[np.float64]) -> NDArray[np.uint8]:
    return np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
