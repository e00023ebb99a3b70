"""patch_similarity: measure the similarity of patches by layer, trained and at initialisation.

Settings: task (images | folder: the kind of data that the network was trained on), images (number of test images, evenly spaced; 0:
all), batch_size, absolute (whether to use the absolute value of each pair's cosine). Inputs: data (as for train_vision), network (its
model.safetensors). Output: similarity.csv (moment: start | end, layer from 1, cosine; see :mod:`relearn.measures.patch_similarity`).
Metrics: deep_cosine and start_deep_cosine, means over the deeper half of the layers (the last ⌊L/2⌋ of L); cosine_first,
cosine_last, layers_count, images_count; last_patches_count, the number of patches in the last layer, and last_window_count, the number
that a window of its long-short attention covers.

The initial weights are re-drawn from the network's description in the file and the run's seed; they equal those from which
`train_vision` starts with the same seed. A network with non-finite patches is recorded as diverged, with empty cells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from relearn.steps.csv_rows import write_rows

if TYPE_CHECKING:
    from relearn.models.vision_classifier import VisionClassifier

NEEDS_TORCH = True
COLUMNS = ("moment", "layer", "cosine")


@dataclass(frozen=True, kw_only=True)
class Settings:
    task: Literal["images", "folder"]
    images: int
    batch_size: int
    absolute: bool


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from relearn.data.evenly_spaced import evenly_spaced
    from relearn.measures.patch_similarity import last_grid, patch_similarity
    from relearn.models import vision
    from relearn.runs.console import Progress
    from relearn.steps.tasks import OnFolder, OnImages, open_task

    net = vision.FILE.load(inputs["network"][0], device)
    plain: OnImages | OnFolder = OnImages(crop_padding=0, flip=False)
    if settings.task == "folder":
        plain = OnFolder(task="folder", size=net.description["size"])
    task: Any = open_task(plain, inputs, device)
    images = evenly_spaced(task.test_images, settings.images)
    found: dict[str, list[float]] = {}
    with Progress(f"patch_similarity {' '.join(run.labels.values())}") as progress:
        for number, (moment, one) in enumerate((("start", started(net, run.seed)), ("end", net)), 1):
            found[moment] = patch_similarity(
                one.to(device),
                images,
                batch_size=settings.batch_size,
                absolute=settings.absolute,
                precision=precision,
            )
            progress(number, 2)
    write_rows(
        run.output("similarity.csv"),
        COLUMNS,
        (
            {"moment": moment, "layer": layer, "cosine": cosine if math.isfinite(cosine) else None}
            for moment, cosines in found.items()
            for layer, cosine in enumerate(cosines, 1)
        ),
    )
    patches, window = last_grid(net, images[:1].float() / 255.0)
    metrics = {"last_patches_count": float(patches)}
    if window is not None:
        metrics["last_window_count"] = float(window)
    metrics |= {
        "layers_count": float(len(found["end"])),
        "images_count": float(len(images)),
        **summary(found),
    }
    odd_ones = [moment for moment, cosines in found.items() if not all(map(math.isfinite, cosines))]
    run.finish(
        {name: value for name, value in metrics.items() if math.isfinite(value)},
        outcome="diverged" if odd_ones else "ok",
        outcome_reason="patches are not finite" if odd_ones else None,
        notes=["modulus of each pair's cosine" if settings.absolute else "cosine of each pair with its sign"],
    )


def started(net: VisionClassifier, seed: int) -> VisionClassifier:
    """The network with the weights from which `train_vision` starts with this seed."""
    import torch

    from relearn.models import vision

    torch.manual_seed(seed)
    return vision.create(**net.description)


def summary(found: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Means over the deeper half of the layers; for a single layer, that layer."""
    deep = {moment: list(rows)[-max(len(rows) // 2, 1) :] for moment, rows in found.items()}
    mean = {moment: math.fsum(rows) / len(rows) for moment, rows in deep.items()}
    return {
        "deep_cosine": mean["end"],
        "start_deep_cosine": mean["start"],
        "cosine_first": found["end"][0],
        "cosine_last": found["end"][-1],
    }
