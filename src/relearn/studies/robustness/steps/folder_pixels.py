"""Decode a folder's images in batches under a protocol, hash them, and report images that cannot be decoded."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.studies.robustness.steps.image_sets import Protocol, hash_of_files

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.data.imagenet_folder import Listing

CENTER = "center"
CROPPED = ("c", "nine")
"""Sets that are published as crops."""


@dataclass(frozen=True)
class Bad:
    """An image that could not be decoded."""

    set: str
    file: str
    fault: str


def pixels(
    images: Listing,
    protocol: Mapping[str, Any],
    name: str,
    faults: dict[int, str],
    digests: dict[Path, str] | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of a set's images under its protocol; adds omitted images to ``faults`` and file hashes to ``digests``."""
    from relearn.data.central_crops import batches

    own = getattr(os, "sched_getaffinity", None)
    workers = max(2, min(16, len(own(0)) if own else os.cpu_count() or 2))
    return batches(
        images,
        size=protocol["size"],
        crop_ratio=ratio_of(protocol, name),
        interpolation=protocol["interpolation"],
        crop_mode=crop_mode_of(protocol),
        batch_size=protocol["batch_size"],
        workers=workers,
        faults=faults if protocol["on_bad_image"] == "skip" else None,
        digests=digests,
    )


def ratio_of(protocol: Mapping[str, Any], name: str) -> float:
    """The crop ratio of a set."""
    return protocol["cropped_ratio" if name.partition("_")[0] in CROPPED else "crop_ratio"]


def crop_mode_of(protocol: Mapping[str, Any]) -> str:
    """How images are resized before the crop; optional in a protocol, with default center."""
    return str(protocol.get("crop_mode", CENTER))


def protocol_of(
    images: Listing,
    protocol: Mapping[str, Any],
    name: str,
    source: str,
    left_out: int = 0,
    digests: Mapping[Path, str] | None = None,
) -> Protocol:
    """The protocol for a set's rows."""
    return Protocol(
        source=source,
        resize=math.floor(protocol["size"] / ratio_of(protocol, name)),
        crop=protocol["size"],
        interpolation=protocol["interpolation"],
        squashed=crop_mode_of(protocol) != CENTER,
        subset=hash_of_files(images, digests),
        left_out=left_out,
    )


def sound(images: Listing, faults: Mapping[int, str], name: str, bad: list[Bad]) -> Listing:
    """The images that could be decoded; the others are added to ``bad``.

    Raises:
        ValueError: no image could be decoded.
    """
    if not faults:
        return images
    for place in sorted(faults):
        path = images.files[place]
        bad.append(Bad(name, f"{path.parent.name}/{path.name}", faults[place]))
    kept = [place for place in range(len(images)) if place not in faults]
    if not kept:
        raise ValueError(f"set {name}: none of {len(images)} images can be decoded; allowed: at least one")
    return images.take(kept)
