"""What params.yaml may say of ``freelb`` (zhu2022, chapter 3)."""

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
    unique,
)
from relearn.schema_vision import Batch, Betas, Several

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
    samples: Several


class EncoderSizes(Section):
    """``checkpoint``: of the hub, or a folder; "": one of these sizes is made. 261: all bytes and the special tokens."""

    checkpoint: str
    layers: Count
    dim: Count
    embedding_dim: Count
    heads: Count
    ffn: Count
    dropout: Share
    attention_dropout: Share
    vocabulary: Annotated[int, Field(ge=261)]
    max_length: Annotated[int, Field(ge=8)]


class Encoders(Section):
    roberta: EncoderSizes
    albert: EncoderSizes
    bert: EncoderSizes


class Acquire(Section):
    mask_frac: Annotated[float, Field(gt=0, le=1)]
    steps: Count
    warmup_steps: Several
    batch_size: Count
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
    train_samples: Several
    dev_samples: Several
    test_samples: Several
    max_length: Annotated[int, Field(ge=8)]
    steps: Count
    warmup_steps: Several
    batch_size: Count
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
    runs: Annotated[list[FineTuning], Field(min_length=1)]


class Provoke(Section):
    """``shrink``: by which share of the first radius it falls, as long as the reference is wrong."""

    tasks: Annotated[list[Name], Unique0, AfterValidator(unique)]
    samples: Several
    steps: Count
    step_size: Positive
    eps_frac: Positive
    shrink: Annotated[float, Field(gt=0, lt=1)]
    starts: Count
    batch_size: Count


class Vote(Section):
    methods: Annotated[list[Tactic], Unique0, AfterValidator(unique)]


class ContrastImages(Section):
    dataset: Literal["digits", "cifar10"]
    train_per_class: Annotated[int, Field(ge=0)]


class GradientFamilies(Section):
    families: Annotated[list[Literal["gradient"]], Unique, AfterValidator(unique)]


class ContrastNetwork(Section):
    name: Network
    width: Multiple
    depth: Multiple


class ContrastTrain(Section):
    epochs: Count
    batch_size: Batch
    lr: Positive
    momentum: Share
    weight_decay: NotNegative
    schedule: Literal["cosine", "step"]
    crop_padding: Annotated[int, Field(ge=0, le=8)]
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
    images: Several


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
