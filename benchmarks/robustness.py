"""Overhead of the robustness protocol: PGD beyond its gradients, and the corruptions.

PGD: CPU time of an attack divided by its steps, compared with a bare pass: forward, loss, gradient of the images, with frozen weights.
The attack also tracks the worst point, its loss curve and the ball, and evaluates the clean image and the last point. Its restarts
in one batch are compared with one after the other.

Corruptions: 5 severities each, in batches, compared with a loop over single images with SciPy and Pillow, as in the released program
(for the five that need no other library); CPU seconds per 1,000 images. The row `all 15` has no baseline.
"""

from __future__ import annotations

import argparse
import math
import time
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage
from timing import compare, report
from torch.nn.functional import cross_entropy

from relearn.data.corruptions import LEVELS, NAMES, SEVERITIES, corrupt
from relearn.maths.eval_mode import frozen
from relearn.methods.pgd import pgd
from relearn.models import create

Image = NDArray[Any]
NETWORKS = (
    ("ResNet18", 0.125, 1, 8, 100),
    ("DenseNet121", 0.125, 1, 8, 100),
    ("ResNet18", 0.25, 3, 32, 20),
)
STEPS = 10


def attack_rows(pairs: int) -> list[dict[str, Any]]:
    rows = []
    for name, width, channels, side, count in NETWORKS:
        torch.manual_seed(0)
        net = create(name, in_channels=channels, width=width).eval()
        images, labels = torch.rand(count, channels, side, side), torch.randint(0, 10, (count,))

        def ours(net: Any = net, images: Any = images, labels: Any = labels) -> None:
            pgd(net, images, labels, eps=8 / 255, step_size=2 / 255, steps=STEPS)

        def bare(net: Any = net, images: Any = images, labels: Any = labels) -> None:
            with frozen(net):
                for _ in range(STEPS):
                    x = images.requires_grad_(True)
                    torch.autograd.grad(cross_entropy(net(x), labels, reduction="sum"), x)
            images.requires_grad_(False)

        found = compare(ours, bare, pairs)
        rows.append(
            {
                "what": f"PGD step, {name} x{width:g}, {count} images of {channels}x{side}x{side}",
                "reference": "bare forward and input gradient",
                **{key: value / (STEPS if key.endswith("_s") else 1) for key, value in found.items()},
            }
        )
    for name in ("ResNet18", "DenseNet121"):
        torch.manual_seed(0)
        net = create(name, in_channels=1, width=0.125).eval()
        images, labels = torch.rand(30, 1, 8, 8), torch.randint(0, 10, (30,))

        def attack(batch: int, net: Any = net, images: Any = images, labels: Any = labels) -> None:
            pgd(net, images, labels, eps=0.06, step_size=0.015, steps=STEPS, restarts=2, batch=batch)

        found = compare(partial(attack, 60), partial(attack, 30), pairs)
        what = f"PGD, 2 restarts in one batch, {name} x0.125, 30 images of 1x8x8"
        rows.append({"what": what, "reference": "one restart after the other", **found})
    return rows


def glass(x: Image, constants: Any, random: np.random.Generator) -> Image:
    sigma, shift, rounds = constants
    x = ndimage.gaussian_filter(x, (0, sigma, sigma), mode="nearest")
    for _ in range(rounds):
        for row in range(x.shape[1] - shift, shift, -1):
            for column in range(x.shape[2] - shift, shift, -1):
                down, right = random.integers(-shift, shift, 2)
                other = (slice(None), row + down, column + right)
                kept = x[:, row, column].copy()
                x[:, row, column] = x[other]
                x[other] = kept
    return ndimage.gaussian_filter(x, (0, sigma, sigma), mode="nearest")


def zoom(x: Image, largest: float, random: np.random.Generator) -> Image:
    side, total = x.shape[1], x.copy()
    factors = np.arange(1, largest + 0.005, 0.01)
    for factor in factors:
        cut = math.ceil(side / factor)
        top = (side - cut) // 2
        large = ndimage.zoom(x[:, top : top + cut, top : top + cut], (1, factor, factor), order=1)
        trim = (large.shape[1] - side) // 2
        total += large[:, trim : trim + side, trim : trim + side]
    return total / (len(factors) + 1)


def elastic(x: Image, constants: Any, random: np.random.Generator) -> Image:
    strength, sigma, corner = constants
    side = x.shape[1]
    matrix = np.eye(2) + random.uniform(-corner, corner, (2, 2))
    x = np.stack([ndimage.affine_transform(c, matrix, order=1, mode="mirror") for c in x])
    rough = random.uniform(-1, 1, (2, side, side))
    moved = np.mgrid[0:side, 0:side] + strength * side * ndimage.gaussian_filter(
        rough, (0, sigma * side, sigma * side)
    )
    return np.stack([ndimage.map_coordinates(c, moved, order=1, mode="mirror") for c in x])


def defocus(x: Image, constants: Any, random: np.random.Generator) -> Image:
    radius, sigma = constants
    line = np.arange(-8, 9)
    disc = (line[:, None] ** 2 + line**2 <= radius**2).astype(np.float32)
    disc = ndimage.gaussian_filter(disc / disc.sum(), sigma, truncate=1 / sigma)
    return np.stack([ndimage.correlate(c, disc, mode="mirror") for c in x])


def pixelate(x: Image, factor: float, random: np.random.Generator) -> Image:
    from PIL import Image as Pictures

    side = x.shape[1]
    less = int(side * factor)
    picture = Pictures.fromarray((x.transpose(1, 2, 0) * 255).astype(np.uint8))
    small = picture.resize((less, less), Pictures.Resampling.BOX)
    return np.asarray(small.resize((side, side), Pictures.Resampling.BOX)).transpose(2, 0, 1) / 255


BY_IMAGE = {
    "glass_blur": glass,
    "zoom_blur": zoom,
    "elastic_transform": elastic,
    "defocus_blur": defocus,
    "pixelate": pixelate,
}


def corruption_rows(count: int) -> list[dict[str, Any]]:
    images = np.random.default_rng(0).integers(0, 256, (count, 3, 32, 32), np.uint8)
    few = images[: max(count // 10, 1)]
    rows, ours = [], {}
    for name in NAMES:
        corrupt(images[:2], name, 1)  # imports and caches
        start = time.process_time()
        for level in LEVELS:
            corrupt(images, name, level)
        ours[name] = (time.process_time() - start) * 1000 / count
    for name, by_image in BY_IMAGE.items():
        random = np.random.default_rng(0)
        start = time.process_time()
        for constants in SEVERITIES[name]:
            for image in few:
                by_image(image.astype(np.float32) / 255, constants, random)
        reference = (time.process_time() - start) * 1000 / len(few)
        rows.append(
            {
                "what": f"{name}, 5 severities, 1,000 images of 3x32x32",
                "reference": "one image after the other, SciPy or Pillow",
                "ratio": ours[name] / reference,
                "ours_s": ours[name],
                "reference_s": reference,
            }
        )
    rows.append({"what": "all 15, 5 severities, 1,000 images of 3x32x32", "ours_s": sum(ours.values())})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="PGD steps and corruptions: CPU time")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = [*attack_rows(arguments.pairs), *corruption_rows(arguments.images)]
    report("robustness", rows, pgd_steps=STEPS, images=arguments.images)


if __name__ == "__main__":
    main()
