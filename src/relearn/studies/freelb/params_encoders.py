"""Parameters of the encoders of chapter 3 and of their pretraining: types and ranges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from relearn.params.conflicts import Conflict, at_most, check
from relearn.params.types import (
    BatchSize,
    Count,
    Heads,
    Layers,
    Length,
    NotNegative,
    Positive,
    SamplesOrAll,
    Section,
    Share,
    Steps,
    StepsOrNone,
    Vocabulary,
    Width,
)
from relearn.params.vision import Betas

Schedule = Literal["linear", "cosine", "constant"]


class TextCorpus(Section):
    dataset: Literal["imdb", "pydoc_topics"]
    samples: SamplesOrAll


class EncoderSizes(Section):
    """An encoder.

    ``checkpoint`` is a name on the Hugging Face hub or a folder; "" means that an encoder of these sizes is pretrained here. The
    smallest vocabulary, 261, contains all bytes and the special tokens.
    """

    checkpoint: str
    layers: Layers
    dim: Width
    embedding_dim: Width
    heads: Heads
    ffn: Width
    dropout: Share
    attention_dropout: Share
    vocabulary: Annotated[Vocabulary, Field(ge=261)]
    max_length: Annotated[Length, Field(ge=8)]

    @check
    def _heads(self) -> Iterator[Conflict]:
        if not self.checkpoint and self.dim % self.heads:
            yield "dim", f"found {self.dim}, allowed: multiples of heads = {self.heads}"


class Encoders(Section):
    roberta: EncoderSizes
    albert: EncoderSizes
    bert: EncoderSizes


class PretrainEncoder(Section):
    mlm_probability: Annotated[float, Field(gt=0, le=1)]
    steps: Steps
    warmup_steps: StepsOrNone
    batch_size: BatchSize
    lr: Positive
    weight_decay: NotNegative
    betas: Betas
    adam_eps: Positive
    schedule: Schedule
    clip_norm: NotNegative
    evaluations: Count

    _warmup = at_most("warmup_steps", "steps")
