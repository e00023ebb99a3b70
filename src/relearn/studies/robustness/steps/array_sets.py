"""Evaluation on the released CIFAR-10-C and CIFAR-100-C arrays: one row per corruption and severity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from relearn.studies.robustness.steps.image_sets import BATCH, Protocol, Row, answers, counted, hash_of_pixels

if TYPE_CHECKING:
    from relearn.data.cifar_c import Arrays
    from relearn.models.vision_classifier import VisionClassifier

NAME = "cifar_c"


def opened(folder: Path, net: VisionClassifier, *, names: Sequence[str], severities: Sequence[int]) -> Arrays:
    """Open the arrays and check that the network fits their images and classes.

    Raises:
        ValueError: the network is for other images or classes, or :func:`relearn.data.cifar_c.arrays` rejects the folder.
    """
    from relearn.data.cifar_c import SIDE, arrays

    found, made = arrays(folder, names=names, levels=severities), net.description
    if (made["in_channels"], made["size"]) != (3, SIDE):
        size = made["size"]
        raise ValueError(
            f"set {NAME}: the network is for {made['in_channels']} x {size} x {size} pixels; allowed: 3 x {SIDE} x {SIDE}"
        )
    if (most := int(found.labels.max())) >= made["classes"]:
        raise ValueError(
            f"{folder}: label {most}; allowed: 0 to {made['classes'] - 1}, the network's classes"
        )
    return found


def rows(
    net: VisionClassifier,
    found: Arrays,
    *,
    images: int = 0,
    precision: str = "fp32",
    tick: Callable[[], object] = lambda: None,
) -> list[Row]:
    """Evaluate the network and return one row per corruption and severity.

    Args:
        found: result of :func:`opened`.
        images: number of images per array and severity, evenly spaced; 0: all.
        tick: called after each corruption.

    Raises:
        NotFinite: a logit is not finite. ValueError, OSError: an array cannot be read.
    """
    import torch

    from relearn.data.evenly_spaced import evenly_spaced

    made = []
    for name in found.names:
        for level in found.levels:
            pixels, labels = (evenly_spaced(torch.from_numpy(one), images) for one in found.part(name, level))
            source = f"CIFAR-{net.description['classes']}-C, released arrays"
            how = Protocol(source, subset=hash_of_pixels(pixels, labels))
            free, _ = answers(net, pixels.split(BATCH), precision=precision)
            made.append(counted(NAME, free == labels, how, corruption=name, severity=level))
        tick()
    return made
