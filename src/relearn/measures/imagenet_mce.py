r"""mCE on ImageNet-C as published: relative to AlexNet, on all 15 corruptions × 5 severities (Hendrycks & Dietterich, 2019).

.. math:: \mathrm{mCE} = \frac1{15} \sum_c \frac{\frac15 \sum_s E_{c,s}}{E^{\mathrm{AlexNet}}_c}

:data:`ALEXNET` holds the mean top-1 errors of AlexNet over the severities that the authors' evaluation divides by. They belong to
their corrupted files at 224 × 224: corruptions of other sizes, or drawn by a generator of one's own, have no such reference, and
relative to it their mCE would mean nothing.
"""

from __future__ import annotations

import math

from relearn.measures.corruption_error import Errors, mean_corruption_error

SEVERITIES = 5
ALEXNET = {
    "gaussian_noise": 0.886428,
    "shot_noise": 0.894468,
    "impulse_noise": 0.922640,
    "defocus_blur": 0.819880,
    "glass_blur": 0.826268,
    "motion_blur": 0.785948,
    "zoom_blur": 0.798360,
    "snow": 0.866816,
    "frost": 0.826572,
    "fog": 0.819324,
    "brightness": 0.564592,
    "contrast": 0.853204,
    "elastic_transform": 0.646056,
    "pixelate": 0.717840,
    "jpeg_compression": 0.606500,
}
"""Corruption → error (fraction), mean over the five severities."""


def imagenet_mce(errors: Errors) -> float:
    """mCE as a fraction (1 = as bad as AlexNet; papers print percent).

    Args:
        errors: for each of the 15 corruptions the error (fraction) at severities 1 to 5.

    Raises:
        ValueError: other corruptions, another number of severities, a value that is no fraction.
    """
    if odd := sorted(set(errors) ^ set(ALEXNET)):
        raise ValueError(f"corruption {odd[0]!r} is missing or unknown; allowed: all of {', '.join(ALEXNET)}")
    for name, row in errors.items():
        if len(row) != SEVERITIES:
            raise ValueError(f"{name}: {len(row)} severities; allowed: {SEVERITIES}")
        for value in row:
            if not 0 <= value <= 1:
                raise ValueError(f"{name}: {value}; allowed: fractions, 0 to 1")
    means = {name: [math.fsum(row) / len(row)] for name, row in errors.items()}
    return mean_corruption_error(means, {name: [value] for name, value in ALEXNET.items()})
