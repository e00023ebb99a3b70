"""What params.yaml may say of ``freelb`` (zhu2022, chapter 3)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from relearn.params.types import (
    LONGEST_LIST,
    Batch,
    BatchSize,
    Count,
    EpochCount,
    Heads,
    Layers,
    Length,
    Multiple,
    NotNegative,
    Padding,
    Positive,
    SamplesOrAll,
    Section,
    Seeds,
    Share,
    Steps,
    StepsOrNone,
    Unique,
    Unique0,
    Vocabulary,
    Width,
    unique,
)
from relearn.params.vision import Betas

Family = Literal["roberta", "albert", "bert"]
Exam = Literal[
    "cola",
    "sst2",
    "mrpc",
    "stsb",
    "qqp",
    "mnli",
    "qnli",
    "qnli_pairs",
    "rte",
    "wnli",
    "wnli_pairs",
    "imdb",
    "acceptability",
    "arc_easy",
    "arc_challenge",
    "arc",
    "csqa",
    "race",
    "openbookqa",
    "regents",
]
Tactic = Literal[
    "vanilla",
    "pgd",
    "free_at",
    "freelb",
    "freelb_fresh",
    "yopo_2",
    "yopo_3",
    "yopo_2_whole",
    "yopo_3_whole",
]
Network = Literal[
    "ResNet18",
    "ResNet50",
    "SENet18",
    "MobileNetV2",
    "DenseNet121",
    "ResNet-110-BN",
    "VGG-19-BN",
    "WRN-28-10",
    "DenseNet-100-BN",
]
Name = Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")]
NameOrNone = Annotated[str, Field(pattern="^([a-z][a-z0-9_]*)?$")]
Tactics = Annotated[list[Tactic], Unique, AfterValidator(unique)]
Exams = Annotated[list[Exam], Unique, AfterValidator(unique)]


class TextCorpus(Section):
    dataset: Literal["imdb", "pydoc_topics"]
    samples: SamplesOrAll


class EncoderSizes(Section):
    """``checkpoint``: of the hub, or a folder; "": one of these sizes is made. 261: all bytes and the special tokens."""

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


class Encoders(Section):
    roberta: EncoderSizes
    albert: EncoderSizes
    bert: EncoderSizes


class Acquire(Section):
    mask_frac: Annotated[float, Field(gt=0, le=1)]
    steps: Steps
    warmup_steps: StepsOrNone
    batch_size: BatchSize
    lr: Positive
    weight_decay: NotNegative
    betas: Betas
    adam_eps: Positive
    evaluations: Count


class FineTuning(Section):
    """One task of one encoder: which methods, which texts, and how; 0 samples: all there are; ``clip_norm`` 0: none.

    ``name`` is its task's, without ``_pairs``, but where it starts from another run (``start``, by name) or has other tasks with it.
    """

    encoder: Family
    name: Name
    task: Exam
    methods: Tactics
    start: NameOrNone
    with_tasks: Annotated[list[Exam], Unique0, AfterValidator(unique)]
    train_samples: SamplesOrAll
    dev_samples: SamplesOrAll
    test_samples: SamplesOrAll
    max_length: Annotated[Length, Field(ge=8)]
    steps: Steps
    warmup_steps: StepsOrNone
    batch_size: BatchSize
    accumulate: Count
    lr: Positive
    weight_decay: NotNegative
    dropout: Share
    attention_dropout: Share
    clip_norm: NotNegative
    passes: Count
    step_size: NotNegative
    start_norm: NotNegative
    eps: NotNegative
    project: bool


class FineTune(Section):
    betas: Betas
    adam_eps: Positive
    evaluations: Count
    clean_first: bool
    mask: Literal["always", "start"]
    runs: Annotated[list[FineTuning], Field(min_length=1, max_length=LONGEST_LIST)]


class Provoke(Section):
    """``shrink``: by which share of the first radius it falls, as long as the reference is wrong."""

    tasks: Annotated[list[Name], Unique0, AfterValidator(unique)]
    samples: SamplesOrAll
    steps: Steps
    step_size: Positive
    eps_frac: Positive
    shrink: Annotated[float, Field(gt=0, lt=1)]
    starts: Count
    batch_size: BatchSize


class Vote(Section):
    methods: Annotated[list[Tactic], Unique0, AfterValidator(unique)]


class ContrastImages(Section):
    dataset: Literal["digits", "cifar10"]
    train_per_class: SamplesOrAll


class GradientFamilies(Section):
    families: Annotated[list[Literal["gradient"]], Unique, AfterValidator(unique)]


class ContrastNetwork(Section):
    name: Network
    width: Multiple
    depth: Multiple


class ContrastTrain(Section):
    epochs: EpochCount
    batch_size: Batch
    lr: Positive
    momentum: Share
    weight_decay: NotNegative
    schedule: Literal["cosine", "step"]
    crop_padding: Padding
    flip: bool


class Perturbation(Section):
    passes: Count
    norm: Literal["linf", "l2"]
    eps: NotNegative
    step_size: NotNegative
    start_norm: NotNegative
    project: bool


class Attack(Section):
    eps: Positive
    step_size: Positive
    steps: Count
    restarts: Count
    images: SamplesOrAll


class Contrast(Section):
    methods: Annotated[list[Literal["vanilla", "pgd", "free_at", "freelb"]], Unique, AfterValidator(unique)]
    network: ContrastNetwork
    train: ContrastTrain
    perturbation: Perturbation
    attack: Attack


class FreeLB(Section):
    seeds: Seeds
    corpus: TextCorpus
    encoders: Encoders
    acquire: Acquire
    finetune: FineTune
    provoke: Provoke
    vote: Vote
    count: GradientFamilies
    images: ContrastImages
    contrast: Contrast


SECTION = FreeLB
