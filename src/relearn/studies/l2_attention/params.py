"""What params.yaml may say of ``l2_attention`` (kim2020)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from relearn.params.types import (
    Batch,
    BatchSize,
    Count,
    Heads,
    Layers,
    Length,
    Positive,
    SamplesOrAll,
    Section,
    Seeds,
    Share,
    Steps,
    StepsOrNone,
    Unique,
    Unique0,
    Width,
    ascending,
    unique,
)

Depths = Annotated[list[Layers], Unique0, AfterValidator(ascending)]
Lengths = Annotated[list[Annotated[Length, Field(ge=2)]], Unique, AfterValidator(ascending)]
Widths = Annotated[list[Width], Unique, AfterValidator(ascending)]
Spreads = Annotated[list[Positive], Unique, AfterValidator(ascending)]
Attention = Literal["dp", "l2", "l2_tied", "contractive"]


class Characters(Section):
    dataset: Literal["pydoc_topics", "ptb"]
    max_length: Annotated[Length, Field(ge=8)]
    train_sentences: SamplesOrAll
    valid_sentences: SamplesOrAll
    test_sentences: SamplesOrAll


class LanguageNetwork(Section):
    dim: Width
    heads: Heads
    ffn: Width
    norm: Literal["post_ln", "no_norm"]
    init_scale: Positive
    glorot: Literal["usual", "printed"]


class TrainLanguage(Section):
    steps: Steps
    batch_size: Batch
    betas: Annotated[list[Share], Field(min_length=2, max_length=2)]
    evaluations: Count


class Warmup(Section):
    gamma: Annotated[list[Positive], Unique, AfterValidator(unique)]
    warmup_steps: Annotated[list[Steps], Unique, AfterValidator(unique)]
    dropout: Annotated[list[Share], Unique, AfterValidator(unique)]


class Fixed(Section):
    lr: Annotated[list[Positive], Unique, AfterValidator(unique)]
    dropout: Annotated[list[Share], Unique, AfterValidator(unique)]


class WarmupDepths(Section):
    lstm: Depths
    dp: Depths
    l2: Depths
    l2_tied: Depths
    l2_matched: Depths
    contractive: Depths


class FixedDepths(Section):
    dp: Depths
    l2_tied: Depths
    contractive: Depths


class DepthsOf(Section):
    warmup: WarmupDepths
    fixed: FixedDepths


class Ascent(Section):
    lengths: Lengths
    starts: Count
    row_steps: StepsOrNone
    steps: Steps
    lr: Positive
    spread: Positive
    top: Count


class Growth(Section):
    length: Annotated[Length, Field(ge=2)]
    dim: Width
    heads: Heads
    starts: Count
    steps: Steps
    lr: Positive
    spread: Positive
    top: Count


class Inversion(Section):
    attentions: Annotated[list[Attention], Unique, AfterValidator(unique)]
    length: Annotated[Length, Field(ge=2)]
    dim: Width
    lengths: Lengths
    dims: Widths
    heads: Heads
    batch: BatchSize
    c: Annotated[list[Share], Unique, AfterValidator(ascending)]
    iterations: Count


class Examine(Section):
    lengths: Lengths
    dims: Widths
    heads: Heads
    spreads: Spreads
    keep: Annotated[float, Field(gt=0, lt=1)]
    bins: Annotated[Count, Field(ge=2)]


class Clock(Section):
    layers: Annotated[list[Layers], Unique, AfterValidator(ascending)]
    pairs: Annotated[Count, Field(ge=7)]
    dim: Width
    heads: Heads
    ffn: Width
    batch_size: Batch


class L2Attention(Section):
    seeds: Seeds
    characters: Characters
    network: LanguageNetwork
    train: TrainLanguage
    warmup: Warmup
    fixed: Fixed
    depths: DepthsOf
    figure_2: Ascent
    figure_7: Ascent
    figure_8: Growth
    inversion: Inversion
    examine: Examine
    clock: Clock


SECTION = L2Attention
