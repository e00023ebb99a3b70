"""The section ``layer_scale`` of params.yaml (touvron2021): types, ranges, and cross-field checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from relearn.params.conflicts import Conflict, check, forecast, multiples_of, none_or_several
from relearn.params.forecast_memory import Need, transformer
from relearn.params.types import (
    LONGEST_LIST,
    Distinct,
    EpochCount,
    Heads,
    Layers,
    NotNegative,
    Positive,
    Rising,
    Rising0,
    Section,
    Seeds,
    Share,
    Side,
    Width,
)
from relearn.params.vision import Recipe, VisionImages, batches, patches, test_images

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


ClassToken = Literal[
    "from_start",
    "class_attention",
    "from_start_patch4",
    "class_attention_patch4",
    "from_start_longer",
    "class_attention_longer",
    "class_attention_1e-1",
    "class_attention_1e-1_longer",
]
"""Where the class token enters. Controls: ``_patch4`` has patches of four pixels a side, ``_longer`` four times the epochs,
``_1e-1`` LayerScale from 0.1 in the class-attention layers."""


class ExtraSeeds(Section):
    """Additional seeds for the trainings of some variants at some depths."""

    variants: Distinct[Literal[Residual, ClassToken]]
    depths: Rising[Layers]
    seeds: Seeds


class DropPaths(Section):
    depth: Layers
    rate: Share
    variants: Distinct[Literal["uniform", "linear"]]


class ClassTokens(Section):
    depth: Layers
    layers: Layers
    variants: Distinct[ClassToken]


class GivenRate(Section):
    """Trainings of one scheme at a learning rate that is given here instead of chosen by the search."""

    residual: Residual
    depth: Layers
    lr: Positive
    seeds: Seeds


class Grid(Section):
    depths: Rising[Layers]
    residuals: Distinct[Residual]
    given_rates: Annotated[list[GivenRate], Field(max_length=LONGEST_LIST)]
    drop_paths: DropPaths
    class_tokens: ClassTokens


class Tuning(Section):
    """The search for each scheme's learning rate; no search if ``rates`` is empty."""

    rates: Rising0[Positive]
    held_out: Annotated[float, Field(gt=0, le=0.5)]
    epochs: EpochCount

    _rates = none_or_several("rates")


class LayerScale(Section):
    seeds: Seeds
    extra_seeds: Annotated[list[ExtraSeeds], Field(max_length=LONGEST_LIST)]
    images: VisionImages
    network: Tokens
    train: TrainDeep
    tuning: Tuning
    grid: Grid

    _patches = patches

    @check
    def _class_tokens(self) -> Iterator[Conflict]:
        for index, variant in enumerate(self.grid.class_tokens.variants):
            if variant.endswith("_patch4") and self.images.side % 4:
                line = f"found {variant}, allowed: variants without _patch4, as 4 does not divide the images' side"
                yield ("grid", "class_tokens", "variants", index), line

    _heads = multiples_of("network.dim", "network.heads")

    _batches = batches("train.batch_size")

    @check
    def _extra_seeds(self) -> Iterator[Conflict]:
        for index, group in enumerate(self.extra_seeds):
            for place, seed in enumerate(group.seeds):
                if seed in self.seeds:
                    yield ("extra_seeds", index, "seeds", place), f"found {seed}, allowed: none of seeds"

    @check
    def _tuning(self) -> Iterator[Conflict]:
        found, least = self.tuning.epochs, self.train.warmup_epochs
        if self.tuning.rates and found < least:
            yield "tuning.epochs", f"found {found}, allowed: at least train.warmup_epochs = {least}"

    _test_images = test_images("train.test_images")

    @forecast
    def _memory(self) -> Iterator[Need]:
        """One token per patch plus the class token, and a feed-forward four times as wide as the stream."""
        grid, sizes = self.grid, self.network
        depths = [*grid.depths, grid.drop_paths.depth, *(one.depth for one in grid.given_rates)]
        deepest = max(*depths, grid.class_tokens.depth + grid.class_tokens.layers)
        others = [4 for one in grid.class_tokens.variants if one.endswith("_patch4")]
        length = (self.images.side // min([sizes.patch_size, *others])) ** 2 + 1
        dim, heads, batch = sizes.dim, sizes.heads, self.train.batch_size
        yield Need(
            ("network", "dim"),
            dim,
            transformer(layers=deepest, dim=dim, ffn=4 * dim, heads=heads, length=length, batch=batch),
        )


SECTION = LayerScale
