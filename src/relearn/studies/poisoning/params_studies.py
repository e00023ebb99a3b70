"""Types and ranges of ``poisoning.studies``, and of networks, of defences and of options that other publications bring."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from relearn.methods import DEFENCES, MIXTURES, VOTES
from relearn.params.types import (
    Count,
    Distinct,
    Distinct0,
    OneOf,
    Padding,
    Positive,
    Rising,
    Section,
    Several,
    Share,
    Steps,
    also,
)
from relearn.runs import plugins

plugins.register()
PUBLISHED = (
    *("SENet18", "ResNet50", "ResNeXt29-2x64d", "DPN92", "MobileNetV2", "GoogLeNet", "ResNet18"),
    "DenseNet121",
)
Architecture = Annotated[str, OneOf((*PUBLISHED, *plugins.installed()["relearn.models"]))]

Defence = Annotated[str, OneOf((*DEFENCES, *VOTES, "adversarial_training"))]
Architectures = Distinct[Architecture]


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
    dropout: Distinct[Share]


class Victims(Section):
    architectures: Architectures


Names = Distinct0[Architecture]
Defences = Distinct0[Defence]


@also(plugins.installed()["relearn.attacks"], Defences)
class TransferStudy(Section):
    feature_collision: Defences
    convex_polytope: Defences
    bullseye_polytope: Defences
    gradient_matching: Defences
    adaptive_polytope: Defences


class DropoutStudy(Section):
    attacks: Distinct0[Literal["feature_collision", "convex_polytope"]]
    watch_every: Steps
    victims: Names


class OverlapStudy(Section):
    """``shared``: whether the victims see all images of each class, the middle half, or the half that no substitute has seen.

    ``epochs``: of networks that see half of the images; 0: as many as the others.
    """

    attack: Literal["convex_polytope"]
    epochs: Annotated[int, Field(ge=0, le=10_000)]
    shared: Distinct0[Literal["full", "half", "disjoint"]]
    substitutes: Substitutes
    victims: Names


class EndToEndStudy(Section):
    attacks: Distinct0[Literal["convex_polytope", "multi_layer", "multi_layer_as_released"]]
    defences: Distinct0[Annotated[str, OneOf(MIXTURES)]]
    substitutes: Substitutes
    victims: Names
    targets: Count


class ImbalanceStudy(Section):
    attacks: Distinct0[Literal["feature_collision", "convex_polytope"]]
    victims: Names
    k: Count
    class_sizes: Rising[Count]


class WhiteBoxStudy(Section):
    attacks: Distinct0[
        Literal[
            "white_box_feature_collision",
            "white_box_convex_polytope",
            "white_box_bullseye_polytope",
            "white_box_collision",
            "white_box_watermark",
        ]
    ]
    victim: Architecture


class FeaturePlane(Section):
    attack: Literal["feature_collision", "convex_polytope"]
    victim: Architecture
    target: Several


class Studies(Section):
    """``left_out``: attacks of ``transfer`` that do not run; no claim is about them."""

    transfer: TransferStudy
    left_out: Distinct0[Literal["bullseye_polytope", "gradient_matching", "adaptive_polytope"]]
    dropout: DropoutStudy
    overlap: OverlapStudy
    end_to_end: EndToEndStudy
    imbalance: ImbalanceStudy
    white_box: WhiteBoxStudy
    feature_plane: FeaturePlane
