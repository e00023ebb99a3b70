"""Fine-tuning of victims on clean, poisoned and filtered sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from relearn.methods import DEFENCES, MIXTURES, VOTES
from relearn.models import module_of as network_module
from relearn.studies.family import Cell, Family, Needs
from relearn.studies.poisoning.plan.networks import Networks, victim_names
from relearn.studies.poisoning.plan.poisons import HALF, WHITE_BOX, Poisons, cell, entry_of


def victim_modules(victim: str, **_: str) -> list[str]:
    """The module that defines a victim."""
    return [network_module(victim)]


TRAININGS = {**VOTES, **MIXTURES}
"""Defences that change the training: their arguments are settings of the step ``train``."""


def train_modules(victim: str, defence: str, **_: str) -> list[str]:
    """The modules of a victim and of a defence that changes its training."""
    own = [TRAININGS[defence].partition(":")[0]] if defence in TRAININGS else []
    return [network_module(victim), *own]


def clean_cell(setting: str, defence: str, victim: str) -> dict[str, str]:
    return {"setting": setting, "defence": defence, "victim": victim}


class Victims:
    """The families of the step ``train``."""

    def __init__(self, networks: Networks, poisons: Poisons) -> None:
        self.networks, self.poisons = networks, poisons
        self.own, self.studies = networks.own, networks.studies
        self.overlap, self.whole = self.studies["overlap"], self.studies["end_to_end"]

    def victim_of(self, setting: str, defence: str, victim: str, **_: str) -> str:
        """Path of the weights from which a victim starts."""
        (network,) = victim_names([victim])
        if defence == "adversarial_training":
            return self.networks.adversarial_training.path("weights", network=network, seed="{seed}")
        roles = {"overlap_half": "victim_half", "overlap_disjoint": "victim_disjoint"}
        (path,) = self.networks.weights(roles.get(setting, "victim"), [network])
        return path

    def kept_by(self, setting: str, attack: str, defence: str, victim: str, **_: str) -> list[str]:
        """Path of the points kept by a filter; empty without a filter."""
        if defence not in DEFENCES:
            return []
        return [self.poisons.filter.path("kept", **cell(setting, attack, defence, victim), seed="{seed}")]

    def features_of(self, setting: str, defence: str, victim: str, **_: str) -> list[str]:
        """Test features of the same network, computed by its clean run; empty for an end-to-end victim."""
        if setting == "end_to_end":
            return []
        base = {"overlap_full": "transfer", "imbalance": "transfer"}.get(setting, setting)
        start = "adversarial_training" if defence == "adversarial_training" else "none"
        return [self.train_clean.path("features", setting=base, defence=start, victim=victim, seed="{seed}")]

    def knowledge_of(self, setting: str, attack: str, victim: str) -> str:
        """The attacker's knowledge; gray box means that a substitute has the victim's architecture but not its weights."""
        if attack.startswith(WHITE_BOX):
            return "white_box"
        sets = self.own["pretrain"]["substitutes"]
        if setting == "end_to_end":
            sets = self.whole["substitutes"]
        elif setting.startswith("overlap"):
            sets = self.overlap["substitutes"]
        return "gray_box" if victim in sets["architectures"] else "black_box"

    def train_settings(
        self, setting: str, victim: str, defence: str, attack: str = "clean"
    ) -> dict[str, Any]:
        whole = setting == "end_to_end"
        recipe = self.own["train"]["end_to_end" if whole else "transfer"]
        found = {**self.poisons.trials, **recipe, "setting": setting, "attack": attack}
        if whole:
            found["targets"] = self.whole["targets"]
        if defence in TRAININGS:
            found |= {**self.own["train"][defence], "defence": defence}
        if attack != "clean":
            eps = self.own["craft"]["attacks"][entry_of(attack)]["eps"]
            found |= {"eps": eps, "knowledge": self.knowledge_of(setting, attack, victim)}
        return found

    def _attacked(self) -> Iterator[dict[str, str]]:
        for attack, defences in self.networks.transfer.items():
            for defence in ("none", *defences):
                yield from (cell("transfer", attack, defence, victim) for victim in self.networks.victims)
        for shared in self.overlap["shared"]:
            half, setting = self.overlap["attack"] + HALF, f"overlap_{shared}"
            yield from (cell(setting, half, "none", victim) for victim in self.overlap["victims"])
        for attack in self.studies["imbalance"]["attacks"]:
            for victim in self.studies["imbalance"]["victims"]:
                yield cell("imbalance", attack, "deep_knn", victim)
        for attack in self.whole["attacks"]:
            for defence in ("none", *self.whole["defences"]):
                yield from (cell("end_to_end", attack, defence, victim) for victim in self.whole["victims"])
        for attack in self.studies["white_box"]["attacks"]:
            yield cell("transfer", attack, "none", self.studies["white_box"]["victim"])

    @cached_property
    def train(self) -> Family:
        """Victims fine-tuned on poisoned sets, with or without a filter."""

        def poisons(setting: str, attack: str, **_: str) -> str:
            name = self.poisons.crafting_run(setting, attack)
            return self.poisons.craft.path("poisons", attack=name, seed="{seed}")

        return self.networks.family(
            "train",
            "{setting}/{attack}/{defence}/{victim}",
            self._attacked(),
            seeds=self.networks.seeds,
            inputs={
                "data": self.networks.data,
                "victim": self.victim_of,
                "poisons": poisons,
                "kept": self.kept_by,
                "features": self.features_of,
            },
            settings=self.train_settings,
            modules=train_modules,
            outputs={"trials": "trials.csv"},
            needs=Needs(mem_mb=6000, minutes=240),
            constraints={"attack": "(?!clean/)[a-z_0-9]+"},
        )

    def _clean(self, settings: str, cells: Iterable[Cell], **outputs: str) -> Family:
        """Victims fine-tuned on the unperturbed bases; ``settings`` is a regular expression for the allowed settings."""
        return self.networks.family(
            "train",
            "{setting}/clean/{defence}/{victim}",
            cells,
            seeds=self.networks.seeds,
            inputs={"data": self.networks.data, "victim": self.victim_of},
            settings=self.train_settings,
            modules=train_modules,
            labels={"attack": "clean"},
            outputs={"trials": "trials.csv", **outputs},
            needs=Needs(mem_mb=6000, minutes=240),
            constraints={"setting": settings},
        )

    @cached_property
    def train_clean(self) -> Family:
        """Clean victims with frozen features; the other runs of a network reuse the test features computed here."""
        cells = [
            *(clean_cell("transfer", "none", victim) for victim in self.networks.victims),
            *(clean_cell("transfer", "adversarial_training", victim) for victim in self.networks.hardened),
            *(
                clean_cell(setting, "none", victim)
                for setting in ("overlap_half", "overlap_disjoint")
                if setting.removeprefix("overlap_") in self.overlap["shared"]
                for victim in self.overlap["victims"]
            ),
        ]
        settings = "transfer|overlap_half|overlap_disjoint"
        return self._clean(settings, cells, features="features.safetensors")

    @cached_property
    def train_clean_end_to_end(self) -> Family:
        """Clean victims with all layers trained; their features cannot be shared between runs."""
        cells = [
            clean_cell("end_to_end", defence, victim)
            for defence in ("none", *self.whole["defences"])
            for victim in self.whole["victims"]
        ]
        return self._clean("end_to_end", cells)
