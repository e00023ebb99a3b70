"""The section ``layer_scale`` of params.yaml (touvron2021): types, ranges, and checks that tie keys together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from relearn.params.conflicts import Conflict, check, forecast
from relearn.params.forecast_memory import Need, transformer
from relearn.params.types import (
    EpochCount,
    Heads,
    Layers,
    NotNegative,
    Positive,
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

Residual = Literal[
    "pre_norm",
    "post_norm",
    "layer_scale_1e-1",
    "layer_scale_1e-4",
    "layer_scale_1e-5",
    "layer_scale_1e-6",
    "xavier_layer_scale",
    "rezero",
    "rezero_epsilon",
    "rezero_deit",
    "skip_init",
    "fixup",
    "fixup_norm",
    "t_fixup",
    "t_fixup_norm",
]


class Tokens(Section):
    dim: Annotated[Width, Field(ge=2)]
    heads: Heads
    patch_size: Side
    start_std: Positive
    position_std: Positive


class TrainDeep(Recipe):
    weight_decay: NotNegative
    drop_path: Share
    average: Share


class DropPaths(Section):
    depth: Layers
    rate: Share
    variants: Annotated[list[Literal["uniform", "linear"]], Unique, AfterValidator(unique)]


class ClassTokens(Section):
    depth: Layers
    layers: Layers
    variants: Annotated[list[Literal["from_start", "class_attention", "from_start_patch4", "class_attention_patch4"]], Unique, AfterValidator(unique)]


class GivenRate(Section):
    residual: Residual
    depth: Layers
    lr: Positive
    seeds: Seeds


class Grid(Section):
    given_rates: Annotated[list[GivenRate], Field(max_length=200)]
    depths: Annotated[list[Layers], Unique, AfterValidator(ascending)]
    residuals: Annotated[list[Residual], Unique, AfterValidator(unique)]
    drop_paths: DropPaths
    class_tokens: ClassTokens


class Tuning(Section):
    """The search for each scheme's learning rate; without rates there is none."""

    rates: Annotated[list[Positive], Unique0, AfterValidator(ascending)]
    held_out: Annotated[float, Field(gt=0, le=0.5)]
    epochs: EpochCount

    @check
    def _rates(self) -> Iterator[Conflict]:
        if len(self.rates) == 1:
            yield "rates", f"found {self.rates}, allowed: none, or at least two to choose from"


class LayerScale(Section):
    seeds: Seeds
    images: VisionImages
    network: Tokens
    train: TrainDeep
    tuning: Tuning
    grid: Grid

    @check
    def _patches(self) -> Iterator[Conflict]:
        yield from self.images.patch_conflicts(self.network.patch_size)

    @check
    def _heads(self) -> Iterator[Conflict]:
        dim, heads = self.network.dim, self.network.heads
        if dim % heads:
            yield "network.dim", f"found {dim}, allowed: multiples of heads = {heads}"

    @check
    def _batches(self) -> Iterator[Conflict]:
        yield from self.images.batch_conflicts({"train.batch_size": self.train.batch_size})

    @check
    def _tuning(self) -> Iterator[Conflict]:
        found, least = self.tuning.epochs, self.train.warmup_epochs
        if self.tuning.rates and found < least:
            yield "tuning.epochs", f"found {found}, allowed: at least train.warmup_epochs = {least}"

    @check
    def _test_images(self) -> Iterator[Conflict]:
        yield from self.images.test_conflicts({"train.test_images": self.train.test_images})

    @forecast
    def _memory(self) -> Iterator[Need]:
        """As many tokens as patches and one more, and a feed-forward four times as wide as the stream."""
        grid, sizes = self.grid, self.network
        deepest = max(*grid.depths, grid.drop_paths.depth, grid.class_tokens.depth + grid.class_tokens.layers)
        length = (self.images.side // sizes.patch_size) ** 2 + 1
        dim, heads, batch = sizes.dim, sizes.heads, self.train.batch_size
        yield Need(
            ("network", "dim"),
            dim,
            transformer(layers=deepest, dim=dim, ffn=4 * dim, heads=heads, length=length, batch=batch),
        )


SECTION = LayerScale
