"""The section ``lrformer`` of params.yaml (ye2023): types, ranges, and cross-field checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from relearn.params.conflicts import Conflict, check, forecast, multiples_of
from relearn.params.forecast_memory import Need, jacobian, transformer
from relearn.params.types import (
    LONGEST_LIST,
    Batch,
    Count,
    Distinct,
    Distinct0,
    Heads,
    Length,
    NotNegative,
    Positive,
    Rising,
    Rising0,
    SampleCount,
    Section,
    Seeds,
    Share,
    Side,
    Width,
    ascending,
)
from relearn.params.vision import Betas, Epochs, Optimizer, VisionImages, patches, test_images

Lengths = Rising[Length]
Dims = Rising[Annotated[Width, Field(ge=2)]]
Positives = Distinct[Positive]


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
    maps: Literal["xavier", "deit"]
    lrsa_alpha: Positive
    gp: Gaussian


class Train(Epochs):
    betas: Betas
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
    depth_12_pretraining: OfDepth


Outliers = Literal["cifar100", "svhn", "corrupted", "gaussian_noise", "uniform_noise", "natural_patches"]


class Uncertainty(Section):
    bins: Count
    images: Annotated[SampleCount, Field(ge=2)]
    sets: Distinct[Outliers]
    distances: Annotated[
        list[NotNegative], Field(min_length=2, max_length=LONGEST_LIST), AfterValidator(ascending)
    ]


Published = Literal["dot_dense", "dot_gp", "lrsa_dense", "lrsa_gp"]
Variant = Literal[Published, "dot_gp_mean", "dot_gp_mean_no_norm"]
"""Attention and head. Controls: ``_mean`` pools the patches instead of a class token, ``_no_norm`` has no norm behind the last block."""


class Grid(Section):
    depths: Rising0[Literal[6, 12]]
    optimisers: Optimisers
    pretrained: Distinct0[Published]
    variants: Distinct[Variant]


class LRFormer(Section):
    seeds: Seeds
    examine: Examine
    images: VisionImages
    network: Network
    train: Train
    grid: Grid
    uncertainty: Uncertainty

    _patches = patches

    _heads = multiples_of("network.dim", "network.heads")

    @check
    def _batches(self) -> Iterator[Conflict]:
        """The batches of the depths that are trained have at most the number of training images."""
        yield from self.images.batch_conflicts(
            {f"grid.optimisers.depth_{depth}.batch_size": one.batch_size for depth, one in self._trained()}
        )

    def _trained(self) -> Iterator[tuple[int, OfDepth]]:
        """The depths that are trained on the study's images, with their optimisers."""
        for depth, one in ((6, self.grid.optimisers.depth_6), (12, self.grid.optimisers.depth_12)):
            if depth in self.grid.depths or (depth == 12 and self.grid.pretrained):
                yield depth, one

    @check
    def _pretrained(self) -> Iterator[Conflict]:
        """A network pre-trained on ImageNet is trained further at the same image size, so the size must be set."""
        if self.grid.pretrained and not self.images.size:
            yield "images.size", "found 0, allowed: at least 1 where grid.pretrained names a network"

    _test_images = test_images("train.test_images", "uncertainty.images")

    @forecast
    def _memory(self) -> Iterator[Need]:
        """One token per patch plus the class token, and a feed-forward four times as wide as the stream."""
        length = (self.images.side // self.network.patch_size) ** 2 + 1
        dim, heads = self.network.dim, self.network.heads
        for layers, one in self._trained():
            tensors = transformer(
                layers=layers, dim=dim, ffn=4 * dim, heads=heads, length=length, batch=one.batch_size
            )
            yield Need(("network", "dim"), dim, tensors)

    @forecast
    def _jacobian(self) -> Iterator[Need]:
        lengths, dims = self.examine.lrsa.lengths, self.examine.lrsa.dims
        tensors = (jacobian(lengths[-1], dims[-1]),)
        yield Need(("examine", "lrsa", "dims", len(dims) - 1), dims[-1], tensors)


SECTION = LRFormer
