"""What params.yaml may say of ``lipsformer`` (qi2023)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from relearn.params.types import (
    BatchSize,
    Count,
    EpochCount,
    Heads,
    Layers,
    Length,
    Multiple,
    NotNegative,
    Positive,
    SamplesOrAll,
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
from relearn.params.vision import Recipe, VisionImages

Network = Literal[
    "Swin-T",
    "Swin-S",
    "Swin-B",
    "Swin-L",
    "CSwin-T",
    "CSwin-S",
    "CSwin-B",
    "LipsFormer-CSwin-T",
    "LipsFormer-CSwin-S",
    "LipsFormer-CSwin-B",
    "LipsFormer-Swin-T",
    "LipsFormer-Swin-S",
    "LipsFormer-Swin-B",
    "LipsFormer-Swin-L",
    "LipsFormer-Swin-L++",
]
Variant = Literal[
    "base",
    "warmup",
    "layer_norm",
    "no_norm",
    "truncated",
    "xavier",
    "dot_product",
    "l2",
    "alpha_0.1",
    "alpha_0.3",
    "alpha_0.4",
    "conv_a",
    "conv_b",
    "conv_c",
    "drop_0.0",
    "drop_0.1",
]
Paired = Literal[
    "Swin-T",
    "Swin-S",
    "Swin-B",
    "LipsFormer-Swin-T",
    "LipsFormer-Swin-S",
    "LipsFormer-Swin-B",
    "CSwin-T",
    "LipsFormer-CSwin-T",
]
Timed = Literal["LipsFormer-Swin-T", "LipsFormer-Swin-S", "LipsFormer-Swin-B"]
Lengths = Annotated[list[Length], Unique, AfterValidator(ascending)]
Dims = Annotated[list[Annotated[Width, Field(ge=2)]], Unique, AfterValidator(ascending)]
Positives = Annotated[list[Positive], Unique, AfterValidator(unique)]


class NetworkCounts(Section):
    networks: Annotated[list[Network], Unique, AfterValidator(unique)]


class Theorem1(Section):
    lengths: Lengths
    dims: Dims
    heads: Heads
    taus: Positives
    spreads: Positives
    steps: Count


class Theorem2(Section):
    blocks: Annotated[list[Layers], Unique, AfterValidator(ascending)]
    lengths: Lengths
    dims: Dims
    heads: Heads
    tau: Positive
    eps: Positives


class SpectralStart(Section):
    channels: Annotated[list[Width], Unique, AfterValidator(ascending)]
    size: Annotated[Side, Field(ge=8)]


class Activations(Section):
    pairs: Count
    reach: Positive
    points: Annotated[Count, Field(ge=50)]


class Examine(Section):
    theorem_1: Theorem1
    theorem_2: Theorem2
    spectral_start: SpectralStart
    activations: Activations


class SizedNetwork(Section):
    width: Multiple
    depth: Multiple
    patch_size: Side


class OfSize(Section):
    lr: Multiple
    drop_path: Share
    weight_decay: NotNegative
    average: Share


class Sizes(Section):
    T: OfSize
    S: OfSize
    B: OfSize


class Ablation(Section):
    epochs: EpochCount
    warmup_epochs: Positive
    variants: Annotated[list[Variant], Unique0, AfterValidator(unique)]


class Pairs(Section):
    networks: Annotated[list[Paired], Unique0, AfterValidator(unique)]
    warmup_epochs: NotNegative


class Throughput(Section):
    networks: Annotated[list[Timed], Unique0, AfterValidator(unique)]
    batch_size: BatchSize
    size: Annotated[Side, Field(ge=32)]
    pairs: Count


class Retest(Section):
    networks: Annotated[list[Paired], Unique0, AfterValidator(unique)]
    size: Annotated[Side, Field(ge=8)]
    crop_ratio: Annotated[float, Field(gt=0, le=1)]
    interpolation: Literal["bilinear", "bicubic", "lanczos"]
    average: bool
    batch_size: BatchSize
    test_images: SamplesOrAll


class Grid(Section):
    sizes: Sizes
    ablation: Ablation
    pairs: Pairs


class LipsFormer(Section):
    seeds: Seeds
    count: NetworkCounts
    examine: Examine
    images: VisionImages
    network: SizedNetwork
    train: Recipe
    grid: Grid
    throughput: Throughput
    retest: Retest


SECTION = LipsFormer
