"""The section ``gradinit`` of params.yaml (zhu2022, chapter 4): types, ranges and cross-field validation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, create_model

from relearn.data.facts import CLASSES, MOST_FOR_TRAINING, images_for_testing
from relearn.params.conflicts import Conflict, check, forecast
from relearn.params.forecast_memory import Need, Tensor, first_maps, transformer
from relearn.params.types import (
    Batch,
    Count,
    Distinct0,
    Draws,
    EpochCount,
    Gpus,
    Milestones,
    Multiple,
    NotNegative,
    OwnSeeds,
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
    also,
)
from relearn.runs import plugins
from relearn.studies.gradinit.params_translation import Adam, CorpusOf, Translation, Tuning

plugins.register()
MORE = plugins.installed()["relearn.initialisations"]
"""Initialisations of other packages: their networks below `networks`, their arguments below `initialise`."""
STEM = 64
"""Channels of the first convolution of the networks on ImageNet (He et al. 2016)."""
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
    "gradinit_overlap_0",
    "gradinit_overlap_1",
    "gradinit_fix_bn",
    "gradinit_only_bn",
]
GridInitialisation = Literal[FirstInitialisation, "gradinit_tuned"]
Networks = Distinct0[NetworkName]


class Images(Section):
    dataset: Literal["digits", "cifar10"]
    train_per_class: Annotated[SampleCount, Field(ge=2)]

    @check
    def _train_per_class(self) -> Iterator[Conflict]:
        found, most = self.train_per_class, MOST_FOR_TRAINING[self.dataset]
        if found > most:
            yield (
                "train_per_class",
                f"found {found}, allowed: at most {most} images a class of {self.dataset}",
            )


class ImageNetwork(Section):
    width: Multiple
    depth: Multiple
    resnet1202_depth: Multiple


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


class MetaInit(Section):
    tau: Positive
    momentum: Share


class MetaInitByAdam(Section):
    """MetaInit on real data with Adam for the factors, the baseline of tables 4.4 and 4.5."""

    clip: Positive
    tau: Tau  # type: ignore[valid-type]


class Lsuv(Section):
    tolerance: Positive
    iterations: Count


@also(MORE, dict[str, Any])
class Initialise(Section):
    batch_size: Batch
    densenet_batch_size: Batch
    iterations: Steps
    eta: Positive
    gamma: Positive
    overlap: Overlap
    min_scale: Annotated[float, Field(gt=0, lt=1)]
    normalised: bool
    clip: NotNegative
    divide_by_eta: bool
    moments: Literal["shared", "split"]
    tau: Tau  # type: ignore[valid-type]
    free_tau: FreeTau
    penalties: Distinct0[Positive]
    adam: Adam
    metainit: MetaInit
    metainit_adam: MetaInitByAdam
    lsuv: Lsuv


class TrainImages(Section):
    epochs: EpochCount
    batch_size: Batch
    densenet_batch_size: Batch
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


@also(MORE, Networks)
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
    gradinit_tuned: Networks
    xavier: Networks
    orthogonal: Networks
    lsuv: Networks
    none: Networks


class FirstSteps(Section):
    seeds: OwnSeeds
    networks: Networks
    initialisations: Distinct0[FirstInitialisation]
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
    normalised: bool


class ImageNet(Section):
    networks: FolderStarts
    size: Annotated[Side, Field(ge=8)]
    epochs: EpochCount
    batch_size: Batch
    lr: Positive
    milestones: Milestones
    mixup: Positive
    gpus: Gpus
    initialise: InitialiseFolder

    @check
    def _milestones(self) -> Iterator[Conflict]:
        for index, milestone in enumerate(self.milestones):
            if milestone >= self.epochs:
                line = f"found {milestone}, allowed: less than imagenet.epochs = {self.epochs}"
                yield ("milestones", index), line

    @forecast
    def _folder_memory(self) -> Iterator[Need]:
        """A batch of images and the activations after the first convolution, which has stride 2 in all these networks."""
        for path, batch in (
            (("batch_size",), self.batch_size),
            (("initialise", "batch_size"), self.initialise.batch_size),
        ):
            yield Need(path, batch, first_maps(batch, self.size, 2, STEM))


class Probe(Section):
    networks: Networks
    batches: Annotated[Count, Field(ge=2)]
    batch_size: Batch
    variance_draws: Annotated[Draws, Field(ge=100)]


class ExtraSeeds(Section):
    """Additional seeds for SGD training of the given networks from the given initialisations."""

    networks: Networks
    initialisations: Distinct0[GridInitialisation]
    seeds: OwnSeeds


class GradInit(Section):
    seeds: Seeds
    extra_seeds: ExtraSeeds
    tuning: Tuning
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

    @check
    def _extra_seeds(self) -> Iterator[Conflict]:
        for index, seed in enumerate(self.extra_seeds.seeds):
            if seed in self.seeds:
                yield ("extra_seeds", "seeds", index), f"found {seed}, allowed: none of seeds"

    @check
    def _tuning_seeds(self) -> Iterator[Conflict]:
        """Seeds that choose a rate decide nothing else."""
        for name, others in (
            ("metainit", [*self.seeds, *self.extra_seeds.seeds]),
            ("gradinit", [*self.seeds, *self.extra_seeds.seeds]),
            ("translation", self.translation.seeds or self.seeds),
        ):
            for index, seed in enumerate(getattr(self.tuning, name).seeds):
                if seed in others:
                    yield ("tuning", name, "seeds", index), f"found {seed}, allowed: none that trains, too"

    @check
    def _search(self) -> Iterator[Conflict]:
        """GradInit with a tuned tau is GradInit without a search."""
        search = self.tuning.gradinit
        if self.networks.gradinit_tuned and not (search.seeds and search.factors):
            found = f"found {', '.join(self.networks.gradinit_tuned)}"
            line = f"{found}, allowed: none without seeds and factors of tuning.gradinit"
            yield ("networks", "gradinit_tuned"), line

    @check
    def _batches(self) -> Iterator[Conflict]:
        images = CLASSES * self.images.train_per_class
        for key, size in (
            ("train.batch_size", self.train.batch_size),
            ("train.densenet_batch_size", self.train.densenet_batch_size),
            ("probe.batch_size", self.probe.batch_size),
        ):
            if size > images:
                line = f"found {size}, allowed: at most {images} images ({CLASSES} x images.train_per_class)"
                yield key, line

    @check
    def _pools(self) -> Iterator[Conflict]:
        """GradInit draws its first batch and the new images of its second batch together."""
        part = 2.0 - self.initialise.overlap
        most = int(CLASSES * self.images.train_per_class / part)
        for key, size in (
            ("initialise.batch_size", self.initialise.batch_size),
            ("initialise.densenet_batch_size", self.initialise.densenet_batch_size),
            ("first_steps.batch_size", self.first_steps.batch_size),
        ):
            if size > most:
                line = f"found {size}, allowed: at most {most} (2 - overlap = {part:g} times as many images are drawn)"
                yield key, line

    @check
    def _test_images(self) -> Iterator[Conflict]:
        dataset, found = self.images.dataset, self.train.test_images
        most = images_for_testing(dataset, CLASSES * self.images.train_per_class)
        if found > most:
            line = f"found {found}, allowed: at most the {most} test images of {dataset}; 0 = all"
            yield "train.test_images", line

    @check
    def _one_data_set(self) -> Iterator[Conflict]:
        """A table shows each network on one data set only."""
        for name in FolderStarts.model_fields:
            elsewhere = getattr(self.networks, name)
            for index, network in enumerate(getattr(self.imagenet.networks, name)):
                if network in elsewhere:
                    line = f"found {network}, allowed: networks that are not in gradinit.networks.{name} too"
                    yield ("imagenet", "networks", name, index), line

    @check
    def _lengths(self) -> Iterator[Conflict]:
        """GradInit splits a batch of sentences into thirds, so a batch must hold at least three sentences."""
        longest = self.corpus.max_length + 1
        for key, found, rows in (
            ("translation.initialise.max_tokens", self.translation.initialise.max_tokens, 3),
            ("translation.train.max_tokens", self.translation.train.max_tokens, 1),
        ):
            if found < rows * longest:
                sentences = "1 sentence" if rows == 1 else f"{rows} sentences"
                line = f"found {found}, allowed: at least {rows * longest} ({sentences} of corpus.max_length + 1)"
                yield key, line

    @forecast
    def _translation_memory(self) -> Iterator[Need]:
        """Memory of encoder and decoder for the number of longest sentences that fit in a batch of tokens."""
        own, longest = self.translation.network, self.corpus.max_length + 1
        for step, found in (
            ("initialise", self.translation.initialise.max_tokens),
            ("train", self.translation.train.max_tokens),
        ):
            tensors = transformer(
                layers=2 * own.layers,
                dim=own.dim,
                ffn=own.ffn,
                heads=own.heads,
                length=longest,
                batch=found // longest,
                vocabulary=self.corpus.vocabulary,
            )
            yield Need(("translation", step, "max_tokens"), found, tensors)

    @forecast
    def _beam_memory(self) -> Iterator[Need]:
        """The outputs of every decoder layer for all tokens generated so far, in all beams."""
        own, beam = self.translation.network, self.translation.beam
        longest = int(beam.factor * self.corpus.max_length) + beam.extra
        sizes = (("layers", own.layers), ("beam", beam.size), ("length", longest), ("dim", own.dim))
        yield Need(("translation", "beam", "size"), beam.size, (Tensor("units so far", sizes),))


SECTION = GradInit
