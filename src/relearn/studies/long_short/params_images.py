"""Sections of params.yaml for image networks: sizes, training, similarity of patches and throughput."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from relearn.params.types import (
    BatchSize,
    Count,
    Length,
    Multiple,
    NotNegative,
    OneOf,
    SamplesOrAll,
    Section,
    Share,
    Side,
    Unique,
    Unique0,
    unique,
)
from relearn.params.vision import Recipe
from relearn.studies.vision import LONG_SHORT

Network = Annotated[str, OneOf(LONG_SHORT)]
Networks = Annotated[list[Network], Unique, AfterValidator(unique)]
Some = Annotated[list[Network], Unique0, AfterValidator(unique)]


class Pyramids(Section):
    """``window`` is that of CvT with long-short attention; networks for ImageNet keep their published windows."""

    width: Multiple
    depth: Multiple
    patch_size: Side
    window: Length


class TrainPyramids(Recipe):
    weight_decay: NotNegative
    drop_path: Share
    average: Share


class Grid(Section):
    networks: Networks
    similarity: Some


class PatchSimilarity(Section):
    images: SamplesOrAll
    batch_size: BatchSize
    absolute: bool


class Throughput(Section):
    """``size`` is the side of the images, ``repeats`` the number of pairs of timed steps."""

    networks: Some
    against: Network
    batch_size: BatchSize
    size: Annotated[Side, Field(ge=8)]
    repeats: Count
