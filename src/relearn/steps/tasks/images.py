"""Image classification as a task: prepared images, with all training images in one set, and the networks of ``relearn.models``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relearn.data.arrays import load_prepared
from relearn.methods.augmentation import compose, crop_and_flip, cutout
from relearn.methods.batch_source import Resident, pixels
from relearn.models import create, files

if TYPE_CHECKING:
    from relearn.steps.tasks import OnImages


class Images:
    """Training images (N, C, H, W) uint8 and labels on ``device``: all images of the split except the test images.

    Args:
        settings: its part of the step's settings.
        data: output of `prepare_images`.
        device: device of images, networks and batches.
    """

    own_start = "kaiming"

    def __init__(self, settings: OnImages, data: Path, device: str) -> None:
        prepared = load_prepared(data)
        index = torch.cat([prepared.tensors["pretrain"], prepared.tensors["pool"]]).sort().values
        self.images, self.labels = prepared.images[index].to(device), prepared.labels[index].to(device)
        self.test_images, self.test_labels = prepared.test()
        self.mean, self.std = prepared.mean.tolist(), prepared.std.tolist()
        self.classes, self.device = len(prepared.classes), torch.device(device)
        steps = [crop_and_flip(settings.crop_padding, settings.flip)]
        if settings.cutout:
            # The published code writes zeros after normalisation, which correspond to the channel means before it.
            steps.append(cutout(settings.cutout, fill=self.mean))
        self.augment = compose(*steps)

    @staticmethod
    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        """Mean cross entropy in nats; labels may be classes or probabilities."""
        return cross_entropy(logits.float() if logits.dtype == torch.bfloat16 else logits, labels)

    def describe(self, network: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments of ``relearn.models.create`` for a network (name, width, depth) on these images."""
        channels = self.images.shape[1]
        return {
            **network,
            "classes": self.classes,
            "in_channels": channels,
            "mean": self.mean,
            "std": self.std,
        }

    def create(self, network: Mapping[str, Any]) -> nn.Module:
        described = self.describe(network)
        model = create(**described).to(self.device)
        model.description = described  # type: ignore[assignment]  # stored in the file, to rebuild the network
        return model

    def network(self, path: Path) -> nn.Module:
        from safetensors import safe_open

        model = files.load(path, self.device)
        with safe_open(path, "pt") as file:
            described = json.loads(file.metadata()["network"])
        for key, wanted in self.describe({}).items():
            if described.get(key) != wanted:
                raise ValueError(
                    f"{path}: a network with {key} {described.get(key)} (allowed: {wanted}, as in the data)"
                )
        model.description = described
        return model

    def save(self, model: nn.Module, path: Path) -> None:
        description: dict[str, Any] = model.description  # type: ignore[assignment]
        files.save(model, path, description)

    def steps_per_epoch(self, size: int) -> int:
        return Resident((self.images, self.labels), size).batches_per_epoch

    def batches(self, seed: int, size: int) -> Iterator[Sequence[Any]]:
        generator = torch.Generator().manual_seed(seed)
        source = Resident((self.images, self.labels), size)
        while True:
            for batch in source.epoch(generator):
                if len(batch[0]) < min(size, len(self.images)):
                    continue  # all batches have the same size, so that each has the same weight
                images, labels = pixels(batch, self.device)
                yield self.augment(images, generator), labels

    def pools(self, seed: int, size: int, overlap: float) -> Iterator[Sequence[Any]]:
        count = math.ceil(
            size * (2.0 - overlap) - 1e-9
        )  # the rounding error of 2 - 0.9 must not add an image
        return self.batches(seed, min(count, len(self.images)))
