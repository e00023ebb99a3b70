"""Records of a whole small study, written through the record API, with outcomes that a test chooses.

``Study`` is the transfer study; the other settings and evaluations are in fake_settings.py.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .. import fake_run

VICTIMS = ("SENet18", "ResNet18", "MobileNetV2", "DenseNet121")
ATTACKS = ("feature_collision", "convex_polytope")
DEFENCES = ("deep_knn", "l2_outliers", "one_class_svm", "random_eviction", "adversarial_training")
SWEEP = (50, 10, 75, 200)  # the chosen k first
CLASS_SIZE, FINE_TUNE, POISONS = 50, 500, 5


def write_run(
    root: Path, step: str, place: str, labels: Mapping[str, str], metrics: Mapping[str, float], **more: Any
) -> Path:
    """One record below ``root/runs/poisoning/<step>/<place>/seed<seed>``."""
    return fake_run.write_run(root, step, labels, metrics, study="poisoning", place=place, **more)


def write_classifier(root: Path, role: str, victim: str, accuracy: float, seed: int = 0) -> None:
    """A network's robustness record: clean, PGD at two eps, two corruptions at two severities."""
    network = f"{victim}-drop0"
    labels = {"role": role, "network": network, "architecture": victim}
    rows: list[dict[str, Any]] = [{"kind": "clean", "name": "", "level": "", "accuracy_frac": accuracy}]
    rows += [
        {"kind": "pgd", "name": "linf", "level": eps, "accuracy_frac": accuracy - 10 * eps}
        for eps in (0.01, 0.03)
    ]
    rows += [
        {"kind": "corruption", "name": name, "level": severity, "accuracy_frac": accuracy - cost * severity}
        for name, cost in (("fog", 0.02), ("frost", 0.04))
        for severity in (1, 2)
    ]
    metrics = {"test_accuracy_frac": accuracy, "masked_gradient_flags_count": float(role == "robust")}
    write_run(root, "evaluate_networks", f"{role}/{network}", labels, metrics, seed=seed, rows=rows)


class Study:
    """What each trial of the study gives; a test replaces the answers it cares about."""

    victims: tuple[str, ...] = VICTIMS
    attacks: tuple[str, ...] = ATTACKS
    defences: tuple[str, ...] = DEFENCES
    targets: int = 20
    seeds: tuple[int, ...] = (0,)
    black_box: tuple[str, ...] = ("MobileNetV2", "DenseNet121")
    accuracy: float = 0.9
    hull: Mapping[str, float] | None = None
    roles: tuple[str, ...] = ("victim",)
    extras: tuple[Callable[..., None], ...] = ()  # further writers, from fake_settings.py

    def success(self, attack: str, defence: str, victim: str, target: int, k: int | None) -> bool:
        """Undefended: feature collision on every fourth target, convex polytope on every second."""
        if attack == "clean" or defence == "deep_knn":
            return False
        every = 4 if attack == "feature_collision" else 2
        return target % every == 0 and defence not in ("l2_outliers", "adversarial_training")

    def control(self, attack: str, defence: str, victim: str, target: int, k: int | None) -> bool:
        """Whether unperturbed bases behind the same defence give the target the poison class."""
        return False

    fitted: Mapping[str, float] = {"train_accuracy_frac": 1.0, "poisons_fitted_frac": 1.0}

    def test_accuracy(self, attack: str, defence: str, victim: str, target: int, k: int | None) -> float:
        return 0.9

    def removed(
        self, attack: str, defence: str, victim: str, target: int, k: int | None
    ) -> tuple[int, int, float]:
        """Poisons removed, clean images removed, MCC."""
        if defence == "deep_knn":
            return (5, 19, {10: 0.3, 50: 0.5, 75: 0.45, 200: 0.2}[k or 50])
        return {"l2_outliers": (5, 45, 0.3), "one_class_svm": (1, 4, 0.2)}.get(defence, (0, 5, 0.0))

    def write(self, root: Path) -> Path:
        for seed in self.seeds:
            for victim in self.victims:
                self._victim(root, victim, seed)
                self._train(root, "clean", "none", victim, seed)
                for attack in self.attacks:
                    for defence in ("none", *self.defences):
                        self._train(root, attack, defence, victim, seed)
                        if defence not in ("none", "adversarial_training"):
                            self._filter(root, attack, defence, victim, seed)
        for extra in self.extras:
            extra(root, self)
        if self.hull is not None:
            settings = {"dimension": 2048, "poisons": 5, "problems": 50}
            write_run(root, "hull_proposition", "", {}, self.hull, settings=settings)
        return root

    def ks(self, defence: str) -> tuple[int | None, ...]:
        return SWEEP if defence == "deep_knn" else (None,)

    def _victim(self, root: Path, victim: str, seed: int) -> None:
        for role in self.roles:
            write_classifier(root, role, victim, self.accuracy, seed)

    def _train(self, root: Path, attack: str, defence: str, victim: str, seed: int) -> None:
        rows = [
            {
                "target": target,
                "k": k,
                "chosen": int(k == self.ks(defence)[0]),
                "predicted": 8 if self.success(attack, defence, victim, target, k) else 6,
                "success": int(self.success(attack, defence, victim, target, k)),
                "test_accuracy_frac": self.test_accuracy(attack, defence, victim, target, k),
                "control_success": int(self.control(attack, defence, victim, target, k)),
            }
            for k in self.ks(defence)
            for target in range(self.targets)
        ]
        chosen = [row for row in rows if row["chosen"]]
        metrics = {"attack_success_frac": sum(row["success"] for row in chosen) / len(chosen), **self.fitted}
        knowledge = "black_box" if victim in self.black_box else "gray_box"
        write_run(
            root,
            "train",
            f"transfer/{attack}/{defence}/{victim}",
            {"setting": "transfer", "attack": attack, "defence": defence, "victim": victim},
            metrics,
            seed=seed,
            rows=rows,
            threat_model={"knowledge": knowledge} if attack != "clean" else None,
        )

    def _filter(self, root: Path, attack: str, defence: str, victim: str, seed: int) -> None:
        rows = []
        for k in self.ks(defence):
            for target in range(self.targets):
                poisons, clean, mcc = self.removed(attack, defence, victim, target, k)
                rows.append(
                    {
                        "target": target,
                        "k": k,
                        "normalised_k": k / CLASS_SIZE if k else None,
                        "chosen": int(k == self.ks(defence)[0]),
                        "poisons": POISONS,
                        "poisons_removed": poisons,
                        "clean": FINE_TUNE - POISONS,
                        "clean_removed": clean,
                        "mcc": mcc,
                    }
                )
        labels = {"setting": "transfer", "attack": attack, "defence": defence, "victim": victim}
        write_run(root, "filter", f"transfer/{attack}/{defence}/{victim}", labels, {}, seed=seed, rows=rows)
