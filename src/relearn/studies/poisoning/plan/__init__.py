"""The runs of the study: networks, poisons crafted against them, defences, and victims fine-tuned on the filtered sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relearn.studies.family import Family
from relearn.studies.poisoning.plan.evaluations import Evaluations
from relearn.studies.poisoning.plan.networks import Networks
from relearn.studies.poisoning.plan.poisons import Poisons
from relearn.studies.poisoning.plan.victims import Victims


def plan(params: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """Families of runs by name; the three families named ``train*`` belong to the same step."""
    networks = Networks(params["poisoning"], scale)
    poisons = Poisons(networks)
    victims, evaluations = Victims(networks, poisons), Evaluations(networks, poisons)
    return {
        "prepare_images": networks.prepare_images,
        "split_overlap": networks.split_overlap,
        "pretrain": networks.pretrain,
        "adversarial_training": networks.adversarial_training,
        "craft": poisons.craft,
        "filter": poisons.filter,
        "train": victims.train,
        "train_clean": victims.train_clean,
        "train_clean_end_to_end": victims.train_clean_end_to_end,
        "evaluate_networks": evaluations.evaluate_networks,
        "feature_plane": evaluations.feature_plane,
        "hull_proposition": evaluations.hull_proposition,
        "toy_example": evaluations.toy_example,
    }
