"""The section ``poisoning`` of params.yaml (zhu2022, chapter 2): types, ranges and cross-field checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from relearn.data import DATASETS
from relearn.data.facts import CLASSES, MOST_FOR_TRAINING, images_for_testing
from relearn.params.conflicts import Conflict, at_most, check
from relearn.params.types import (
    BatchSize,
    Class,
    Count,
    EpochCount,
    Milestones,
    Multiple,
    NotNegative,
    OneOf,
    Positive,
    Rising,
    SampleCount,
    Section,
    Seeds,
    Share,
    Steps,
    Width,
    also,
)
from relearn.params.vision import Sgd
from relearn.runs import plugins
from relearn.studies.poisoning.params_studies import (
    CropAndFlip,
    Epic,
    Mixture,
    Names,
    PartitionAggregation,
    Studies,
    Substitutes,
    Victims,
)


class Prepare(Section):
    dataset: Annotated[str, OneOf(DATASETS)]
    pretrain_per_class: SampleCount
    pool_start: SampleCount
    fine_tune_per_class: SampleCount
    pool_per_class: SampleCount

    _fine_tuning_images = at_most("fine_tune_per_class", "pool_per_class")

    @check
    def _images(self) -> Iterator[Conflict]:
        asked, most = self.pool_start + self.pool_per_class, MOST_FOR_TRAINING[self.dataset]
        if asked > most:
            yield (
                "pool_start",
                f"found {asked} with pool_per_class added, allowed: at most {most} images a class of {self.dataset}",
            )

    @check
    def _pool(self) -> Iterator[Conflict]:
        found, least = self.pool_start, self.pretrain_per_class
        if found < least:
            yield "pool_start", f"found {found}, allowed: at least pretrain_per_class = {least}"


class Network(Section):
    """``half_depth``: architectures with half of ``depth``."""

    width: Multiple
    depth: Multiple
    half_depth: Names


class Training(Sgd):
    label_smoothing: Share


class Pretrain(Section):
    substitutes: Substitutes
    victims: Victims
    network: Network
    training: Training


class Adversarial(Section):
    eps: Annotated[float, Field(gt=0, le=1)]
    steps: Count
    step_size: Positive


class AdversarialTraining(Section):
    adversarial: Adversarial
    training: Sgd


class Attack(Section):
    eps: Annotated[float, Field(gt=0, le=1)]
    lr: Positive
    iterations: Steps
    dropout: bool
    target_dropout: Literal["resampled", "fixed", "off"]


class GradientMatching(Attack):
    parameters: Literal["head", "all"]
    restarts: Count
    augment: CropAndFlip


class Adaptive(Attack):
    weight: NotNegative
    margin: Annotated[float, Field(ge=0, le=1)]


class WhiteBox(Section):
    eps: Annotated[float, Field(gt=0, le=1)]
    lr: Positive
    iterations: Steps
    mu_multiple: Positive


class Watermark(WhiteBox):
    watermark: Annotated[float, Field(ge=0, lt=1)]


class PluginAttack(Section):
    """An attack of another package: what the plan needs to know; its own arguments stand beside."""

    model_config = ConfigDict(extra="allow")
    eps: Annotated[float, Field(gt=0, le=1)]
    iterations: Steps


@also(plugins.installed()["relearn.attacks"], PluginAttack)
class Attacks(Section):
    feature_collision: Attack
    convex_polytope: Attack
    multi_layer: Attack
    multi_layer_as_released: Attack
    bullseye_polytope: Attack
    gradient_matching: GradientMatching
    adaptive_polytope: Adaptive
    white_box_collision: WhiteBox
    white_box_watermark: Watermark


class Craft(Section):
    poison_class: Class
    target_class: Class
    poisons: Count
    targets: Count
    attacks: Attacks

    @check
    def _classes(self) -> Iterator[Conflict]:
        if self.target_class == self.poison_class:
            yield "target_class", f"found {self.target_class}, allowed: a class other than poison_class"


class DeepKNN(Section):
    k: Count
    sweep: Rising[Count]
    include_self: bool
    label_ties: Literal["keep", "smallest"]


class L2Outliers(Section):
    fraction: Share


class OneClassSVM(Section):
    nu: Annotated[float, Field(gt=0, le=1)]


class RandomEviction(Section):
    fraction: Share
    feature_collision_fraction: Share


class SpectralSignatures(Section):
    fraction: Share


class ActivationClustering(Section):
    components: Count
    threshold: Annotated[float, Field(gt=0, le=0.5)]


@also(plugins.installed()["relearn.defences"], dict[str, Any])
class Filter(Section):
    deep_knn: DeepKNN
    l2_outliers: L2Outliers
    one_class_svm: OneClassSVM
    random_eviction: RandomEviction
    spectral_signatures: SpectralSignatures
    activation_clustering: ActivationClustering
    epic: Epic


class FineTuning(Section):
    epochs: EpochCount
    batch_size: BatchSize
    lr: Positive
    weight_decay: NotNegative
    milestones: Milestones
    train_mode: bool

    @check
    def _milestones(self) -> Iterator[Conflict]:
        for index, milestone in enumerate(self.milestones):
            if milestone >= self.epochs:
                yield ("milestones", index), f"found {milestone}, allowed: less than epochs = {self.epochs}"


class Transfer(FineTuning):
    reset_head: bool


class EndToEnd(FineTuning):
    test_images: SampleCount


class Train(Section):
    transfer: Transfer
    end_to_end: EndToEnd
    partition_aggregation: PartitionAggregation
    mixup: Mixture
    cutmix: Mixture


class Pgd(Section):
    eps: Rising[Annotated[float, Field(gt=0, le=1)]]
    steps: Count
    restarts: Count
    images: SampleCount


class Corruptions(Section):
    images: SampleCount


class Hull(Section):
    dimension: Width
    poisons: Count
    problems: Count


class Evaluate(Section):
    calibration_bins: Annotated[Count, Field(ge=2)]
    pgd: Pgd
    corruptions: Corruptions
    hull: Hull


class Poisoning(Section):
    seeds: Seeds
    prepare: Prepare
    pretrain: Pretrain
    adversarial_training: AdversarialTraining
    craft: Craft
    filter: Filter
    train: Train
    studies: Studies
    evaluate: Evaluate

    _poisons = at_most("craft.poisons", "prepare.fine_tune_per_class", "fine_tune_per_class")

    @check
    def _targets(self) -> Iterator[Conflict]:
        found, most = self.craft.targets, self.prepare.pool_per_class - self.prepare.fine_tune_per_class
        if found > most:
            allowed = f"at most pool_per_class - fine_tune_per_class = {most}"
            yield "craft.targets", f"found {found}, allowed: {allowed}"

    @check
    def _neighbours(self) -> Iterator[Conflict]:
        knn, points = self.filter.deep_knn, self.prepare.fine_tune_per_class * CLASSES
        most = points if knn.include_self else points - 1
        why = f"at most {most} ({points} fine-tuning images{'' if knn.include_self else ' less the image itself'})"
        if knn.k > most:
            yield "filter.deep_knn.k", f"found {knn.k}, allowed: {why}"
        for index, k in enumerate(knn.sweep):
            if k > most:
                yield ("filter", "deep_knn", "sweep", index), f"found {k}, allowed: {why}"

    @check
    def _batches(self) -> Iterator[Conflict]:
        """A batch cannot exceed the number of training images."""
        recipes: list[tuple[str, Sgd | FineTuning, str]] = [
            ("pretrain.training", self.pretrain.training, "pretrain_per_class"),
            ("adversarial_training.training", self.adversarial_training.training, "pretrain_per_class"),
            ("train.transfer", self.train.transfer, "fine_tune_per_class"),
            ("train.end_to_end", self.train.end_to_end, "fine_tune_per_class"),
        ]
        for key, recipe, images in recipes:
            size, most = recipe.batch_size, CLASSES * getattr(self.prepare, images)
            if size > most:
                yield (
                    f"{key}.batch_size",
                    f"found {size}, allowed: at most {most} images ({CLASSES} x {images})",
                )

    @check
    def _victims(self) -> Iterator[Conflict]:
        """Only pre-trained networks can be attacked."""
        known = self.pretrain.victims.architectures
        allowed = f"one of pretrain.victims.architectures: {', '.join(known)}"
        for name in ("dropout", "overlap", "end_to_end", "imbalance"):
            for index, victim in enumerate(getattr(self.studies, name).victims):
                if victim not in known:
                    yield ("studies", name, "victims", index), f"found {victim}, allowed: {allowed}"
        victim = self.studies.white_box.victim
        if victim not in known:
            yield "studies.white_box.victim", f"found {victim}, allowed: {allowed}"

    @check
    def _targets_of_studies(self) -> Iterator[Conflict]:
        targets = self.craft.targets
        some, number = self.studies.end_to_end.targets, self.studies.feature_plane.target
        if some > targets:
            yield "studies.end_to_end.targets", f"found {some}, allowed: at most craft.targets = {targets}"
        if number >= targets:
            allowed = f"0 to {targets - 1} (craft.targets - 1)"
            yield "studies.feature_plane.target", f"found {number}, allowed: {allowed}"

    @check
    def _class_sizes(self) -> Iterator[Conflict]:
        own, most = self.studies.imbalance, self.prepare.fine_tune_per_class
        for index, size in enumerate(own.class_sizes):
            if size > most:
                allowed = f"at most fine_tune_per_class = {most}"
                yield ("studies", "imbalance", "class_sizes", index), f"found {size}, allowed: {allowed}"

    @check
    def _neighbours_of_imbalance(self) -> Iterator[Conflict]:
        own, smallest = self.studies.imbalance, min(self.studies.imbalance.class_sizes)
        points = self.prepare.fine_tune_per_class * (CLASSES - 1) + smallest
        most = points if self.filter.deep_knn.include_self else points - 1
        if own.k > most:
            why = f"images left when the target class has {smallest}"
            yield "studies.imbalance.k", f"found {own.k}, allowed: at most {most} ({why})"

    @check
    def _plugins(self) -> Iterator[Conflict]:
        """An attack or a defence of another package has its arguments in params.yaml, too."""
        listed = [
            (name, getattr(self.studies.transfer, name)) for name in type(self.studies.transfer).model_fields
        ]
        for attack, defences in listed:
            if defences is not None and getattr(self.craft.attacks, attack) is None:
                yield (
                    ("studies", "transfer", attack),
                    f"found an attack without arguments; write craft.attacks.{attack}",
                )
            for index, defence in enumerate(defences or ()):
                if getattr(self.filter, defence, {}) is None:
                    where = ("studies", "transfer", attack, index)
                    yield where, f"found {defence}, which has no arguments; write filter.{defence}: {{}}"
        for defence in dict.fromkeys(name for _, defences in listed for name in defences or ()):
            arguments = getattr(self.filter, defence, None)
            if isinstance(arguments, dict) and "seed" in arguments:
                why = "a run sets it for each victim, seed and target"
                yield ("filter", defence, "seed"), f"found a seed, allowed: the other arguments; {why}"

    @check
    def _test_images(self) -> Iterator[Conflict]:
        own, dataset = self.prepare, self.prepare.dataset
        most = images_for_testing(dataset, CLASSES * (own.pool_start + own.pool_per_class))
        for key, found in (
            ("train.end_to_end.test_images", self.train.end_to_end.test_images),
            ("evaluate.pgd.images", self.evaluate.pgd.images),
            ("evaluate.corruptions.images", self.evaluate.corruptions.images),
        ):
            if found > most:
                yield key, f"found {found}, allowed: at most the {most} test images of {dataset}"


SECTION = Poisoning
