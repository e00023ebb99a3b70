"""The published constants of CIFAR-10-C, severity 1 to 5, for 32 × 32 images with pixels in [0, 1].

Source: the generator that the authors released with the benchmark (github.com/hendrycks/robustness, ImageNet-C/create_c/
make_cifar_c.py, Apache-2.0). The paper prints none of them. Its four extra corruptions (speckle noise, Gaussian blur, spatter,
saturate), meant for validation, are not part of the benchmark's mean and are omitted.
"""

from __future__ import annotations

from typing import Any

SIZE = 32
"""Side of the images for which lengths are given, in pixels."""

SEVERITIES: dict[str, tuple[Any, ...]] = {
    # standard deviation
    "gaussian_noise": (0.04, 0.06, 0.08, 0.09, 0.10),
    # photons of a white pixel
    "shot_noise": (500, 250, 100, 75, 50),
    # fraction of values that become 0 or 1
    "impulse_noise": (0.01, 0.02, 0.03, 0.05, 0.07),
    # radius of the disc, σ of its smoothing; pixels
    "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1)),
    # σ of the blur before and after, largest shift in pixels, rounds
    "glass_blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    # radius and σ of the line; pixels
    "motion_blur": ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5)),
    # largest zoom factor, up to rounding; in steps of 0.01 from 1
    "zoom_blur": (1.05, 1.10, 1.15, 1.20, 1.25),
    # mean, std and zoom of the flakes, threshold, radius and σ of their motion, weight of the image
    "snow": (
        (0.10, 0.2, 1.00, 0.60, 8, 3, 0.95),
        (0.10, 0.2, 1.00, 0.50, 10, 4, 0.90),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.90),
        (0.25, 0.3, 2.25, 0.60, 12, 6, 0.85),
        (0.30, 0.3, 1.25, 0.65, 14, 12, 0.80),
    ),
    # weights of the image and of the frost
    "frost": ((1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
    # weight of the fog, decay of its wobble
    "fog": ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75)),
    # added to the value (HSV)
    "brightness": (0.05, 0.10, 0.15, 0.20, 0.30),
    # factor about the channel's mean
    "contrast": (0.75, 0.5, 0.4, 0.3, 0.15),
    # strength of the shifts, σ of their smoothing, largest shift of the affine map's corners; fractions of the side
    "elastic_transform": (
        (0.00, 0.00, 0.08),
        (0.05, 0.20, 0.07),
        (0.08, 0.06, 0.06),
        (0.10, 0.04, 0.05),
        (0.10, 0.03, 0.03),
    ),
    # factor on the side
    "pixelate": (0.95, 0.90, 0.85, 0.75, 0.65),
    # JPEG quality
    "jpeg_compression": (80, 65, 58, 50, 40),
}
