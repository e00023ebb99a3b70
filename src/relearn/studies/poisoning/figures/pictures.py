"""Helpers for figures of images: the gallery stored with a ``craft`` record, and panels without axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relearn.report.artefacts import Artefact, Row
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, select

GALLERY = "gallery.safetensors"


@dataclass(frozen=True)
class Gallery:
    """Images of the first G targets of one attack, from its lowest seed; uint8, channels last.

    ``target`` (G, H, W, C), ``base`` (k, H, W, C), ``poison`` (G, k, H, W, C); ``numbers`` are the target numbers.
    """

    run: Run
    numbers: list[int]
    target: NDArray[np.uint8]
    base: NDArray[np.uint8]
    poison: NDArray[np.uint8]


def gallery(artefact: Artefact, row: Row, evidence: Evidence) -> Gallery | None:
    """The images of a row's attack; None if nothing was crafted or crafting diverged.

    Raises:
        RecordError: the file's bytes do not match the record; the message names the file.
    """
    from safetensors.numpy import load

    runs = [run for run in select(evidence.runs, *artefact.where, row.where) if not run.diverged]
    for run in sorted(runs, key=lambda run: run.seed):
        if run.has(GALLERY):
            images = load(run.content(GALLERY))
            found = {name: np.moveaxis(image, -3, -1) for name, image in images.items()}
            numbers = [int(one["target"]) for one in run.trials[: len(found["target"])]]
            return Gallery(run, numbers, *(found[name] for name in ("target", "base", "poison")))
    return None


def image(axes: Any, pixels: NDArray[Any]) -> None:
    """Show one image without interpolation; a single-channel image is shown in grey."""
    if pixels.shape[-1] == 1:
        axes.imshow(pixels[..., 0], cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    else:
        axes.imshow(pixels, interpolation="nearest")
    bare(axes)


def bare(axes: Any) -> None:
    axes.set(xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set_visible(False)
