"""Crafting and filtering: the poisons of each attack, and which points each defence removes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from relearn.methods import ATTACKS, DEFENCES
from relearn.models import module_of as network_module
from relearn.studies.family import Family, Needs
from relearn.studies.poisoning.plan.networks import Networks, architecture_of, victim_names

METHOD_OF = {"multi_layer_as_released": "multi_layer", "white_box_watermark": "white_box_collision"}
"""The method behind an entry of ``craft.attacks`` that does not bear the method's name."""
FORM_OF = {"multi_layer": "paper", "multi_layer_as_released": "as_released"}
NO_DROPOUT, HALF, FEWER = "_no_dropout", "_half", "_s2"
"""Endings of crafting runs: substitutes without Dropout, pre-trained on half of the images, fewer of them."""
WHITE_BOX = "white_box_"
"""Beginning of crafting runs that know the victim's weights: its own methods, or an attack with the victim as its substitute."""


def entry_of(attack: str) -> str:
    """The entry of ``craft.attacks`` that a crafting run uses."""
    for ending in (NO_DROPOUT, HALF, FEWER):
        attack = attack.removesuffix(ending)
    transferred = attack.removeprefix(WHITE_BOX)
    return transferred if transferred in ATTACKS else attack


def defence_settings(filters: Mapping[str, Mapping[str, Any]], attack: str, defence: str) -> dict[str, Any]:
    """The arguments of a defence; against an attack, ``<attack>_<argument>`` overrides ``<argument>``."""
    values = filters[defence]
    overrides = {f"{name}_{key}" for name in ATTACKS for key in values}
    return {
        key: values.get(f"{attack}_{key}", value) for key, value in values.items() if key not in overrides
    }


def cell(setting: str, attack: str, defence: str, victim: str) -> dict[str, str]:
    return {"setting": setting, "attack": attack, "defence": defence, "victim": victim}


class Poisons:
    """The families of crafting and filtering runs for these networks."""

    def __init__(self, networks: Networks) -> None:
        self.networks, self.own, self.studies = networks, networks.own, networks.studies
        craft = self.own["craft"]
        self.trials = {key: craft[key] for key in ("poison_class", "target_class", "poisons", "targets")}

    def crafting_run(self, setting: str, attack: str) -> str:
        """Name of the crafting run that an attack uses in a setting; a separate one if the setting has fewer substitutes."""
        same = self.networks.fewer_substitutes == self.networks.substitutes
        own = setting == "end_to_end" and attack == "convex_polytope" and not same
        return attack + FEWER if own else attack

    @cached_property
    def crafted(self) -> list[str]:
        """Names of the crafting runs."""
        dropout, overlap, whole = (self.studies[name] for name in ("dropout", "overlap", "end_to_end"))
        return [
            *self.networks.transfer,
            *(name + NO_DROPOUT for name in dropout["attacks"] if dropout["victims"]),
            *([overlap["attack"] + HALF] if self.networks.roles["substitute_half"] else []),
            *(self.crafting_run("end_to_end", name) for name in whole["attacks"] if whole["victims"]),
            *self.studies["white_box"]["attacks"],
        ]

    def substitutes_of(self, attack: str, **_: str) -> list[str]:
        """The weights known to the attacker: the substitutes', or in the white-box case the victim's."""
        if attack.startswith(WHITE_BOX):
            return self.networks.weights("victim", victim_names([self.studies["white_box"]["victim"]]))
        if attack.endswith(HALF):
            return self.networks.weights("substitute_half", self.networks.roles["substitute_half"])
        few = self._is_end_to_end(attack)
        names = self.networks.fewer_substitutes if few else self.networks.substitutes
        return self.networks.weights("substitute", names)

    def watched_by(self, attack: str, **_: str) -> list[str]:
        """The weights of the victims on which the loss is measured during crafting."""
        dropout = self.studies["dropout"]
        watched = attack.removesuffix(NO_DROPOUT) in dropout["attacks"]
        return self.networks.weights("victim", victim_names(dropout["victims"])) if watched else []

    @staticmethod
    def _is_end_to_end(attack: str) -> bool:
        """Whether a crafting run serves only the end-to-end victims."""
        return attack.startswith("multi_layer") or attack.endswith(FEWER)

    @cached_property
    def craft(self) -> Family:
        """The poisons of an attack, crafted for all targets against all substitutes."""
        entries, dropout = self.own["craft"]["attacks"], self.studies["dropout"]

        def settings(attack: str) -> dict[str, Any]:
            entry = entry_of(attack)
            found = {**self.trials, **entries[entry], "attack": METHOD_OF.get(entry, entry)}
            if entry in FORM_OF:
                found["form"] = FORM_OF[entry]
            if attack.endswith(NO_DROPOUT):
                found["dropout"] = False
            if self.watched_by(attack):
                found |= {"watch_every": dropout["watch_every"], "watched": dropout["victims"]}
            if self._is_end_to_end(attack):
                found["targets"] = self.studies["end_to_end"]["targets"]
            return found

        def modules(attack: str) -> list[str]:
            entry = entry_of(attack)
            method = ATTACKS[METHOD_OF.get(entry, entry)].partition(":")[0]
            paths = [*self.substitutes_of(attack), *self.watched_by(attack)]
            used = {architecture_of(path.split("/")[-3]) for path in paths}
            return [method, *(network_module(one) for one in sorted(used))]

        return self.networks.family(
            "craft",
            "{attack}",
            [{"attack": attack} for attack in self.crafted],
            seeds=self.networks.seeds,
            inputs={"data": self.networks.data, "substitutes": self.substitutes_of, "watch": self.watched_by},
            settings=settings,
            modules=modules,
            outputs={
                "poisons": "poisons.safetensors",
                "gallery": "gallery.safetensors",
                "history": "history.csv",
                "trials": "trials.csv",
            },
            needs=Needs(mem_mb=8000, minutes=720),
        )

    @cached_property
    def filter(self) -> Family:
        """The points that each defence removes from each victim's poisoned fine-tuning sets."""
        imbalance = self.studies["imbalance"]

        def settings(setting: str, attack: str, defence: str, victim: str) -> dict[str, Any]:
            found = defence_settings(self.own["filter"], attack, defence)
            if setting == "imbalance":
                found.pop("sweep", None)
                found |= {"k": imbalance["k"], "class_sizes": imbalance["class_sizes"]}
            return {**self.trials, **found, "defence": defence}

        return self.networks.family(
            "filter",
            "{setting}/{attack}/{defence}/{victim}",
            [
                *(
                    cell("transfer", attack, defence, victim)
                    for attack, defences in self.networks.transfer.items()
                    for defence in defences
                    if defence in DEFENCES
                    for victim in self.networks.victims
                ),
                *(
                    cell("imbalance", attack, "deep_knn", victim)
                    for attack in imbalance["attacks"]
                    for victim in imbalance["victims"]
                ),
            ],
            seeds=self.networks.seeds,
            inputs={
                "data": self.networks.data,
                "victim": lambda victim, **_: self.networks.weights("victim", victim_names([victim])),
                "poisons": lambda attack, **_: self.craft.path("poisons", attack=attack, seed="{seed}"),
            },
            settings=settings,
            modules=lambda defence, victim, **_: [
                DEFENCES[defence].partition(":")[0],
                network_module(victim),
            ],
            outputs={"kept": "kept.safetensors", "trials": "trials.csv"},
            needs=Needs(mem_mb=4000, minutes=30),
        )
