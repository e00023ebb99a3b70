"""What params.yaml may say of ``lrformer`` (ye2023)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from relearn.params.types import (
    LONGEST_LIST,
    Batch,
    Count,
    Heads,
    Length,
    NotNegative,
    Positive,
    SampleCount,
    Section,
    Seeds,
    Share,
    Side,
    Unique,
    Unique0,
    Width,
    ascending,
    unique,
)
from relearn.params.vision import Epochs, Optimizer, VisionImages

Lengths = Annotated[list[Length], Unique, AfterValidator(ascending)]
Dims = Annotated[list[Annotated[Width, Field(ge=2)]], Unique, AfterValidator(ascending)]
Positives = Annotated[list[Positive], Unique, AfterValidator(unique)]


class LayerNormCases(Section):
    dims: Dims
    eps: Positive
    spreads: Positives


class LRSACases(Section):
    lengths: Lengths
    dims: Dims
    scales: Positives
    draws: Count


class Examine(Section):
    layer_norm: LayerNormCases
    lrsa: LRSACases


class Gaussian(Section):
    features: Width
    length_scale: Positive
    ridge: Positive


class Network(Section):
    dim: Annotated[Width, Field(ge=2)]
    heads: Heads
    patch_size: Side
    start_std: Positive
    position_std: Positive
    lrsa_alpha: Positive
    gp: Gaussian


class Train(Epochs):
    drop_path: Share
    average: Share


class OfDepth(Section):
    optimizer: Optimizer
    lr: Positive
    momentum: Share
    weight_decay: NotNegative
    batch_size: Batch


class Optimisers(Section):
    depth_6: OfDepth
    depth_12: OfDepth


Outliers = Literal["cifar100", "svhn", "corrupted", "gaussian_noise", "uniform_noise", "natural_patches"]


class Uncertainty(Section):
    bins: Count
    images: Annotated[SampleCount, Field(ge=2)]
    sets: Annotated[list[Outliers], Unique, AfterValidator(unique)]
    distances: Annotated[
        list[NotNegative], Field(min_length=2, max_length=LONGEST_LIST), AfterValidator(ascending)
    ]


class Grid(Section):
    depths: Annotated[list[Literal[6, 12]], Unique0, AfterValidator(ascending)]
    optimisers: Optimisers
    variants: Annotated[
        list[Literal["dot_dense", "dot_gp", "lrsa_dense", "lrsa_gp"]], Unique, AfterValidator(unique)
    ]


class LRFormer(Section):
    seeds: Seeds
    examine: Examine
    images: VisionImages
    network: Network
    train: Train
    grid: Grid
    uncertainty: Uncertainty


SECTION = LRFormer
