"""What params.yaml may say of ``long_short`` (zhu2022, chapter 5)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from relearn.schema_types import (
    Count,
    Multiple,
    NotNegative,
    Positive,
    Section,
    Seeds,
    Share,
    Unique,
    Unique0,
    ascending,
    unique,
)
from relearn.schema_vision import Betas, Recipe, Several, VisionImages

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
Lengths = Annotated[list[Count], Unique, AfterValidator(ascending)]


class Samples(Section):
    """0 samples: all there are, or as many as were published."""

    max_length: Annotated[int, Field(ge=8)]
    train_samples: Several
    valid_samples: Several
    test_samples: Several


class Trees(Section):
    min_length: Several
    max_length: Count
    max_depth: Count
    max_args: Annotated[int, Field(ge=2)]
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
    size: Annotated[int, Field(ge=8)]
    dashes: Annotated[int, Field(ge=2)]
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
    layers: Count
    dim: Count
    heads: Count
    ffn: Count


class Kinds(Section):
    """Which attentions meet a task, how it is trained on, and the window and rank of ``long_short_best`` and ``dynamic``."""

    attentions: Attentions
    steps: Count
    warmup_steps: Several
    batch_size: Count
    lr: Positive
    weight_decay: NotNegative
    dropout: Share
    window: Several
    rank: Several
    dynamic_rank: Count


class Tasks(Section):
    listops: Kinds
    text: Kinds
    retrieval: Kinds
    image: Kinds
    pathfinder: Kinds


class Rank(Section):
    rank: Count


class RankAndWindow(Section):
    rank: Count
    window: Count


class Landmarks(Section):
    landmarks: Count


class Features(Section):
    features: Count


class Hashes(Section):
    rounds: Count
    chunk: Count


class Blocks(Section):
    block: Count
    random: Several


class Window(Section):
    window: Count


class Block(Section):
    block: Count


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
    window: Several
    rank: Several
    rivals: Rivals
    betas: Betas
    adam_eps: Positive
    evaluations: Count
    trim: bool
    tasks: Tasks


class Stream(Section):
    datasets: Annotated[
        list[Literal["enwik8", "text8", "warandpeace", "pydoc_topics"]], Unique, AfterValidator(unique)
    ]
    characters: Several


class Characters(Section):
    """The character model; ``large_layers``, ``large_dropout`` and ``large_weight_decay`` are of its larger size."""

    layers: Count
    large_layers: Count
    dim: Count
    heads: Count
    ffn: Count
    dropout: Share
    large_dropout: Share
    window: Count
    segment: Count
    rank: Count


class Phase(Section):
    length: Count
    steps: Count
    warmup_steps: Several
    batch_size: Count
    lr: Positive


class Evaluation(Section):
    form: Literal["windows", "cached"]
    context: Count
    step: Count
    batch_size: Count
    characters: Several


class Predict(Section):
    variants: Annotated[
        list[Literal["dual_norm", "no_dual_norm", "full", "large"]], Unique, AfterValidator(unique)
    ]
    phases: Annotated[list[Phase], Field(min_length=1)]
    betas: Betas
    adam_eps: Positive
    weight_decay: NotNegative
    large_weight_decay: NotNegative
    evaluations: Count
    history_characters: Count
    evaluation: Evaluation


class Curve(Section):
    layers: Count
    dim: Count
    heads: Count
    ffn: Count
    window: Count
    segment: Count
    rank: Count
    vocabulary: Count
    attentions: Annotated[list[Literal["full", "long_short"]], Unique, AfterValidator(unique)]
    lengths: Lengths
    batches: Lengths
    full_longest: Count
    cached: bool
    repeats: Count
    memory: bool


class TextLengths(Section):
    listops: Count
    text: Count
    retrieval: Count


class Latency(Section):
    attentions: Attentions
    lengths: TextLengths
    batch_size: Count
    repeats: Count


class Cost(Section):
    curve: Curve
    latency: Latency


class AdaptSizes(Section):
    layers: Count
    dim: Count
    heads: Count
    ffn: Count
    dropout: Share
    vocabulary: Annotated[int, Field(ge=261)]
    max_length: Annotated[int, Field(ge=3)]


class AdaptStage(Section):
    steps: Several
    warmup_steps: Several
    batch_size: Count
    lr: Positive
    weight_decay: NotNegative


class Adapt(Section):
    """``checkpoint``: of all variants but ``*_large``; "": one is made. 261: all bytes and the special tokens."""

    variants: Annotated[
        list[Literal["full", "long_short", "full_large", "long_short_large"]], Unique, AfterValidator(unique)
    ]
    dataset: Literal["imdb", "python"]
    train_samples: Several
    valid_samples: Several
    test_samples: Several
    max_bytes: Annotated[int, Field(ge=8)]
    checkpoint: str
    large_checkpoint: str
    config: AdaptSizes
    max_length: Annotated[int, Field(ge=3)]
    window: Several
    rank: Several
    mask_frac: Annotated[float, Field(gt=0, le=1)]
    pretrain: AdaptStage
    convert_pretrain: AdaptStage
    finetune: AdaptStage
    betas: Betas
    adam_eps: Positive
    evaluations: Count


class CountFamilies(Section):
    families: Annotated[list[Family], Unique, AfterValidator(unique)]


class Pyramids(Section):
    """``window``: of CvT with long-short attention; ImageNet's has its own."""

    width: Multiple
    depth: Multiple
    patch_size: Count
    window: Count


class TrainPyramids(Recipe):
    weight_decay: NotNegative
    drop_path: Share
    average: Share


class Grid(Section):
    networks: Networks
    similarity: Some


class Similarity(Section):
    images: Several
    batch_size: Count
    absolute: bool


class LongShortThroughput(Section):
    """``size``: side of the images."""

    networks: Some
    against: Network
    batch_size: Count
    size: Annotated[int, Field(ge=8)]
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
