"""Evaluation of every trained network, and checks without training."""

from __future__ import annotations

from relearn.studies.family import Family, Needs
from relearn.studies.poisoning.plan.networks import Networks, architecture_of, network_modules, victim_names
from relearn.studies.poisoning.plan.poisons import Poisons
from relearn.studies.poisoning.plan.victims import victim_modules

ANY = 0  # seed of runs without a network


class Evaluations:
    """The families of evaluation runs."""

    def __init__(self, networks: Networks, poisons: Poisons) -> None:
        self.networks, self.poisons = networks, poisons
        self.own = networks.own["evaluate"]

    @property
    def evaluate_networks(self) -> Family:
        """Clean accuracy, calibration, and accuracy under PGD and corruptions of every network."""
        networks, keys = self.networks, ("calibration_bins", "pgd", "corruptions")
        roles = {**networks.roles, "robust": victim_names(networks.hardened)}

        def weights(role: str, network: str, **_: str) -> str:
            if role == "robust":
                return networks.adversarial_training.path("weights", network=network, seed="{seed}")
            return networks.pretrain.path("weights", role=role, network=network, seed="{seed}")

        return networks.family(
            "evaluate_networks",
            "{role}/{network}",
            [{"role": role, "network": name} for role, names in roles.items() for name in names],
            seeds=networks.seeds,
            inputs={"data": networks.data, "network": weights},
            settings={key: self.own[key] for key in keys},
            modules=network_modules,
            labels={"architecture": architecture_of},
            outputs={"trials": "trials.csv", "curves": "loss_curves.csv"},
            needs=Needs(mem_mb=4000, minutes=30),
        )

    @property
    def feature_plane(self) -> Family:
        """One attack in the plane of two classes' features, and the points that Deep k-NN keeps."""
        networks, plane = self.networks, self.networks.studies["feature_plane"]
        knn = networks.own["filter"]["deep_knn"]
        return networks.family(
            "feature_plane",
            "{attack}/{victim}",
            [{"attack": plane["attack"], "victim": plane["victim"]}],
            seeds=networks.seeds[:1],
            inputs={
                "data": networks.data,
                "victim": lambda victim, **_: networks.weights("victim", victim_names([victim])),
                "poisons": lambda attack, **_: self.poisons.craft.path(
                    "poisons", attack=attack, seed="{seed}"
                ),
            },
            settings=lambda attack, victim: {
                **self.poisons.trials,
                "attack": attack,
                "target": plane["target"],
                **{key: knn[key] for key in ("k", "include_self", "label_ties")},
            },
            modules=victim_modules,
            outputs={"trials": "trials.csv"},
            needs=Needs(mem_mb=4000, minutes=30),
        )

    @property
    def hull_proposition(self) -> Family:
        """Proposition 1, checked on random problems."""
        return self.networks.family(
            "hull_proposition",
            "",
            [{}],
            seeds=[ANY],
            settings=self.own["hull"],
            needs=Needs(mem_mb=2000, minutes=30, gpu=0),
        )

    @property
    def toy_example(self) -> Family:
        """The toy example in two dimensions."""
        return self.networks.family(
            "toy_example",
            "",
            [{}],
            seeds=[ANY],
            settings={},
            outputs={"trials": "trials.csv"},
            needs=Needs(mem_mb=2000, minutes=15, gpu=0),
        )
