"""What the sections of params.yaml that train vision Transformers share: their images and how they are trained on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from relearn.params.types import (
    Batch,
    EpochCount,
    NotNegative,
    Padding,
    Positive,
    SamplesOrAll,
    Section,
    Several,
    Share,
)

Betas = Annotated[list[Share], Field(min_length=2, max_length=2)]
Optimizer = Literal["adamw", "sgd"]


class VisionImages(Section):
    dataset: Literal["digits", "cifar10", "imagenet"]
    train_per_class: SamplesOrAll


class Epochs(Section):
    """What every recipe of an image network says, but for its optimiser; 0: without."""

    epochs: EpochCount
    warmup_epochs: Several
    betas: Betas
    clip_norm: NotNegative
    label_smoothing: Share
    randaugment: Annotated[float, Field(ge=0, le=10)]
    randaugment_spread: NotNegative
    mixup: NotNegative
    cutmix: NotNegative
    crop_padding: Padding
    flip: bool
    test_images: SamplesOrAll


class Recipe(Epochs):
    """With its optimiser."""

    optimizer: Optimizer
    lr: Positive
    batch_size: Batch
