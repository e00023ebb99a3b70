"""What params.yaml may say of ``l2_attention`` (kim2020)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from relearn.schema_types import (
    Count,
    Positive,
    Section,
    Seeds,
    Share,
    Unique,
    Unique0,
    ascending,
    unique,
)

Depths = Annotated[list[Count], Unique0, AfterValidator(ascending)]
Lengths = Annotated[list[Annotated[int, Field(ge=2)]], Unique, AfterValidator(ascending)]
Widths = Annotated[list[Count], Unique, AfterValidator(ascending)]
Spreads = Annotated[list[Positive], Unique, AfterValidator(ascending)]
Attention = Literal["dp", "l2", "l2_tied", "contractive"]


class Characters(Section):
    dataset: Literal["pydoc_topics", "ptb"]
    max_length: Annotated[int, Field(ge=8)]
    train_sentences: Annotated[int, Field(ge=0)]
    valid_sentences: Annotated[int, Field(ge=0)]
    test_sentences: Annotated[int, Field(ge=0)]


class LanguageNetwork(Section):
    dim: Count
    heads: Count
    ffn: Count
    norm: Literal["post_ln", "no_norm"]
    init_scale: Positive
    glorot: Literal["usual", "printed"]


class TrainLanguage(Section):
    steps: Count
    batch_size: Annotated[int, Field(ge=2)]
    betas: Annotated[list[Share], Field(min_length=2, max_length=2)]
    evaluations: Count


class Warmup(Section):
    gamma: Annotated[list[Positive], Unique, AfterValidator(unique)]
    warmup_steps: Annotated[list[Count], Unique, AfterValidator(unique)]
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
    row_steps: Annotated[int, Field(ge=0)]
    steps: Count
    lr: Positive
    spread: Positive
    top: Count


class Growth(Section):
    length: Annotated[int, Field(ge=2)]
    dim: Count
    heads: Count
    starts: Count
    steps: Count
    lr: Positive
    spread: Positive
    top: Count


class Inversion(Section):
    attentions: Annotated[list[Attention], Unique, AfterValidator(unique)]
    length: Annotated[int, Field(ge=2)]
    dim: Count
    lengths: Lengths
    dims: Widths
    heads: Count
    batch: Count
    c: Annotated[list[Share], Unique, AfterValidator(ascending)]
    iterations: Count


class Examine(Section):
    lengths: Lengths
    dims: Widths
    heads: Count
    spreads: Spreads
    keep: Annotated[float, Field(gt=0, lt=1)]
    bins: Annotated[int, Field(ge=2)]


class Clock(Section):
    layers: Annotated[list[Count], Unique, AfterValidator(ascending)]
    pairs: Annotated[int, Field(ge=7)]
    dim: Count
    heads: Count
    ffn: Count
    batch_size: Annotated[int, Field(ge=2)]


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
