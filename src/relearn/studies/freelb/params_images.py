"""Types, ranges and checks of ``freelb.images`` and ``freelb.train_images_adversarially``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from relearn.data.facts import MOST_FOR_TRAINING
from relearn.params.conflicts import Conflict, check
from relearn.params.types import (
    Batch,
    Count,
    Distinct,
    Multiple,
    NotNegative,
    Positive,
    SamplesOrAll,
    Section,
)
from relearn.params.vision import Sgd

Network = Literal[
    "ResNet18",
    "ResNet50",
    "SENet18",
    "MobileNetV2",
    "DenseNet121",
    "ResNet-110-BN",
    "VGG-19-BN",
    "WRN-28-10",
    "DenseNet-100-BN",
]


class Images(Section):
    dataset: Literal["digits", "cifar10"]
    train_per_class: SamplesOrAll

    @check
    def _train_per_class(self) -> Iterator[Conflict]:
        found, most = self.train_per_class, MOST_FOR_TRAINING[self.dataset]
        if not 2 <= found <= most:
            yield "train_per_class", f"found {found}, allowed: 2 to {most} images per class of {self.dataset}"


class ImageNetwork(Section):
    name: Network
    width: Multiple
    depth: Multiple


class TrainImages(Sgd):
    batch_size: Batch


@check
def radius(self: Any) -> Iterator[Conflict]:
    """A perturbation is projected only onto a ball of a radius above 0."""
    if self.project and not self.eps:
        yield "eps", "found 0.0, allowed: above 0, or project: false"


class Perturbation(Section):
    passes: Count
    norm: Literal["linf", "l2"]
    eps: NotNegative
    step_size: NotNegative
    start_norm: NotNegative
    project: bool

    _radius = radius


class Attack(Section):
    eps: Positive
    step_size: Positive
    steps: Count
    restarts: Count
    images: SamplesOrAll


class TrainImagesAdversarially(Section):
    methods: Distinct[Literal["vanilla", "pgd", "free_at", "freelb"]]
    network: ImageNetwork
    train: TrainImages
    perturbation: Perturbation
    attack: Attack
