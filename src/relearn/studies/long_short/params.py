"""What params.yaml may say of ``long_short`` (zhu2022, chapter 5)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from relearn.params.types import (
    LONGEST_LIST,
    BatchSize,
    CharactersOrAll,
    Count,
    Heads,
    Layers,
    Length,
    LengthOrNone,
    Multiple,
    NotNegative,
    Positive,
    SampleCount,
    SamplesOrAll,
    Section,
    Seeds,
    Several,
    Share,
    Side,
    Steps,
    StepsOrNone,
    Unique,
    Unique0,
    Vocabulary,
    Width,
    ascending,
    unique,
)
from relearn.params.vision import Betas, Recipe, VisionImages

Attention = Literal[
    "full",
    "window",
    "dynamic",
    "long_short",
    "long_short_best",
    "linformer",
    "linformer_window",
    "nystromformer",
    "performer",
    "reformer",
    "linear",
    "big_bird",
    "longformer",
    "sparse",
    "sinkhorn",
    "synthesizer",
]
Attentions = Annotated[list[Attention], Unique, AfterValidator(unique)]
Family = Literal["lra", "language", "vision"]
Network = Literal[
    "CvT-13",
    "CvT-21",
    "CvT-LS-13",
    "CvT-LS-17",
    "CvT-LS-21",
    "CvT-LS-21S",
    "ViL-Medium",
    "ViL-LS-Medium",
    "ViL-Base",
    "ViL-LS-Base",
    "DeiT-S",
    "ResNet-50",
    "Swin-T",
    "LipsFormer-Swin-T",
]
Networks = Annotated[list[Network], Unique, AfterValidator(unique)]
Some = Annotated[list[Network], Unique0, AfterValidator(unique)]
Schedules = Literal["linear", "cosine", "constant", "inverse_sqrt"]
Lengths = Annotated[list[Length], Unique, AfterValidator(ascending)]


class Samples(Section):
    """0 samples: all there are, or as many as were published."""

    max_length: Annotated[Length, Field(ge=8)]
    train_samples: SamplesOrAll
    valid_samples: SamplesOrAll
    test_samples: SamplesOrAll


class Trees(Section):
    min_length: LengthOrNone
    max_length: Length
    max_depth: Annotated[Count, Field(le=100)]
    max_args: Annotated[Count, Field(ge=2, le=100)]
    operator_frac: Annotated[float, Field(gt=0, lt=1)]


class ListOps(Samples):
    dataset: Literal["generated"]
    form: Trees


class Text(Samples):
    dataset: Literal["imdb", "python"]


class Retrieval(Samples):
    dataset: Literal["aan", "python_kinds", "python_documents"]


class Pixels(Samples):
    dataset: Literal["cifar10", "digits"]


class Paths(Section):
    size: Annotated[Side, Field(ge=8)]
    dashes: Annotated[Count, Field(ge=2)]
    distractors: Several
    distractor_dashes: Count
    dash: Positive
    gap: NotNegative
    clearance: Positive
    radius: Positive


class Pathfinder(Samples):
    dataset: Literal["generated"]
    form: Paths


class Sequences(Section):
    listops: ListOps
    text: Text
    retrieval: Retrieval
    image: Pixels
    pathfinder: Pathfinder


class Encoder(Section):
    layers: Layers
    dim: Width
    heads: Heads
    ffn: Width


class Schedule(Section):
    steps: Steps
    warmup_steps: StepsOrNone
    batch_size: BatchSize
    lr: Positive


class Kinds(Schedule):
    """Which attentions meet a task, how it is trained on, and the window and rank of ``long_short_best`` and ``dynamic``."""

    attentions: Attentions
    weight_decay: NotNegative
    dropout: Share
    window: LengthOrNone
    rank: LengthOrNone
    dynamic_rank: Length


class Tasks(Section):
    listops: Kinds
    text: Kinds
    retrieval: Kinds
    image: Kinds
    pathfinder: Kinds


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


class Block(Section):
    block: Length


class Blocks(Block):
    random: Several


class Rivals(Section):
    """What the other attentions say of themselves; those that have no size are not here."""

    linformer: Rank
    linformer_window: RankAndWindow
    nystromformer: Landmarks
    performer: Features
    reformer: Hashes
    big_bird: Blocks
    longformer: Window
    sinkhorn: Block


class Understand(Section):
    window: LengthOrNone
    rank: LengthOrNone
    rivals: Rivals
    betas: Betas
    adam_eps: Positive
    evaluations: Count
    schedule: Schedules
    clip_norm: NotNegative
    pooling: Literal["", "class", "mean"]
    trim: bool
    tasks: Tasks


class Stream(Section):
    datasets: Annotated[
        list[Literal["enwik8", "text8", "warandpeace", "pydoc_topics"]], Unique, AfterValidator(unique)
    ]
    characters: CharactersOrAll


class Characters(Encoder):
    """The character model; ``large_layers``, ``large_dropout`` and ``large_weight_decay`` are of its larger size."""

    large_layers: Layers
    dropout: Share
    large_dropout: Share
    window: Length
    segment: Length
    rank: Length


class Phase(Schedule):
    length: Length


class Evaluation(Section):
    form: Literal["windows", "cached"]
    context: Length
    step: Length
    batch_size: BatchSize
    characters: CharactersOrAll


class Predict(Section):
    variants: Annotated[
        list[Literal["dual_norm", "no_dual_norm", "full", "large"]], Unique, AfterValidator(unique)
    ]
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


class Curve(Encoder):
    window: Length
    segment: Length
    rank: Length
    vocabulary: Vocabulary
    attentions: Annotated[list[Literal["full", "long_short"]], Unique, AfterValidator(unique)]
    lengths: Lengths
    batches: Annotated[list[BatchSize], Unique, AfterValidator(ascending)]
    full_longest: Length
    cached: bool
    repeats: Count
    memory: bool


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


class Cost(Section):
    curve: Curve
    latency: Latency


class AdaptSizes(Encoder):
    dropout: Share
    vocabulary: Annotated[Vocabulary, Field(ge=261)]
    max_length: Annotated[Length, Field(ge=3)]


class AdaptStage(Section):
    steps: StepsOrNone
    warmup_steps: StepsOrNone
    batch_size: BatchSize
    lr: Positive
    weight_decay: NotNegative


class Adapt(Section):
    """``checkpoint``: of all variants but ``*_large``; "": one is made. 261: all bytes and the special tokens."""

    variants: Annotated[
        list[Literal["full", "long_short", "full_large", "long_short_large"]], Unique, AfterValidator(unique)
    ]
    dataset: Literal["imdb", "python"]
    train_samples: SamplesOrAll
    valid_samples: SamplesOrAll
    test_samples: SamplesOrAll
    max_bytes: Annotated[Length, Field(ge=8)]
    checkpoint: str
    large_checkpoint: str
    config: AdaptSizes
    max_length: Annotated[Length, Field(ge=3)]
    window: LengthOrNone
    rank: LengthOrNone
    mask_frac: Annotated[float, Field(gt=0, le=1)]
    pretrain: AdaptStage
    convert_pretrain: AdaptStage
    finetune: AdaptStage
    betas: Betas
    adam_eps: Positive
    schedule: Schedules
    clip_norm: NotNegative
    evaluations: Count


class CountFamilies(Section):
    families: Annotated[list[Family], Unique, AfterValidator(unique)]


class Pyramids(Section):
    """``window``: of CvT with long-short attention; ImageNet's has its own."""

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


class Similarity(Section):
    images: SamplesOrAll
    batch_size: BatchSize
    absolute: bool


class LongShortThroughput(Section):
    """``size``: side of the images."""

    networks: Some
    against: Network
    batch_size: BatchSize
    size: Annotated[Side, Field(ge=8)]
    pairs: Count


class LongShort(Section):
    seeds: Seeds
    sequences: Sequences
    encoder: Encoder
    understand: Understand
    stream: Stream
    characters: Characters
    predict: Predict
    cost: Cost
    adapt: Adapt
    count: CountFamilies
    images: VisionImages
    network: Pyramids
    train: TrainPyramids
    grid: Grid
    similarity: Similarity
    throughput: LongShortThroughput


SECTION = LongShort
