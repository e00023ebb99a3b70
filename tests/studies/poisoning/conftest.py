"""One tiny chain of real steps on the real digits, made once: prepare → pretrain → craft → filter → train."""

from pathlib import Path

import pytest

from ...steps.recorded import by_command, rows_of

TRIALS = {"poison_class": 8, "target_class": 6, "poisons": 2, "targets": 3}
NETWORK = {"architecture": "ResNet18", "width": 0.125, "depth": 0.25}
TRAINING = {
    "epochs": 2,
    "batch_size": 64,
    "lr": 0.05,
    "momentum": 0.9,
    "weight_decay": 5.0e-4,
    "schedule": "cosine",
    "crop_padding": 1,
    "flip": False,
    "label_smoothing": 0.0,
}
FINE_TUNING = {
    "setting": "transfer",
    "epochs": 5,
    "batch_size": 64,
    "lr": 0.1,
    "weight_decay": 0.0,
    "milestones": [3],
    "reset_head": False,
    "train_mode": False,
}
KNN = {"defence": "deep_knn", "include_self": False, "label_ties": "keep"}
CRAFT = {**TRIALS, "attack": "convex_polytope", "eps": 0.2, "lr": 0.04, "iterations": 4, "dropout": True}
POISONED = {**TRIALS, **FINE_TUNING, "attack": "convex_polytope", "eps": 0.2, "knowledge": "gray_box"}
WHOLE = {key: value for key, value in POISONED.items() if key != "reset_head"} | {"setting": "end_to_end"}


class Chain:
    """Runs steps in one folder; ``path(name)`` is a run's folder below runs/."""

    trials, fine_tuning, craft, poisoned, whole, knn = TRIALS, FINE_TUNING, CRAFT, POISONED, WHOLE, KNN

    def __init__(self, folder: Path) -> None:
        self.runs = folder / "results/mini/runs"

    def path(self, name: str) -> Path:
        return self.runs / name

    def step(self, step: str, name: str, settings: dict, labels: dict | None = None, **inputs) -> dict:
        """Run a step to a folder; returns its record. Inputs are files below runs/."""
        for key, files in inputs.items():
            inputs[key] = [self.path(file) for file in ([files] if isinstance(files, str) else files)]
        return by_command("poisoning", step, self.path(name), settings, labels, **inputs)


@pytest.fixture(scope="session")
def chain(tmp_path_factory) -> Chain:
    chain = Chain(tmp_path_factory.mktemp("chain"))
    split = {"dataset": "digits", "pretrain_per_class": 40, "fine_tune_per_class": 20, "pool_per_class": 30}
    chain.step("prepare_images", "prepare", split)
    for role, dropout in (("substitute", 0.2), ("victim", 0.0)):
        settings = {**NETWORK, "dropout": dropout, "training": TRAINING}
        chain.step("pretrain", role, settings, {"role": role}, data="prepare/data.safetensors")
    chain.step(
        "craft",
        "craft",
        CRAFT,
        data="prepare/data.safetensors",
        substitutes=["substitute/weights.safetensors", "victim/weights.safetensors"],
    )
    knn = {**TRIALS, **KNN, "k": 20, "sweep": [3, 20, 60]}
    inputs = {
        "data": "prepare/data.safetensors",
        "victim": "victim/weights.safetensors",
        "poisons": "craft/poisons.safetensors",
    }
    chain.step("filter", "filter", knn, **inputs)
    chain.step("train", "train", POISONED, **inputs)
    chain.step("train", "filtered", POISONED, **inputs, kept="filter/kept.safetensors")
    inputs.pop("poisons")
    chain.step("train", "clean", {**TRIALS, **FINE_TUNING, "attack": "clean"}, **inputs)
    return chain


@pytest.fixture
def read_trials():
    """The rows of a run's trials.csv, a dict each."""

    def read(folder: Path) -> list[dict[str, str]]:
        return rows_of(folder / "trials.csv")

    return read
