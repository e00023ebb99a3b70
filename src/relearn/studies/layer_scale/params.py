"""What params.yaml may say of ``layer_scale`` (touvron2021)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from relearn.params.types import (
    Heads,
    Layers,
    NotNegative,
    Positive,
    Section,
    Seeds,
    Share,
    Side,
    Unique,
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
    variants: Annotated[list[Literal["from_start", "class_attention"]], Unique, AfterValidator(unique)]


class Grid(Section):
    depths: Annotated[list[Layers], Unique, AfterValidator(ascending)]
    residuals: Annotated[list[Residual], Unique, AfterValidator(unique)]
    drop_paths: DropPaths
    class_tokens: ClassTokens


class LayerScale(Section):
    seeds: Seeds
    images: VisionImages
    network: Tokens
    train: TrainDeep
    grid: Grid
