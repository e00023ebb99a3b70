"""Images in class folders as a task: decoded during training, for data sets that do not fit into memory (ImageNet).

Training images are cropped and flipped at random when they are decoded; validation images are resized and centrally cropped
once and cached. The files stay below RELEARN_MIRROR; the task's data is the listing written by `list_imagenet`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from relearn.data.cache import cache_folder, writable_folder
from relearn.data.class_folders import listed_root
from relearn.data.imagenet_folder import FolderBatches, decoding_threads, listing, validation
from relearn.methods.batch_source import Source, pixels
from relearn.steps.tasks.images import Images

if TYPE_CHECKING:
    from relearn.steps.tasks import OnFolder

# Mean and standard deviation of ImageNet's training images, RGB, in pixel units: the usual constants, without a pass over all images.
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
RESIZE = 256 / 224  # shorter side before the central crop, relative to the crop


class Assembled:
    """Batches of which each process decodes a share, assembled to the whole batch in every process.

    The loop augments and mixes whole batches, so they are those of a single process, bit for bit.

    Args:
        decoded: yields this process's rows of every batch, and all labels.
        processes: :mod:`relearn.methods.parallel`.
        device: where the rows are exchanged.
    """

    def __init__(self, decoded: FolderBatches, processes: Any, device: torch.device) -> None:
        self.decoded, self.processes, self.device = decoded, processes, device
        self.batches_per_epoch = decoded.batches_per_epoch

    def epoch(self, generator: torch.Generator) -> Iterator[Sequence[Any]]:
        for images, labels in self.decoded.epoch(generator):
            yield self.processes.concatenated(images.to(self.device), len(labels)), labels


class Folder(Images):
    """Images listed in ``listing.json``; networks, their files and the loss are those of :class:`Images`.

    Args:
        settings: its part of the step's settings.
        data: output of `list_imagenet`.
        device: device of networks and batches.

    Raises:
        ValueError: the folder is missing, or its files are not those of the listing.
    """

    def __init__(self, settings: OnFolder, data: Path, device: str) -> None:
        root = listed_root(data)
        self.train = listing(root / "train")
        self.tested = listing(root / "val", classes=self.train.classes)
        self.test_labels = self.tested.labels
        self.size, self.classes, self.device = settings.size, len(self.train.classes), torch.device(device)
        self.mean, self.std = MEAN, STD
        self.augment = None  # type: ignore[assignment]  # the source augments

    @cached_property
    def test_images(self) -> Tensor:  # type: ignore[override]
        """Test images (N, 3, S, S) uint8, memory-mapped from the cache."""
        cache = writable_folder(cache_folder())[0] / "validation"
        resize = round(self.size * RESIZE)
        return validation(self.tested, size=self.size, resize=resize, workers=decoding_threads(), cache=cache)

    def describe(self, network: Mapping[str, Any]) -> dict[str, Any]:
        return {**network, "classes": self.classes, "in_channels": 3, "mean": self.mean, "std": self.std}

    def source(self, size: int, processes: Any = None) -> Source:
        """Batches of ``size`` for the training loop; several ``processes`` share the decoding."""
        rank, count = processes.world() if processes else (0, 1)
        decoded = FolderBatches(
            self.train,
            batch_size=size,
            size=self.size,
            workers=max(1, decoding_threads() // count),
            part=(rank, count),
        )
        return Assembled(decoded, processes, self.device) if processes and count > 1 else decoded

    def steps_per_epoch(self, size: int) -> int:
        return self.source(size).batches_per_epoch

    def batches(self, seed: int, size: int) -> Iterator[Sequence[Any]]:
        generator = torch.Generator().manual_seed(seed)
        source = self.source(size)
        while True:
            for batch in source.epoch(generator):
                if len(batch[1]) < min(size, len(self.train)):
                    continue  # all batches have the same size, so that each has the same weight
                images, labels = pixels(batch, self.device)
                yield images, labels

    def pools(self, seed: int, size: int, overlap: float) -> Iterator[Sequence[Any]]:
        count = math.ceil(size * (2.0 - overlap) - 1e-9)
        return self.batches(seed, min(count, len(self.train)))
