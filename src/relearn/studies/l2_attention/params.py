"""The section ``l2_attention`` of params.yaml (kim2020): types, ranges and cross-field validation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from relearn.params.conflicts import Conflict, at_most, check, forecast, multiples_of
from relearn.params.forecast_memory import DOUBLE, Need, Tensor, attention, jacobian, transformer
from relearn.params.types import (
    Batch,
    BatchSize,
    Count,
    Distinct,
    Heads,
    Layers,
    Length,
    Positive,
    Rising,
    Rising0,
    SamplesOrAll,
    Section,
    Seeds,
    Share,
    Steps,
    StepsOrNone,
    Width,
)

Depths = Rising0[Layers]
Lengths = Rising[Annotated[Length, Field(ge=2)]]
Widths = Rising[Width]
Spreads = Rising[Positive]
WidthOrNetworks = Annotated[int, Field(ge=0, le=65_536)]
"""A width; 0 is that of ``network``."""
Attention = Literal["dp", "l2", "l2_tied", "contractive"]


LOOKED_AT = ("dp", "l2_tied")
"""Kinds of attention of which figures 5, 8 and 10 show a trained layer."""


class Characters(Section):
    dataset: Literal["pydoc_topics", "ptb"]
    max_length: Annotated[Length, Field(ge=8)]
    train_sentences: SamplesOrAll
    valid_sentences: SamplesOrAll
    test_sentences: SamplesOrAll


class EvenHeads(Section):
    """A width that is an even multiple of the number of heads, as sinusoidal positions require."""

    dim: Width
    heads: Heads

    @check
    def _dim(self) -> Iterator[Conflict]:
        if self.dim % self.heads or self.dim % 2:
            yield "dim", f"found {self.dim}, allowed: an even multiple of heads = {self.heads}"


class LanguageNetwork(EvenHeads):
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
    gamma: Distinct[Positive]
    warmup_steps: Distinct[Steps]
    dropout: Distinct[Share]


class Fixed(Section):
    lr: Distinct[Positive]
    dropout: Distinct[Share]


class WarmupDepths(Section):
    lstm: Depths
    dp: Depths
    l2: Depths
    l2_tied: Depths
    l2_matched: Depths
    contractive: Depths


class FixedDepths(Section):
    dp: Depths
    dp_l2_start: Depths
    l2_tied: Depths
    contractive: Depths


class DepthsOf(Section):
    warmup: WarmupDepths
    fixed: FixedDepths


class Starts(Section):
    """Ascents from many starts; only the best are shown."""

    starts: Count
    steps: Steps
    lr: Positive
    spread: Positive
    top: Count

    _top = at_most("top", "starts")


class Ascent(Starts):
    lengths: Lengths
    row_steps: StepsOrNone


class Growth(Starts):
    length: Annotated[Length, Field(ge=2)]
    dim: Width
    heads: Heads

    _dim = multiples_of("dim", "heads")

    @forecast
    def _memory(self) -> Iterator[Need]:
        """The inputs of all starts, and the attention weights of one start, in double precision."""
        sizes = (("starts", self.starts), ("length", self.length), ("dim", self.dim))
        weights = attention(1, self.heads, self.length, DOUBLE)
        yield Need(("starts",), self.starts, (Tensor("inputs", sizes, DOUBLE), weights))


class Inversion(Section):
    attentions: Distinct[Attention]
    length: Annotated[Length, Field(ge=2)]
    dim: Width
    lengths: Lengths
    dims: Widths
    heads: Heads
    batch: BatchSize
    c: Rising[Share]
    iterations: Count

    _dim = multiples_of("dim", "heads")
    _dims = multiples_of("dims", "heads")

    @forecast
    def _memory(self) -> Iterator[Need]:
        """Memory for the largest length and width: the inputs and their attention weights."""
        longest, widest = max(self.length, *self.lengths), max(self.dim, *self.dims)
        sizes = (("batch", self.batch), ("length", longest), ("dim", widest))
        weights = attention(self.batch, self.heads, longest, DOUBLE)
        yield Need(("batch",), self.batch, (Tensor("inputs", sizes, DOUBLE), weights))


class Examine(Section):
    lengths: Lengths
    dims: Widths
    heads: Heads
    spreads: Spreads
    keep: Annotated[float, Field(gt=0, lt=1)]
    bins: Annotated[Count, Field(ge=2)]

    _dims = multiples_of("dims", "heads")

    @forecast
    def _jacobian(self) -> Iterator[Need]:
        widest = self.dims[-1]
        yield Need(("dims", len(self.dims) - 1), widest, (jacobian(self.lengths[-1], widest),))


class Clock(EvenHeads):
    layers: Rising[Layers]
    pairs: Annotated[Count, Field(ge=7)]
    ffn: Width
    batch_size: Batch


class L2Attention(Section):
    seeds: Seeds
    characters: Characters
    network: LanguageNetwork
    shown_dim: WidthOrNetworks
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

    @check
    def _looked_at(self) -> Iterator[Conflict]:
        """Figures 5, 8 and 10 show layers of the one-layer models of figure 4, so these must be trained."""
        for kind in LOOKED_AT:
            depths = getattr(self.depths.warmup, kind)
            if depths and depths[0] != 1:
                key = ("depths", "warmup", kind, 0)
                yield key, f"found {depths[0]}, allowed: 1 (figures 5, 8 and 10 look at its layer)"

    @check
    def _shown_dim(self) -> Iterator[Conflict]:
        """The shown models have the heads of ``network`` and its ratio of the feed-forward width to the width."""
        sizes = self.network
        if self.shown_dim % sizes.heads or self.shown_dim % 2:
            yield (
                "shown_dim",
                f"found {self.shown_dim}, allowed: an even multiple of network.heads = {sizes.heads}, or 0",
            )
        elif self.shown_dim * sizes.ffn % sizes.dim:
            yield (
                "shown_dim",
                f"found {self.shown_dim}, allowed: a multiple of network.dim / network.ffn = {sizes.dim} / {sizes.ffn}",
            )

    _evaluations = at_most("train.evaluations", "train.steps")

    @forecast
    def _models(self) -> Iterator[Need]:
        sizes, recipes = self.network, (self.depths.warmup, self.depths.fixed)
        named = [depth for recipe in recipes for depths in dict(recipe).values() for depth in depths]
        deepest = max(named, default=1)
        tensors = self._transformer(sizes, deepest, self.train.batch_size)
        yield Need(("network", "dim"), sizes.dim, tensors)

    @forecast
    def _timed(self) -> Iterator[Need]:
        tensors = self._transformer(self.clock, max(self.clock.layers), self.clock.batch_size)
        yield Need(("clock", "dim"), self.clock.dim, tensors)

    def _transformer(self, sizes: Any, layers: int, batch: int) -> tuple[Tensor, ...]:
        longest = self.characters.max_length + 1
        return transformer(
            dim=sizes.dim, ffn=sizes.ffn, heads=sizes.heads, layers=layers, length=longest, batch=batch
        )


SECTION = L2Attention
