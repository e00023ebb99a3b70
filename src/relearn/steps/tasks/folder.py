"""Images in class folders as a task: decoded on the way to the network, for what does not fit into memory (ImageNet).

Training images get their random crop and flip as they are decoded; validation images are resized and cropped in the middle once
and kept in the cache. Both stay where RELEARN_MIRROR has them: the task's data is the listing that `relearn folder` wrote.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from relearn.data.cache import cache_folder, writable_folder
from relearn.data.class_folders import root_of, sha256_of
from relearn.data.imagenet_folder import FolderBatches, listing, validation
from relearn.methods.batch_source import pixels
from relearn.steps.tasks.images import Images

# Of ImageNet's training images, RGB, in pixel units: the usual constants, so that no pass over all images is needed.
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
RESIZE = 256 / 224  # shorter side before the central crop, to the crop's


class Folder(Images):
    """Images that ``listing.json`` tells of; networks, their files and the loss are those of :class:`Images`.

    Args:
        settings: ``size`` (pixels of a side of what the network sees).
        data: what `relearn folder` wrote.
        device: where networks and batches lie.

    Raises:
        ValueError: the folder is missing, or its files are not those of the listing.
    """

    def __init__(self, settings: Mapping[str, Any], data: Path, device: str) -> None:
        told = json.loads(data.read_text(encoding="utf-8"))
        root = root_of(told["dataset"])
        if sha256_of(root) != told["sha256"]:
            raise ValueError(
                f"{root}: files are not those of {data} (allowed: the same; without it they are listed anew)"
            )
        self.train = listing(root / "train")
        self.tested = listing(root / "val", classes=self.train.classes)
        self.test_labels = self.tested.labels
        self.size, self.classes, self.device = settings["size"], len(self.train.classes), torch.device(device)
        self.mean, self.std = MEAN, STD
        self.augment = None  # type: ignore[assignment]  # the source does that

    @cached_property
    def test_images(self) -> Tensor:  # type: ignore[override]
        """(N, 3, S, S) uint8, mapped from the cache."""
        cache = writable_folder(cache_folder())[0] / "validation"
        resize = round(self.size * RESIZE)
        return validation(self.tested, size=self.size, resize=resize, workers=self.workers, cache=cache)

    @property
    def workers(self) -> int:
        """Threads that decode: as many as there are cores for this process, 16 at most; they change no bit."""
        own = getattr(os, "sched_getaffinity", None)
        return max(2, min(16, len(own(0)) if own else os.cpu_count() or 2))

    def describe(self, network: Mapping[str, Any]) -> dict[str, Any]:
        return {**network, "classes": self.classes, "in_channels": 3, "mean": self.mean, "std": self.std}

    def source(self, size: int) -> FolderBatches:
        """Batches of ``size`` for the training loop."""
        return FolderBatches(self.train, batch_size=size, size=self.size, workers=self.workers)

    def steps_per_epoch(self, size: int) -> int:
        return self.source(size).batches_per_epoch

    def batches(self, seed: int, size: int) -> Iterator[Sequence[Any]]:
        generator = torch.Generator().manual_seed(seed)
        source = self.source(size)
        while True:
            for batch in source.epoch(generator):
                if len(batch[1]) < min(size, len(self.train)):
                    continue  # every batch alike, so that each has the same weight
                images, labels = pixels(batch, self.device)
                yield images, labels

    def pools(self, seed: int, size: int, overlap: float) -> Iterator[Sequence[Any]]:
        count = math.ceil(size * (2.0 - overlap) - 1e-9)
        return self.batches(seed, min(count, len(self.train)))
