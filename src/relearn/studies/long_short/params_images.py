"""Sections of params.yaml for image networks: sizes, training, patch similarity and throughput."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from relearn.params.conflicts import Conflict, check
from relearn.params.types import (
    LONGEST_LIST,
    Batch,
    BatchSize,
    Count,
    Distinct,
    Distinct0,
    EpochCount,
    Length,
    Multiple,
    NotNegative,
    OneOf,
    Positive,
    SamplesOrAll,
    Section,
    Share,
    Side,
)
from relearn.params.vision import Optimizer, Recipe
from relearn.studies.vision import LONG_SHORT

Network = Annotated[str, OneOf(LONG_SHORT)]
Networks = Distinct[Network]
Some = Distinct0[Network]


class Pyramids(Section):
    """``window`` is the window of CvT with long-short attention; networks for ImageNet use their published windows."""

    width: Multiple
    depth: Multiple
    patch_size: Side
    window: Length


class Own(Section):
    """Values that replace the common recipe for the listed networks."""

    networks: Networks
    optimizer: Optimizer
    lr: Positive
    batch_size: Batch
    epochs: EpochCount
    weight_decay: NotNegative
    drop_path: Share
    label_smoothing: Share
    randaugment: Annotated[float, Field(ge=0, le=10)]
    mixup: NotNegative
    cutmix: NotNegative


class TrainPyramids(Recipe):
    weight_decay: NotNegative
    drop_path: Share
    average: Share
    own: Annotated[list[Own], Field(max_length=LONGEST_LIST)]

    @check
    def _own(self) -> Iterator[Conflict]:
        """Each network has at most one recipe of its own, with at least as many epochs as the warm-up."""
        named: set[str] = set()
        for index, one in enumerate(self.own):
            if twice := named & set(one.networks):
                yield (
                    ("own", index, "networks"),
                    f"found {sorted(twice)[0]} twice, allowed: each network once",
                )
            named |= set(one.networks)
            if one.epochs < self.warmup_epochs:
                yield (
                    ("own", index, "epochs"),
                    f"found {one.epochs}, allowed: at least train.warmup_epochs = {self.warmup_epochs}",
                )


class Grid(Section):
    networks: Networks
    similarity: Some


class PatchSimilarity(Section):
    images: SamplesOrAll
    batch_size: BatchSize
    absolute: bool


class Throughput(Section):
    """``size`` is the side length of the images, ``repeats`` the number of pairs of timed steps."""

    networks: Some
    against: Network
    batch_size: BatchSize
    size: Annotated[Side, Field(ge=8)]
    repeats: Count
