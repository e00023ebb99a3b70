"""What params.yaml may say of ``gradinit`` (zhu2022, chapter 4)."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field, create_model

from relearn.params.types import (
    Batch,
    Count,
    Draws,
    EpochCount,
    Heads,
    Layers,
    Length,
    Milestones,
    Multiple,
    NotNegative,
    Padding,
    Positive,
    SampleCount,
    SamplesOrAll,
    Section,
    Seeds,
    Share,
    Side,
    SideOrNone,
    Steps,
    Unique0,
    Vocabulary,
    Width,
    unique,
)

Overlap = Annotated[float, Field(ge=0, le=1)]
NetworkName = Literal[
    "VGG-19",
    "VGG-19-BN",
    "ResNet-110",
    "ResNet-110-BN",
    "ResNet-1202",
    "ResNet-1202-BN",
    "WRN-28-10",
    "FixUpResNet-110",
    "DenseNet-100",
    "DenseNet-100-BN",
    "ResNet-110-SkipInit",
    "ResNet-110-ReZero",
    "timm-ResNet-50-BN",
    "timm-ResNet-50-FixUp",
]
FirstInitialisation = Literal[
    "kaiming",
    "xavier",
    "orthogonal",
    "lsuv",
    "metainit",
    "metainit_random_sign",
    "metainit_real_sign",
    "extra_epoch_constant",
    "extra_epoch_warmup",
    "gradinit",
    "gradinit_fix_bn",
    "gradinit_only_bn",
]
Networks = Annotated[list[NetworkName], Unique0, AfterValidator(unique)]
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
        r"/(adam|adam_warmup|radam|radam_warmup|sgd)$"
    ),
]


class Images(Section):
    dataset: Literal["digits", "cifar10"]
    train_per_class: Annotated[SampleCount, Field(ge=2)]


class CorpusOf(Section):
    dataset: Literal["number_words", "multi30k", "iwslt14"]
    vocabulary: Annotated[Vocabulary, Field(ge=50)]
    max_length: Annotated[Length, Field(ge=4)]
    train_pairs: SamplesOrAll
    test_pairs: SamplesOrAll


class ImageNetwork(Section):
    width: Multiple
    depth: Multiple
    deep_depth: Multiple


class FreeTau(Section):
    half: Positive
    same: Positive
    same_large: Positive


Tau = create_model(  # type: ignore[call-overload]
    "Tau",
    __base__=Section,
    **{name.replace("-", "_"): (Positive, Field(alias=name)) for name in get_args(NetworkName)},
)
"""A learning rate of the scales for each network; names with hyphens are no Python names, so they are aliases."""


class Adam(Section):
    eta: Positive
    gamma: Positive


class MetaInit(Section):
    tau: Positive
    momentum: Share


class Lsuv(Section):
    tolerance: Positive
    iterations: Count


class Initialise(Section):
    batch_size: Batch
    iterations: Steps
    eta: Positive
    gamma: Positive
    overlap: Overlap
    min_scale: Share
    normalised: bool
    tau: Tau  # type: ignore[valid-type]
    free_tau: FreeTau
    penalties: Annotated[list[Positive], Unique0, AfterValidator(unique)]
    adam: Adam
    metainit: MetaInit
    lsuv: Lsuv


class TrainImages(Section):
    epochs: EpochCount
    batch_size: Batch
    lr: Positive
    momentum: Share
    weight_decay: NotNegative
    crop_padding: Padding
    flip: bool
    cutout: SideOrNone
    clip_norm: Positive
    mixup: Positive
    test_images: SamplesOrAll


class AdamW(Section):
    lr: Positive
    weight_decay: NotNegative


class Scalars(Section):
    lr: Positive
    low_lr: Positive


class ImageGrid(Section):
    kaiming: Networks
    gradinit: Networks
    metainit: Networks
    metainit_random_sign: Networks
    metainit_real_sign: Networks
    extra_epoch_constant: Networks
    extra_epoch_warmup: Networks
    fixup: Networks
    gradinit_overlap: Networks
    gradinit_free: Networks
    gradinit_penalty: Networks
    gradinit_fix_bn: Networks
    gradinit_only_bn: Networks
    xavier: Networks
    orthogonal: Networks
    lsuv: Networks
    none: Networks


class FirstSteps(Section):
    networks: Networks
    initialisations: Annotated[list[FirstInitialisation], Unique0, AfterValidator(unique)]
    width: Multiple
    depth: Multiple
    steps: Steps
    batch_size: Batch
    iterations: Steps


class FolderStarts(Section):
    kaiming: Networks
    fixup: Networks
    metainit: Networks
    gradinit: Networks


class InitialiseFolder(Section):
    batch_size: Batch
    iterations: Steps
    gamma: Positive


class ImageNet(Section):
    networks: FolderStarts
    size: Annotated[Side, Field(ge=8)]
    epochs: EpochCount
    batch_size: Batch
    lr: Positive
    milestones: Milestones
    mixup: Positive
    initialise: InitialiseFolder


class Probe(Section):
    networks: Networks
    batches: Annotated[Count, Field(ge=2)]
    batch_size: Batch
    variance_draws: Annotated[Draws, Field(ge=100)]


class Transformer(Section):
    dim: Width
    ffn: Width
    heads: Heads
    layers: Layers
    dropout: Share


class InitialiseTranslation(Section):
    max_tokens: Length
    iterations: Steps
    tau: Positive
    min_scale: Share


class TrainTranslation(Section):
    steps: Steps
    schedule_steps: Steps
    warmup_steps: Steps
    max_tokens: Length
    lr: Positive
    sgd_lr: Positive
    betas: Annotated[list[Share], Field(min_length=2, max_length=2)]
    weight_decay: NotNegative
    label_smoothing: Share
    evaluations: Count


class Beam(Section):
    size: Count
    length_penalty: NotNegative
    extra: Count
    factor: Annotated[float, Field(gt=0, le=10)]


class HeatMap(Section):
    runs: Annotated[list[Start], Unique0, AfterValidator(unique)]
    lr: Annotated[list[Positive], Unique0, AfterValidator(unique)]
    beta2: Annotated[list[Share], Unique0, AfterValidator(unique)]


class ProbeTranslation(Section):
    runs: Annotated[list[Start], Unique0, AfterValidator(unique)]
    batches: Annotated[Count, Field(ge=2)]


class Translation(Section):
    network: Transformer
    initialise: InitialiseTranslation
    adam: Adam
    sgd: Adam
    train: TrainTranslation
    beam: Beam
    runs: Annotated[list[TranslationRun], Unique0, AfterValidator(unique)]
    grid: HeatMap
    probe: ProbeTranslation


class GradInit(Section):
    seeds: Seeds
    images: Images
    corpus: CorpusOf
    network: ImageNetwork
    initialise: Initialise
    train: TrainImages
    adamw: AdamW
    scalars: Scalars
    networks: ImageGrid
    adamw_networks: Networks
    scalar_networks: Networks
    first_steps: FirstSteps
    imagenet: ImageNet
    probe: Probe
    translation: Translation


SECTION = GradInit
