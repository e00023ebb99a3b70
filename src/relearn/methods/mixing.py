r"""Mixing of a batch's images and labels: mixup, CutMix, or one of the two at random.

A mixture maps a batch ``(images, labels, *rest)`` to another one. Labels (B,) become probabilities (B, classes), which
``torch.nn.functional.cross_entropy`` accepts. Labels that are already probabilities are mixed as they are; ``rest`` is not changed.

**Label smoothing** commutes with every mixture here, because both are linear in the labels:

.. math:: \mathrm{CE}_\epsilon(z, q) = (1 - \epsilon)\,\mathrm{CE}(z, q) + \frac{\epsilon}{K} \sum_k -\log p_k(z)
    = \mathrm{CE}\big(z, (1 - \epsilon)\, q + \epsilon / K\big),

which ``cross_entropy(z, q, label_smoothing=ε)`` computes, both for classes and for probabilities.

All random numbers come from the CPU generator passed by the training loop, see :mod:`relearn.methods.augmentation`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relearn.methods.augmentation import Mix


def mixup(alpha: float, classes: int) -> Mix:
    r"""mixup (Zhang et al. 2018, arXiv 1710.09412) of a batch ``(images, labels, *rest)``.

    .. math:: \tilde x = \lambda x + (1 - \lambda)\, x_\pi, \quad \tilde y = \lambda\, e_y + (1 - \lambda)\, e_{y_\pi}, \quad
        \lambda \sim \mathrm{Beta}(\alpha, \alpha)

    with one :math:`\lambda` and one permutation :math:`\pi` per batch. The loss is the λ-weighted mean of the two losses.

    Raises:
        ValueError: ``alpha`` ≤ 0.
    """
    _positive("mixup alpha", alpha)

    def mix(batch: Sequence[Any], generator: torch.Generator) -> list[Any]:
        images, labels, *rest = batch
        weight = _beta(alpha, generator)
        other = torch.randperm(len(images), generator=generator).to(images.device)
        images = torch.lerp(images[other], images, weight)
        return [images, _mixed_labels(labels, images, other, weight, classes), *rest]

    return mix


def cutmix(alpha: float, classes: int) -> Mix:
    r"""CutMix (Yun et al. 2019, arXiv 1905.04899, section 3) of a batch ``(images, labels, *rest)``.

    .. math:: \tilde x = M \odot x + (1 - M) \odot x_\pi, \quad \tilde y = \lambda\, e_y + (1 - \lambda)\, e_{y_\pi}, \quad
        \lambda = \frac{1}{HW} \sum_{ij} M_{ij}

    with one box (the zeros of M) and one permutation :math:`\pi` per batch. The box has :math:`\lfloor H \sqrt{1 - \lambda'}
    \rfloor` rows (s) and :math:`\lfloor W \sqrt{1 - \lambda'} \rfloor` columns, with :math:`\lambda' \sim \mathrm{Beta}(\alpha,
    \alpha)`. Its centre (r, c) is uniform over the image, and it covers the rows :math:`r - \lfloor s/2 \rfloor` to :math:`r -
    \lfloor s/2 \rfloor + s - 1`, columns alike; parts outside the image are cut off. The labels therefore use the area
    **actually** pasted, not λ' (the paper's equation 2 equates the two; its released code corrects the labels, as here).

    Raises:
        ValueError: ``alpha`` ≤ 0.
    """
    _positive("cutmix alpha", alpha)

    def mix(batch: Sequence[Any], generator: torch.Generator) -> list[Any]:
        images, labels, *rest = batch
        height, width = images.shape[-2:]
        side = math.sqrt(1.0 - _beta(alpha, generator))
        other = torch.randperm(len(images), generator=generator).to(images.device)
        top, bottom = _span(height, side, generator)
        left, right = _span(width, side, generator)
        pasted = images.clone()
        pasted[..., top:bottom, left:right] = images[other, ..., top:bottom, left:right]
        weight = 1.0 - (bottom - top) * (right - left) / (height * width)
        return [pasted, _mixed_labels(labels, images, other, weight, classes), *rest]

    return mix


def mixup_or_cutmix(mixup_alpha: float, cutmix_alpha: float, classes: int, switch: float = 0.5) -> Mix:
    """One coin flip per batch: :func:`cutmix` with probability ``switch``, else :func:`mixup`.

    This is the ``batch`` mode of timm's ``Mixup``, which qi2023's released code uses for training (0.8, 1.0, switch 0.5). There
    the partner of image i is image B - 1 - i; here it comes from a random permutation, as in both papers.

    Raises:
        ValueError: an alpha ≤ 0; ``switch`` outside [0, 1].
    """
    if not 0 <= switch <= 1:
        raise ValueError(f"switch: found {switch}, allowed is 0 to 1")
    blended, pasted = mixup(mixup_alpha, classes), cutmix(cutmix_alpha, classes)

    def mix(batch: Sequence[Any], generator: torch.Generator) -> list[Any]:
        coin = float(torch.rand((), generator=generator, dtype=torch.float64))
        return (pasted if coin < switch else blended)(batch, generator)

    return mix


def _positive(key: str, value: float) -> None:
    if not value > 0:
        raise ValueError(f"{key}: found {value}, allowed is more than 0")


def _beta(alpha: float, generator: torch.Generator) -> float:
    """A draw from Beta(α, α) by Python's seeded generator, because torch's Beta distribution uses the global state only."""
    seed = int(torch.randint(2**62, (), generator=generator))
    return random.Random(seed).betavariate(alpha, alpha)


def _span(length: int, side: float, generator: torch.Generator) -> tuple[int, int]:
    """First pixel and one past the last pixel of the box along one axis; without clipping it covers the share ``side``."""
    size = int(length * side)
    start = int(torch.randint(length, (), generator=generator)) - size // 2
    return max(start, 0), min(start + size, length)


def _mixed_labels(labels: Tensor, images: Tensor, other: Tensor, weight: float, classes: int) -> Tensor:
    if labels.dim() == 1:
        labels = nn.functional.one_hot(labels, classes).to(images.dtype)
    return torch.lerp(labels[other], labels, weight)
