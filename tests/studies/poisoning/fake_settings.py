"""The runs of the study outside the transfer setting, as ``extras`` of fake_records.Study."""

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from relearn.measures.toy_svm import panels

from .fake_records import write_run

SIZES = (5, 25, 35, 50)  # images of the target class, of 50
ITERATIONS = 40


def _train(
    root: Path, study: Any, setting: str, attack: str, victim: str, fell: Callable[[int], bool]
) -> None:
    rows = [
        {
            "target": t,
            "k": None,
            "chosen": 1,
            "predicted": 0,
            "success": int(fell(t)),
            "test_accuracy_frac": 0.9,
        }
        for t in range(study.targets)
    ]
    labels = {"setting": setting, "attack": attack, "defence": "none", "victim": victim}
    knowledge = None if attack == "clean" else {"knowledge": "gray_box"}
    place = f"{setting}/{attack}/none/{victim}"
    write_run(root, "train", place, labels, study.fitted, rows=rows, threat_model=knowledge)


def overlap(disjoint: int = 2) -> Callable[[Path, Any], None]:
    """Of every four targets one or two fall; clean bases never work."""

    def write(root: Path, study: Any) -> None:
        for victim in study.victims:
            for setting, of_four in (
                ("overlap_half", 2),
                ("overlap_full", 1),
                ("overlap_disjoint", disjoint),
            ):
                attacked = "convex_polytope_half"
                _train(root, study, setting, attacked, victim, lambda t, n=of_four: t % 4 < n)
                if setting != "overlap_full":
                    _train(root, study, setting, "clean", victim, lambda t: False)

    return write


def end_to_end(paper: int = 3, released: int = 1) -> Callable[[Path, Any], None]:
    """Of every four targets: the last layer fools none, several layers as stated."""

    def write(root: Path, study: Any) -> None:
        for victim in study.victims:
            of_four = {
                "clean": 0,
                "convex_polytope": 0,
                "multi_layer": paper,
                "multi_layer_as_released": released,
            }
            for attack, number in of_four.items():
                _train(root, study, "end_to_end", attack, victim, lambda t, n=number: t % 4 < n)

    return write


def additions(root: Path, study: Any) -> None:
    """Three more attacks in the transfer setting, and Deep k-NN against them."""
    for victim in study.victims:
        for attack, of_four in (("bullseye_polytope", 3), ("gradient_matching", 1), ("adaptive_polytope", 2)):
            study._train(root, attack, "none", victim, 0)
            study._train(root, attack, "deep_knn", victim, 0)
            study._filter(root, attack, "deep_knn", victim, 0)
            _train(root, study, "end_to_end", attack, victim, lambda t, n=of_four: t % 4 < n)


def imbalance(helps: bool = True, below: float = 0.7, natural: bool = False) -> Callable[[Path, Any], None]:
    """Without replication every second attack gets through below the stated balance; with it none, or all.

    ``natural``: the unperturbed bases get through just as well.
    """

    def write(root: Path, study: Any) -> None:
        for victim in study.victims:
            trained, filtered = [], []
            for size in sorted(SIZES, reverse=True):
                for copies in (0, 1):
                    for target in range(study.targets):
                        lost = target % 2 == 0 and size / 50 < below and bool(copies) != helps
                        place = {"class_size": size, "class_size_frac": size / 50, "replicated": copies}
                        place |= {"target": target, "k": 100, "chosen": int(size == 50 and not copies)}
                        accuracy = 0.9 - (0.001 * (50 - size) if not copies else 0.0)
                        trained.append({**place, "success": int(lost), "test_accuracy_frac": accuracy})
                        trained[-1]["control_success"] = int(lost and natural)
                        found = {"poisons": 5, "poisons_removed": 2 if lost else 5, "clean": 445 + size}
                        mcc = 0.5 if copies else 0.2 + size / 200
                        filtered.append(
                            {**place, "normalised_k": 2.0, **found, "clean_removed": 9, "mcc": mcc}
                        )
            labels = {
                "setting": "imbalance",
                "attack": "convex_polytope",
                "defence": "deep_knn",
                "victim": victim,
            }
            place = f"imbalance/convex_polytope/deep_knn/{victim}"
            write_run(root, "train", place, labels, study.fitted, rows=trained)
            write_run(root, "filter", place, labels, {}, rows=filtered)

    return write


def images(height: int = 32, channels: int = 3, poisons: int = 5) -> dict[str, np.ndarray]:
    """A gallery of coloured noise: every poison within 26 of its base."""
    rng = np.random.default_rng(0)
    target = rng.integers(0, 256, (2, channels, height, height), dtype=np.uint8)
    base = rng.integers(0, 256, (poisons, channels, height, height), dtype=np.uint8)
    change = rng.integers(-26, 27, (2, poisons, channels, height, height))
    return {"target": target, "base": base, "poison": np.clip(base + change, 0, 255).astype(np.uint8)}


def craft(loss: Mapping[str, float] | None = None, gallery: dict[str, np.ndarray] | None = None) -> Any:
    """Crafting with what was watched; ``loss`` is the final loss in a victim by attack, a little by target."""
    final = {"feature_collision": 4.0, "feature_collision_no_dropout": 5.0} | {
        "convex_polytope": 0.1,
        "convex_polytope_no_dropout": 0.3,
        "bullseye_polytope": 0.2,
        **(loss or {}),
    }

    def write(root: Path, study: Any) -> None:
        from safetensors.numpy import save

        for attack, end in final.items():
            rows = []
            for target in range(study.targets):
                seen = {f"victim_loss_{v}": end * (1 + 0.01 * (target % 3)) for v in study.victims}
                rows.append({"target": target, "loss": end, "rejected": "", **seen})
            files = {
                "history.csv": history(end, study.victims),
                "gallery.safetensors": save(gallery or images()),
            }
            write_run(root, "craft", attack, {"attack": attack}, {"loss": end}, rows=rows, files=files)

    return write


def history(end: float, victims: tuple[str, ...]) -> bytes:
    out = io.StringIO(newline="")
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["iteration", "loss_mean", *(f"watch_{victim}" for victim in victims)])
    for step in range(1, ITERATIONS + 1):
        now = end * (1 + 3 / step)
        watched = [1.5 * now * (1 + 0.1 * rank) if step % 10 == 0 else "" for rank in range(len(victims))]
        table.writerow([step, now, *watched])
    return out.getvalue().encode()


def evaluations(victim: str = "ResNet18") -> Callable[[Path, Any], None]:
    """The toy example, and the feature plane of one victim."""

    def write(root: Path, study: Any) -> None:
        write_run(root, "toy_example", "", {}, {}, rows=panels())
        rng = np.random.default_rng(1)
        rows = []
        for kind, count, x in (("target_class", 50, -1.0), ("poison_class", 45, 1.0), ("other", 300, 0.0)):
            for _ in range(count):
                at = {"x": x + 0.3 * rng.normal(), "y": rng.normal()}
                rows.append({"target": 0, **at, "kind": kind, "kept": int(rng.random() > 0.05)})
        rows += [{"target": 0, "x": -0.8, "y": 0.1 * j, "kind": "poison", "kept": 0} for j in range(5)]
        rows.append({"target": 0, "x": -0.8, "y": 0.2, "kind": "target", "kept": None})
        labels = {"attack": "convex_polytope", "victim": victim}
        write_run(root, "feature_plane", f"convex_polytope/{victim}", labels, {}, rows=rows)

    return write
