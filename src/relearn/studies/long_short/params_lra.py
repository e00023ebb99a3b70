"""Sections of params.yaml for the Long Range Arena: tasks, training of the encoders, and latency of attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from relearn.data.facts import SIDE
from relearn.data.lra import TASKS
from relearn.layers import efficient
from relearn.params.conflicts import Conflict, at_most, check, forecast, multiples_of, none_or_several
from relearn.params.forecast_memory import Need, Tensor
from relearn.params.types import (
    BatchSize,
    Count,
    Distinct,
    Heads,
    Layers,
    Length,
    LengthOrNone,
    NotNegative,
    OneOf,
    OwnSeeds,
    Positive,
    Rising0,
    SamplesOrAll,
    Section,
    Seeds,
    Several,
    Share,
    Side,
    Steps,
    StepsOrNone,
    Vocabulary,
    Width,
    also,
)
from relearn.params.vision import Betas
from relearn.runs import plugins

plugins.register()
Attentions = Distinct[Annotated[str, OneOf(efficient.KINDS)]]
Schedules = Literal["linear", "cosine", "constant", "inverse_sqrt"]


class Samples(Section):
    """Number of samples of a task; 0: all available, or the published number."""

    max_length: Annotated[Length, Field(ge=8)]
    train_samples: SamplesOrAll
    valid_samples: SamplesOrAll
    test_samples: SamplesOrAll


class Generated(Samples):
    """A task whose samples are generated or read from the arena's archive."""

    dataset: Literal["generated", "lra_release"]

    @forecast
    def _memory(self) -> Iterator[Need]:
        """Memory of all sequences, one byte per value; the data sets of the other tasks have a fixed size."""
        samples = self.train_samples + self.valid_samples + self.test_samples
        sizes = (("samples", samples), ("length", self.max_length))
        yield Need(("train_samples",), self.train_samples, (Tensor("sequences", sizes, 1),))


class Trees(Section):
    min_length: LengthOrNone
    max_length: Length
    max_depth: Annotated[Count, Field(le=100)]
    max_args: Annotated[Count, Field(ge=2, le=100)]
    operator_frac: Annotated[float, Field(gt=0, lt=1)]
    closing: bool

    @check
    def _range(self) -> Iterator[Conflict]:
        """At least one length must be strictly between the two bounds."""
        least, most = self.min_length, self.max_length
        if least > most - 2:
            yield (
                "min_length",
                f"found {least}, allowed: at most form.max_length - 2 = {most - 2}, so that a number is between the two",
            )


class ListOps(Generated):
    form: Trees

    @check
    def _whole(self) -> Iterator[Conflict]:
        """Trees must not be truncated, because a truncated tree has a different result."""
        most = self.form.max_length
        if most > self.max_length + 1:
            yield (
                "form.max_length",
                f"found {most}, allowed: at most listops.max_length + 1 = {self.max_length + 1}",
            )


class Text(Samples):
    dataset: Literal["imdb", "python"]


class Retrieval(Samples):
    dataset: Literal["aan", "lra_release", "python_kinds", "python_documents"]


class Pixels(Samples):
    dataset: Literal["cifar10", "digits"]

    @check
    def _pixels(self) -> Iterator[Conflict]:
        """A sequence is a whole image."""
        yield from _length(self.max_length, SIDE[self.dataset] ** 2, f"the pixels of {self.dataset}")


class Paths(Section):
    size: Annotated[Side, Field(ge=8)]
    dashes: Annotated[Count, Field(ge=2)]
    distractors: Several
    distractor_dashes: Count
    dash: Positive
    gap: NotNegative
    clearance: Positive
    radius: Positive


class Pathfinder(Generated):
    form: Paths

    @check
    def _pixels(self) -> Iterator[Conflict]:
        """A sequence is a whole image."""
        side = self.form.size
        yield from _length(self.max_length, side**2, f"form.size = {side} squared")


def _length(found: int, wanted: int, why: str) -> Iterator[Conflict]:
    if found != wanted:
        yield "max_length", f"found {found}, allowed: {wanted}, {why}"


class PrepareLra(Section):
    listops: ListOps
    text: Text
    retrieval: Retrieval
    image: Pixels
    pathfinder: Pathfinder


class Sizes(Section):
    """Sizes of a transformer."""

    layers: Layers
    dim: Width
    heads: Heads
    ffn: Width

    def sizes(self) -> dict[str, Any]:
        """Arguments of :func:`relearn.params.forecast_memory.transformer`."""
        return {"layers": self.layers, "dim": self.dim, "ffn": self.ffn, "heads": self.heads}

    _heads = multiples_of("dim", "heads")


class WarmedUp(Section):
    """A training phase; the warm-up is part of its steps."""

    steps: StepsOrNone
    warmup_steps: StepsOrNone
    batch_size: BatchSize
    lr: Positive

    _warmup = at_most("warmup_steps", "steps")


class TaskTraining(WarmedUp):
    """Attentions and recipe for a task; also window and rank of ``long_short_best``, and rank of ``dynamic``.

    ``rates``: learning rates that are tried for each attention; without any, all have ``lr``.
    """

    steps: Steps
    attentions: Attentions
    rates: Rising0[Positive]
    weight_decay: NotNegative
    dropout: Share
    window: LengthOrNone
    rank: LengthOrNone
    dynamic_rank: Length

    _rates = none_or_several("rates")


class Tasks(Section):
    listops: TaskTraining
    text: TaskTraining
    retrieval: TaskTraining
    image: TaskTraining
    pathfinder: TaskTraining

    def items(self) -> Iterator[tuple[str, TaskTraining]]:
        """Name and section of each task."""
        for task in TASKS:
            yield task, getattr(self, task)


class Rank(Section):
    rank: Length


class RankAndWindow(Rank):
    window: Length


class Landmarks(Section):
    landmarks: Length


class Features(Section):
    features: Width


class Hashes(Section):
    rounds: Count
    chunk: Length


class Window(Section):
    window: Length


class Band(Window):
    @check
    def _even(self) -> Iterator[Conflict]:
        if self.window % 2:
            yield "window", f"found {self.window}, allowed: even numbers, half on each side"


class Block(Section):
    block: Length


class Blocks(Block):
    random: Several


@also(plugins.installed()["relearn.attentions"], dict[str, Any])
class Baselines(Section):
    """Sizes of the other attentions; attentions without a size are omitted."""

    linformer: Rank
    linformer_window: RankAndWindow
    nystromformer: Landmarks
    performer: Features
    reformer: Hashes
    big_bird: Blocks
    longformer: Band
    sinkhorn: Block


class TrainLra(Section):
    """``seeds``: of the trained networks, empty for the study's; those that try rates have ``tuning_seeds``.

    ``pooling``: "class" works with every attention; without global tokens, the class token is treated like any other token.
    """

    seeds: OwnSeeds
    window: LengthOrNone
    rank: LengthOrNone
    baselines: Baselines
    betas: Betas
    adam_eps: Positive
    evaluations: Count
    schedule: Schedules
    clip_norm: NotNegative
    pooling: Literal["", "class", "mean"]
    trim: bool
    tuning_seeds: Seeds
    tasks: Tasks


class TextLengths(Section):
    listops: Length
    text: Length
    retrieval: Length


class Latency(Section):
    attentions: Attentions
    lengths: TextLengths
    vocabulary: Vocabulary
    classes: Annotated[Count, Field(ge=2)]
    batch_size: BatchSize
    repeats: Count
