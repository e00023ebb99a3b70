"""Sections and checks of params.yaml shared by the studies that train image networks: images and training recipes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Annotated, Any, Literal

from pydantic import Field

from relearn.data.facts import CLASSES, MOST_FOR_TRAINING, SIDE, images_for_testing
from relearn.params.conflicts import Conflict, Key, at_most, check
from relearn.params.types import (
    Batch,
    BatchSize,
    EpochCount,
    Gpus,
    NotNegative,
    Padding,
    Positive,
    SamplesOrAll,
    Section,
    Several,
    Share,
    SideOrNone,
)

Betas = Annotated[list[Share], Field(min_length=2, max_length=2)]
Optimizer = Literal["adamw", "sgd"]


class VisionImages(Section):
    dataset: Literal["digits", "cifar10", "imagenet"]
    train_per_class: SamplesOrAll
    size: SideOrNone

    @property
    def side(self) -> int:
        """Side of the network's input images, in pixels."""
        return self.size or SIDE[self.dataset]

    @check
    def _size(self) -> Iterator[Conflict]:
        if self.dataset == "imagenet" and not self.size:
            yield "size", "found 0, allowed: at least 1 of imagenet, whose images have many sizes"

    @check
    def _train_per_class(self) -> Iterator[Conflict]:
        found, most = self.train_per_class, MOST_FOR_TRAINING.get(self.dataset, 0)
        if self.dataset == "imagenet" and found:
            yield "train_per_class", f"found {found}, allowed: 0 (all) of {self.dataset}"
        if self.dataset != "imagenet" and not 2 <= found <= most:
            yield "train_per_class", f"found {found}, allowed: 2 to {most} images per class of {self.dataset}"

    def batch_conflicts(self, sizes: Mapping[str | Key, int]) -> Iterator[Conflict]:
        """Each batch size (by key) is at most the number of training images."""
        images = CLASSES * self.train_per_class
        for key, size in sizes.items():
            if images and size > images:
                yield key, f"found {size}, allowed: at most {images} images (10 x images.train_per_class)"

    def test_conflicts(self, wanted: Mapping[str, int]) -> Iterator[Conflict]:
        """Each number of test images (by key) is at most the number available."""
        most = images_for_testing(self.dataset, CLASSES * self.train_per_class)
        for key, found in wanted.items():
            if found > most:
                yield key, f"found {found}, allowed: at most the {most} test images of {self.dataset}"


@check
def patches(self: Any) -> Iterator[Conflict]:
    """``network.patch_size`` must divide the side of the section's ``images``."""
    size, side = self.network.patch_size, self.images.side
    if side % size:
        fit = ", ".join(str(n) for n in range(1, side + 1) if side % n == 0)
        yield "network.patch_size", f"found {size}, allowed: what divides the images' side of {side}: {fit}"


def batches(*keys: str) -> Callable[[Any], Iterator[Conflict]]:
    """A check that each of these batch sizes is at most the number of training images of the section's ``images``."""

    @check
    def compare(self: Any) -> Iterator[Conflict]:
        yield from self.images.batch_conflicts({key: attrgetter(key)(self) for key in keys})

    return compare


def test_images(*keys: str) -> Callable[[Any], Iterator[Conflict]]:
    """A check that each of these numbers is at most that of the test images of the section's ``images``."""

    @check
    def compare(self: Any) -> Iterator[Conflict]:
        yield from self.images.test_conflicts({key: attrgetter(key)(self) for key in keys})

    return compare


class Sgd(Section):
    """SGD training of a convolutional network."""

    epochs: EpochCount
    batch_size: BatchSize
    lr: Positive
    momentum: Share
    weight_decay: NotNegative
    schedule: Literal["cosine", "step"]
    crop_padding: Padding
    flip: bool


class Epochs(Section):
    """The settings shared by all training recipes of image networks, without the optimiser; 0 switches an option off."""

    epochs: EpochCount
    warmup_epochs: Several
    clip_norm: NotNegative
    label_smoothing: Share
    randaugment: Annotated[float, Field(ge=0, le=10)]
    randaugment_spread: NotNegative
    randaugment_operations: Annotated[int, Field(ge=1, le=14)]
    mixup: NotNegative
    cutmix: NotNegative
    crop_padding: Padding
    flip: bool
    test_images: SamplesOrAll
    gpus: Gpus

    _warmup = at_most("warmup_epochs", "epochs")


class Optimised(Epochs):
    """Adds an optimiser; ``momentum`` is used by SGD only."""

    optimizer: Optimizer
    lr: Positive
    momentum: Share
    batch_size: Batch


class Recipe(Optimised):
    """Adds one pair of betas for all networks."""

    betas: Betas
