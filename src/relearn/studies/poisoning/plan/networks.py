"""Images, and the networks trained on them: substitutes, victims and adversarially trained victims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from relearn.data import module_of as dataset_module
from relearn.models import module_of as network_module
from relearn.studies.family import Cell, Family, Needs

PARTS = {"first_half": (0.0, 0.5), "middle_half": (0.25, 0.75), "second_half": (0.5, 1.0)}
"""Parts of each class's pre-training images (zhu2022, section 2.2.8.2), as shares: from, to."""
PART_OF = {"substitute_half": "first_half", "victim_half": "middle_half", "victim_disjoint": "second_half"}
"""The part that the networks of a role are pre-trained on; the other roles get all images."""


def substitute_names(substitutes: Mapping[str, Any]) -> list[str]:
    """Names of a set of substitutes: one per architecture and Dropout probability."""
    return [f"{one}-drop{rate:g}" for one in substitutes["architectures"] for rate in substitutes["dropout"]]


def victim_names(architectures: Iterable[str]) -> list[str]:
    """Names of networks without Dropout; no victim uses Dropout."""
    return [f"{one}-drop0" for one in architectures]


def architecture_of(network: str, **_: str) -> str:
    """The architecture in the name of a network."""
    return network.rpartition("-drop")[0]


def network_modules(network: str, **_: str) -> list[str]:
    """The module that defines a network."""
    return [network_module(architecture_of(network))]


class Networks:
    """The families that do not depend on an attack.

    Args:
        own: the study's section of params.yaml.
        scale: scale of the runs.
    """

    def __init__(self, own: Mapping[str, Any], scale: str) -> None:
        self.own, self.scale = own, scale
        self.studies = own["studies"]
        self.transfer: dict[str, list[str]] = {
            attack: defences
            for attack, defences in self.studies["transfer"].items()
            if attack not in self.studies["left_out"]
        }
        self.seeds: list[int] = own["seeds"]
        self.victims: list[str] = own["pretrain"]["victims"]["architectures"]
        self.substitutes = substitute_names(own["pretrain"]["substitutes"])
        self.fewer_substitutes = substitute_names(
            self.studies["end_to_end"]["substitutes"]
        )  # the set S2 in the text

    def family(self, step: str, folder: str, cells: Iterable[Cell], **more: Any) -> Family:
        """A family of this study."""
        return Family(study="poisoning", step=step, scale=self.scale, folder=folder, cells=[*cells], **more)

    @cached_property
    def prepare_images(self) -> Family:
        """The verified data set and its splits."""
        own = self.own["prepare"]
        return self.family(
            "prepare_images",
            "{dataset}",
            [{"dataset": own["dataset"]}],
            settings=own,
            modules=lambda dataset: [dataset_module(dataset)],
            outputs={"data": "data.safetensors"},
            needs=Needs(mem_mb=4000, minutes=30, gpu=0),
        )

    @property
    def data(self) -> str:
        return self.prepare_images.path("data", dataset=self.own["prepare"]["dataset"])

    @cached_property
    def split_overlap(self) -> Family:
        """Halves of the pre-training images, for networks whose training images overlap partly or not at all."""
        return self.family(
            "split_overlap",
            "{dataset}-{part}",
            [
                {"dataset": self.own["prepare"]["dataset"], "part": part}
                for part in PARTS
                if any(self.roles[role] for role in PART_OF if PART_OF[role] == part)
            ],
            inputs={"data": self.data},
            settings=lambda dataset, part: dict(zip(("start", "stop"), PARTS[part])),
            outputs={"data": "data.safetensors"},
            needs=Needs(mem_mb=4000, minutes=15, gpu=0),
            constraints={"part": "|".join(PARTS)},
        )

    @cached_property
    def roles(self) -> dict[str, list[str]]:
        """The networks of each role."""
        overlap = self.studies["overlap"]
        some = overlap["victims"] if overlap["shared"] else []
        plane = self.studies["feature_plane"]["victim"]
        more = self.fewer_substitutes if self.studies["end_to_end"]["victims"] else []
        return {
            "substitute": list(dict.fromkeys([*self.substitutes, *more])),
            "victim": victim_names(dict.fromkeys([*self.victims, plane])),
            "substitute_half": substitute_names(self.studies["overlap"]["substitutes"]) if some else [],
            "victim_half": victim_names(some) if "half" in overlap["shared"] else [],
            "victim_disjoint": victim_names(some) if "disjoint" in overlap["shared"] else [],
        }

    @cached_property
    def pretrain(self) -> Family:
        """Every substitute and every victim, each with its own seed."""
        own = self.own["pretrain"]

        def data(role: str, **_: str) -> str:
            if role not in PART_OF:
                return self.data
            return self.split_overlap.path("data", dataset=self.own["prepare"]["dataset"], part=PART_OF[role])

        def settings(role: str, network: str) -> dict[str, Any]:
            architecture, _, dropout = network.rpartition("-drop")
            sizes, epochs = own["network"], self.studies["overlap"]["epochs"]
            return {
                "width": sizes["width"],
                "depth": sizes["depth"] / (2 if architecture in sizes["half_depth"] else 1),
                "training": own["training"] | ({"epochs": epochs} if epochs and role in PART_OF else {}),
                "architecture": architecture,
                "dropout": float(dropout),
            }

        return self.family(
            "pretrain",
            "{role}/{network}",
            [{"role": role, "network": network} for role, names in self.roles.items() for network in names],
            seeds=self.seeds,
            inputs={"data": data},
            settings=settings,
            modules=network_modules,
            labels={"architecture": architecture_of},
            outputs={"weights": "weights.safetensors"},
            needs=Needs(mem_mb=6000, minutes=1440),  # enough for 300 epochs of DPN92
        )

    def weights(self, role: str, names: Iterable[str]) -> list[str]:
        """Paths of the networks' weights, with the placeholder ``{seed}``."""
        return [self.pretrain.path("weights", role=role, network=name, seed="{seed}") for name in names]

    @cached_property
    def hardened(self) -> list[str]:
        """The adversarially trained victims: all of them if some attack is evaluated against that defence, else none."""
        met = any("adversarial_training" in defences for defences in self.transfer.values())
        return self.victims if met else []

    @cached_property
    def adversarial_training(self) -> Family:
        """Adversarial training of the pre-trained victims, used as a defence."""
        own = self.own["adversarial_training"]
        return self.family(
            "adversarial_training",
            "robust/{network}",
            [{"network": network} for network in victim_names(self.hardened)],
            seeds=self.seeds,
            inputs={"data": self.data, "start": lambda network, **_: self.weights("victim", [network])},
            settings=lambda network: {**own, "architecture": architecture_of(network)},
            modules=network_modules,
            labels={"role": "robust", "architecture": architecture_of},
            outputs={"weights": "weights.safetensors"},
            needs=Needs(mem_mb=6000, minutes=480),
        )
