"""Types, ranges and checks of ``gradinit.corpus``, ``gradinit.translation`` and ``gradinit.tuning``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from relearn.params.conflicts import Conflict, at_most, check
from relearn.params.types import (
    Count,
    Distinct0,
    Heads,
    Layers,
    Length,
    NotNegative,
    OwnSeeds,
    Positive,
    SamplesOrAll,
    Section,
    Share,
    Steps,
    StepsOrNone,
    Vocabulary,
    Width,
)

Start = Annotated[
    str,
    Field(
        pattern=r"^(post_ln|w_skip|no_norm|rezero)/(xavier|gradinit|gradinit_sgd|admin|admin_fixed|t_fixup|fixup|none)$"
    ),
]
TranslationRun = Annotated[
    str,
    Field(
        pattern=r"^(post_ln|w_skip|no_norm|rezero)/(xavier|gradinit|gradinit_sgd|admin|admin_fixed|t_fixup|fixup|none)"
        r"/(adam|adam_warmup|adam_short_warmup|radam|radam_warmup|sgd)$"
        r"|^post_ln/gradinit_sgd_lr0\.\d+/sgd$"
    ),
]


class CorpusOf(Section):
    dataset: Literal["number_words", "multi30k", "iwslt14"]
    vocabulary: Annotated[Vocabulary, Field(ge=50)]
    max_length: Annotated[Length, Field(ge=4)]
    train_pairs: SamplesOrAll
    test_pairs: SamplesOrAll


class Adam(Section):
    eta: Positive
    gamma: Positive


class Transformer(Section):
    dim: Width
    ffn: Width
    heads: Heads
    layers: Layers
    dropout: Share

    @check
    def _heads(self) -> Iterator[Conflict]:
        if self.dim % self.heads or self.dim % 2:
            yield "dim", f"found {self.dim}, allowed: an even multiple of heads = {self.heads}"


class InitialiseTranslation(Section):
    max_tokens: Length
    iterations: Steps
    tau: Positive
    min_scale: Annotated[float, Field(gt=0, lt=1)]


class ShortWarmup(Section):
    steps: Steps
    lr: Positive


class TrainTranslation(Section):
    steps: Steps
    schedule: Literal["linear", "cosine", "constant", "inverse_sqrt"]
    schedule_steps: Steps
    warmup_steps: Steps
    short_warmup: ShortWarmup
    max_tokens: Length
    lr: Positive
    sgd_lr: Positive
    betas: Annotated[list[Share], Field(min_length=2, max_length=2)]
    weight_decay: NotNegative
    decoupled_decay: bool
    clip_norm: NotNegative
    label_smoothing: Share
    evaluations: Count

    _steps = at_most("steps", "schedule_steps")

    @check
    def _warmup(self) -> Iterator[Conflict]:
        whole = self.schedule_steps
        for key, found in (
            ("warmup_steps", self.warmup_steps),
            (("short_warmup", "steps"), self.short_warmup.steps),
        ):
            if found >= whole:
                yield key, f"found {found}, allowed: less than schedule_steps = {whole}"


class Beam(Section):
    size: Count
    length_penalty: NotNegative
    extra: Count
    factor: Annotated[float, Field(gt=0, le=10)]


class HeatMap(Section):
    runs: Distinct0[Start]
    lr: Distinct0[Positive]
    beta2: Distinct0[Share]


class ProbeTranslation(Section):
    runs: Distinct0[Start]
    batches: Annotated[Count, Field(ge=2)]


class Translation(Section):
    """``other_seeds``: the number of seeds of the runs that decide no claim; 0 means all."""

    seeds: OwnSeeds
    other_seeds: StepsOrNone
    network: Transformer
    initialise: InitialiseTranslation
    adam: Adam
    sgd: Adam
    train: TrainTranslation
    beam: Beam
    runs: Distinct0[TranslationRun]
    grid: HeatMap
    probe: ProbeTranslation


class TuneTau(Section):
    """``factors`` of an initialisation's own tau, tried with these seeds; none: it keeps its tau."""

    seeds: OwnSeeds
    factors: Distinct0[Positive]


class TuneTranslation(Section):
    """``taus`` of GradInit and ``sgd_rates`` of Admin, tried with these seeds; without some, a start or training keeps its own."""

    seeds: OwnSeeds
    taus: Distinct0[Positive]
    sgd_rates: Distinct0[Positive]


class Tuning(Section):
    metainit: TuneTau
    gradinit: TuneTau
    translation: TuneTranslation
