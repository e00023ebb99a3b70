"""The section ``poisoning`` of params.yaml (zhu2022, chapter 2): names, types and ranges."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from relearn.params.types import (
    BatchSize,
    Class,
    Count,
    EpochCount,
    Milestones,
    Multiple,
    NotNegative,
    Padding,
    Positive,
    SampleCount,
    Section,
    Seeds,
    Several,
    Share,
    Steps,
    Unique,
    Unique0,
    Width,
    ascending,
    unique,
)

Architecture = Literal[
    "SENet18", "ResNet50", "ResNeXt29-2x64d", "DPN92", "MobileNetV2", "GoogLeNet", "ResNet18", "DenseNet121"
]

Defence = Literal["deep_knn", "l2_outliers", "one_class_svm", "random_eviction", "adversarial_training"]


Architectures = Annotated[list[Architecture], Unique, AfterValidator(unique)]


class Prepare(Section):
    dataset: Literal["digits", "cifar10"]
    pretrain_per_class: SampleCount
    fine_tune_per_class: SampleCount
    pool_per_class: SampleCount


class Substitutes(Section):
    architectures: Architectures
    dropout: Annotated[list[Share], Unique, AfterValidator(unique)]


class Victims(Section):
    architectures: Architectures


class Network(Section):
    width: Multiple
    depth: Multiple


class Training(Section):
    epochs: EpochCount
    batch_size: BatchSize
    lr: Positive
    momentum: Share
    weight_decay: NotNegative
    schedule: Literal["cosine", "step"]
    crop_padding: Padding
    flip: bool
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


class AdversarialRecipe(Section):
    epochs: EpochCount
    batch_size: BatchSize
    lr: Positive
    momentum: Share
    weight_decay: NotNegative
    schedule: Literal["cosine", "step"]
    crop_padding: Padding
    flip: bool


class AdversarialTraining(Section):
    adversarial: Adversarial
    training: AdversarialRecipe


class Attack(Section):
    eps: Annotated[float, Field(gt=0, le=1)]
    lr: Positive
    iterations: Steps
    dropout: bool


class GradientMatching(Attack):
    parameters: Literal["head", "all"]


class WhiteBox(Section):
    eps: Annotated[float, Field(gt=0, le=1)]
    lr: Positive
    iterations: Steps
    mu: Positive


class Watermark(WhiteBox):
    watermark: Annotated[float, Field(ge=0, lt=1)]


class Attacks(Section):
    feature_collision: Attack
    convex_polytope: Attack
    multi_layer: Attack
    multi_layer_as_released: Attack
    bullseye_polytope: Attack
    gradient_matching: GradientMatching
    white_box_collision: WhiteBox
    white_box_watermark: Watermark


class Craft(Section):
    poison_class: Class
    target_class: Class
    poisons: Count
    targets: Count
    attacks: Attacks


class DeepKNN(Section):
    k: Count
    sweep: Annotated[list[Count], Unique, AfterValidator(ascending)]
    include_self: bool


class L2Outliers(Section):
    fraction: Share


class OneClassSVM(Section):
    nu: Annotated[float, Field(gt=0, le=1)]


class RandomEviction(Section):
    fraction: Share
    feature_collision_fraction: Share


class Filter(Section):
    deep_knn: DeepKNN
    l2_outliers: L2Outliers
    one_class_svm: OneClassSVM
    random_eviction: RandomEviction


class Transfer(Section):
    epochs: EpochCount
    batch_size: BatchSize
    lr: Positive
    weight_decay: NotNegative
    milestones: Milestones
    reset_head: bool


class EndToEnd(Section):
    epochs: EpochCount
    batch_size: BatchSize
    lr: Positive
    weight_decay: NotNegative
    milestones: Milestones
    test_images: SampleCount


class Train(Section):
    transfer: Transfer
    end_to_end: EndToEnd


Names = Annotated[list[Architecture], Unique0, AfterValidator(unique)]
Defences = Annotated[list[Defence], Unique0, AfterValidator(unique)]


class TransferStudy(Section):
    feature_collision: Defences
    convex_polytope: Defences
    bullseye_polytope: Defences
    gradient_matching: Defences


class DropoutStudy(Section):
    attacks: Annotated[list[Literal["feature_collision", "convex_polytope"]], Unique0, AfterValidator(unique)]
    watch_every: Steps
    victims: Names


class OverlapStudy(Section):
    attack: Literal["convex_polytope"]
    substitutes: Substitutes
    victims: Names


class EndToEndStudy(Section):
    attacks: Annotated[
        list[Literal["convex_polytope", "multi_layer", "multi_layer_as_released"]],
        Unique0,
        AfterValidator(unique),
    ]
    substitutes: Substitutes
    victims: Names
    targets: Count


class ImbalanceStudy(Section):
    attacks: Annotated[list[Literal["feature_collision", "convex_polytope"]], Unique0, AfterValidator(unique)]
    victims: Names
    k: Count
    class_sizes: Annotated[list[Count], Unique, AfterValidator(ascending)]


class WhiteBoxStudy(Section):
    attacks: Annotated[
        list[Literal["white_box_collision", "white_box_watermark"]], Unique0, AfterValidator(unique)
    ]
    victim: Architecture


class FeaturePlane(Section):
    attack: Literal["feature_collision", "convex_polytope"]
    victim: Architecture
    target: Several


class Studies(Section):
    transfer: TransferStudy
    dropout: DropoutStudy
    overlap: OverlapStudy
    end_to_end: EndToEndStudy
    imbalance: ImbalanceStudy
    white_box: WhiteBoxStudy
    feature_plane: FeaturePlane


class Pgd(Section):
    eps: Annotated[list[Annotated[float, Field(gt=0, le=1)]], Unique, AfterValidator(ascending)]
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


SECTION = Poisoning
