"""Sections of params.yaml for text: character models, their cost curve, and RoBERTa converted to long-short attention."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from relearn.params.conflicts import Conflict, check, forecast
from relearn.params.forecast_memory import Need, attention, transformer
from relearn.params.types import (
    LONGEST_LIST,
    BatchSize,
    CharactersOrAll,
    Count,
    Distinct,
    Distinct0,
    Layers,
    Length,
    LengthOrNone,
    NotNegative,
    OwnSeeds,
    Positive,
    Rising,
    SampleCount,
    SamplesOrAll,
    Section,
    Share,
    Steps,
    Vocabulary,
)
from relearn.params.vision import Betas
from relearn.studies.long_short.params_lra import Schedules, Sizes, WarmedUp

HELD_OUT = 20
"""One of so many characters of a stream is for validation, and one for testing."""
MOST_CHARACTERS = {"enwik8": 100_000_000, "text8": 100_000_000, "warandpeace": 3_293_492}
"""Number of characters of each stream; that of pydoc_topics depends on the version of Python."""


Stream = Literal["enwik8", "text8", "warandpeace", "pydoc_topics"]


class PrepareCharStream(Section):
    datasets: Distinct[Stream]
    characters: CharactersOrAll

    @check
    def _characters(self) -> Iterator[Conflict]:
        """Each held-out part needs two characters, because the first is not predicted."""
        found = self.characters
        if 0 < found < 2 * HELD_OUT:
            yield "characters", f"found {found}, allowed: 0 (all), or at least {2 * HELD_OUT}"
        for name in self.datasets:
            if found > (most := MOST_CHARACTERS.get(name, found)):
                yield "characters", f"found {found}, allowed: at most the {most} characters of {name}"

    def lane(self, batch_size: int) -> int | None:
        """Number of characters in each batch row's part of the training text; None if all characters are used."""
        found = self.characters
        return (found - 2 * (found // HELD_OUT) - 1) // batch_size if found else None


class Causal(Sizes):
    """Sizes of a causal long-short transformer."""

    window: Length
    segment: Length
    rank: Length

    @check
    def _coverage(self) -> Iterator[Conflict]:
        """Every earlier position must be in the query's window or in a completed segment (erratum Z9)."""
        if self.window + math.gcd(self.window, self.segment) < self.segment:
            yield (
                "window",
                f"found {self.window} of segment {self.segment}, allowed: window + gcd(window, segment) >= segment",
            )


class CharLM(Causal):
    """The character model; ``large_layers`` and ``large_dropout`` apply to the larger model."""

    large_layers: Layers
    dropout: Share
    large_dropout: Share


class Phase(WarmedUp):
    steps: Steps
    length: Length


class Evaluation(Section):
    form: Literal["windows", "cached"]
    context: Length
    step: Length
    batch_size: BatchSize
    characters: CharactersOrAll

    @check
    def _scored(self) -> Iterator[Conflict]:
        if self.form == "windows" and self.step > self.context:
            yield "step", f"found {self.step}, allowed: at most context = {self.context}"
        if self.characters == 1:
            yield "characters", "found 1, allowed: 0 (all), or at least 2: the first is not predicted"


class TrainCharLM(Section):
    """``seeds``: of these models, empty for the study's; ``large_datasets``: streams for the variant large.

    ``text8_lr``: learning rate on text8, 0 for the phases' own rates.
    """

    seeds: OwnSeeds
    variants: Distinct[Literal["dual_norm", "no_dual_norm", "full", "large"]]
    large_datasets: Distinct0[Stream]
    text8_lr: NotNegative
    phases: Annotated[list[Phase], Field(min_length=1, max_length=LONGEST_LIST)]
    betas: Betas
    adam_eps: Positive
    weight_decay: NotNegative
    large_weight_decay: NotNegative
    clip_norm: NotNegative
    diverged_above: NotNegative
    evaluations: Count
    history_characters: Annotated[SampleCount, Field(ge=2)]
    evaluation: Evaluation


OneCost = Literal["full", "long_short", "long_short_window_cache", "long_short_no_cache"]


CurveLength = Annotated[
    int, Field(ge=1, le=1_048_576)
]  # linear_cost needs longer sequences than other settings


class Curve(Causal):
    """The cache of ``full`` and ``long_short`` is as long as the input; the other names state their cache."""

    vocabulary: Vocabulary
    attentions: Distinct[OneCost]
    lengths: Rising[CurveLength]
    batches: Rising[BatchSize]
    full_longest: Length
    repeats: Count
    memory: bool

    @check
    def _longest(self) -> Iterator[Conflict]:
        least = self.lengths[0]
        if "full" in self.attentions and self.full_longest < least:
            yield (
                "full_longest",
                f"found {self.full_longest}, allowed: at least the shortest of lengths, {least}",
            )

    @forecast
    def _memory(self) -> Iterator[Need]:
        batch, longest = self.batches[-1], self.lengths[-1]
        tensors = transformer(
            **self.sizes(), length=longest, batch=batch, vocabulary=self.vocabulary, full=False
        )
        yield Need(("lengths", len(self.lengths) - 1), longest, tensors)
        if "full" in self.attentions:
            most = min(longest, self.full_longest)
            yield Need(("full_longest",), self.full_longest, (attention(batch, self.heads, most),))


class EncoderSizes(Sizes):
    dropout: Share
    vocabulary: Annotated[Vocabulary, Field(ge=261)]  # all bytes and the special tokens
    max_length: Annotated[Length, Field(ge=3)]


class Stage(WarmedUp):
    weight_decay: NotNegative


class ConvertRoberta(Section):
    """``checkpoint`` applies to all variants except ``*_large``; "" trains an encoder from scratch."""

    variants: Distinct[Literal["full", "long_short", "full_large", "long_short_large"]]
    dataset: Literal["imdb", "python"]
    train_samples: SamplesOrAll
    valid_samples: SamplesOrAll
    test_samples: SamplesOrAll
    max_bytes: Annotated[Length, Field(ge=8)]
    checkpoint: str
    large_checkpoint: str
    config: EncoderSizes
    max_length: Annotated[Length, Field(ge=3)]
    window: LengthOrNone
    rank: LengthOrNone
    mlm_probability: Annotated[float, Field(gt=0, le=1)]
    pretrain: Stage
    convert_pretrain: Stage
    finetune: Stage
    betas: Betas
    adam_eps: Positive
    schedule: Schedules
    clip_norm: NotNegative
    evaluations: Count

    @check
    def _length(self) -> Iterator[Conflict]:
        """The conversion must not reduce the maximum length."""
        least = self.config.max_length
        if not self.checkpoint and self.max_length < least:
            yield "max_length", f"found {self.max_length}, allowed: at least config.max_length = {least}"

    @check
    def _window(self) -> Iterator[Conflict]:
        if not self.window and not self.rank:
            yield "window", "found 0 with rank 0, allowed: one of the two above 0"

    @check
    def _trained(self) -> Iterator[Conflict]:
        if not self.finetune.steps:
            yield "finetune.steps", "found 0, allowed: at least 1"

    @check
    def _large(self) -> Iterator[Conflict]:
        if not self.large_checkpoint:
            for index, name in enumerate(self.variants):
                if name.endswith("_large"):
                    yield (
                        ("variants", index),
                        f"found {name}, allowed: with a large_checkpoint: full, long_short without",
                    )

    @forecast
    def _memory(self) -> Iterator[Need]:
        """Memory of an encoder trained from scratch, before and after conversion; a checkpoint has its own sizes."""
        if self.checkpoint:
            return
        before, after = self.config.max_length, self.max_length
        converted = max(self.convert_pretrain.batch_size, self.finetune.batch_size)
        for path, longest, full, batch in (
            (("config", "max_length"), before, True, self.pretrain.batch_size),
            (("max_length",), after, False, converted),
        ):
            tensors = transformer(
                **self.config.sizes(),
                length=longest,
                batch=batch,
                vocabulary=self.config.vocabulary,
                full=full,
            )
            yield Need(path, longest, tensors)
