"""Types and ranges of ``poisoning.studies``, and of networks, of defences and of options that other publications bring."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from relearn.methods import DEFENCES, MIXTURES, VOTES
from relearn.params.types import (
    Count,
    OneOf,
    Padding,
    Positive,
    Section,
    Several,
    Share,
    Steps,
    Unique,
    Unique0,
    also,
    ascending,
    unique,
)
from relearn.runs import plugins

plugins.register()
PUBLISHED = (
    *("SENet18", "ResNet50", "ResNeXt29-2x64d", "DPN92", "MobileNetV2", "GoogLeNet", "ResNet18"),
    "DenseNet121",
)
Architecture = Annotated[str, OneOf((*PUBLISHED, *plugins.installed()["relearn.models"]))]

Defence = Annotated[str, OneOf((*DEFENCES, *VOTES, "adversarial_training"))]
Architectures = Annotated[list[Architecture], Unique, AfterValidator(unique)]


class CropAndFlip(Section):
    crop_padding: Padding
    flip: bool


class Epic(Section):
    fraction: Share
    rounds: Count
    steps: Count


class PartitionAggregation(Section):
    parts: Count


class Mixture(Section):
    alpha: Positive


class Substitutes(Section):
    architectures: Architectures
    dropout: Annotated[list[Share], Unique, AfterValidator(unique)]


class Victims(Section):
    architectures: Architectures


Names = Annotated[list[Architecture], Unique0, AfterValidator(unique)]
Defences = Annotated[list[Defence], Unique0, AfterValidator(unique)]


@also(plugins.installed()["relearn.attacks"], Defences)
class TransferStudy(Section):
    feature_collision: Defences
    convex_polytope: Defences
    bullseye_polytope: Defences
    gradient_matching: Defences
    adaptive_polytope: Defences


class DropoutStudy(Section):
    attacks: Annotated[list[Literal["feature_collision", "convex_polytope"]], Unique0, AfterValidator(unique)]
    watch_every: Steps
    victims: Names


class OverlapStudy(Section):
    """``shared``: whether the victims see all images of each class, the middle half, or the half that no substitute has seen."""

    attack: Literal["convex_polytope"]
    shared: Annotated[list[Literal["full", "half", "disjoint"]], Unique0, AfterValidator(unique)]
    substitutes: Substitutes
    victims: Names


class EndToEndStudy(Section):
    attacks: Annotated[
        list[Literal["convex_polytope", "multi_layer", "multi_layer_as_released"]],
        Unique0,
        AfterValidator(unique),
    ]
    defences: Annotated[list[Annotated[str, OneOf(MIXTURES)]], Unique0, AfterValidator(unique)]
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
        list[
            Literal[
                "white_box_feature_collision",
                "white_box_convex_polytope",
                "white_box_bullseye_polytope",
                "white_box_collision",
                "white_box_watermark",
            ]
        ],
        Unique0,
        AfterValidator(unique),
    ]
    victim: Architecture


class FeaturePlane(Section):
    attack: Literal["feature_collision", "convex_polytope"]
    victim: Architecture
    target: Several


class Studies(Section):
    """``left_out``: attacks of ``transfer`` that do not run; no claim is about them."""

    transfer: TransferStudy
    left_out: Annotated[
        list[Literal["bullseye_polytope", "gradient_matching", "adaptive_polytope"]],
        Unique0,
        AfterValidator(unique),
    ]
    dropout: DropoutStudy
    overlap: OverlapStudy
    end_to_end: EndToEndStudy
    imbalance: ImbalanceStudy
    white_box: WhiteBoxStudy
    feature_plane: FeaturePlane
