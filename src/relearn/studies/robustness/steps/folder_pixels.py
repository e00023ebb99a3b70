"""Decode a folder's images in batches, hash them, and report images that cannot be decoded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from relearn.studies.robustness.steps.image_sets import Protocol, hash_of_files

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.data.imagenet_folder import Listing

CENTER = "center"
CROPPED = ("c", "nine")
"""Sets that are published as crops."""
Policy = Literal["fail", "skip"]


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How the images of all folders are read; see :mod:`relearn.data.central_crops`.

    Args:
        size: side of the crop in pixels.
        crop_ratio: crop over resized shorter side.
        cropped_ratio: the same for :data:`CROPPED`.
        crop_mode: with ``center`` the ratio of the sides is kept.
    """

    size: int
    crop_ratio: float
    cropped_ratio: float
    crop_mode: str = CENTER
    interpolation: str
    batch_size: int
    on_bad_image: Policy
    on_missing_class: Policy

    def ratio(self, name: str) -> float:
        """The crop ratio of a set."""
        return self.cropped_ratio if name.partition("_")[0] in CROPPED else self.crop_ratio


@dataclass(frozen=True)
class Bad:
    """An image that could not be decoded."""

    set: str
    file: str
    fault: str


def pixels(
    images: Listing,
    how: Decoding,
    name: str,
    faults: dict[int, str],
    digests: dict[Path, str] | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of a set's images; adds omitted images to ``faults`` and file hashes to ``digests``."""
    from relearn.data.central_crops import batches
    from relearn.data.imagenet_folder import decoding_threads

    return batches(
        images,
        size=how.size,
        crop_ratio=how.ratio(name),
        interpolation=how.interpolation,
        crop_mode=how.crop_mode,
        batch_size=how.batch_size,
        workers=decoding_threads(),
        faults=faults if how.on_bad_image == "skip" else None,
        digests=digests,
    )


def protocol_of(
    images: Listing,
    how: Decoding,
    name: str,
    source: str,
    left_out: int = 0,
    digests: Mapping[Path, str] | None = None,
) -> Protocol:
    """The protocol for a set's rows."""
    return Protocol(
        source=source,
        resize=math.floor(how.size / how.ratio(name)),
        crop=how.size,
        interpolation=how.interpolation,
        squashed=how.crop_mode != CENTER,
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
