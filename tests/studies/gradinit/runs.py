"""Tiny runs of the study gradinit: digits prepared once, starts and trainings as records below one folder."""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import relearn.methods.fit as fitting
from relearn.runs import record
from relearn.steps.tasks import OnImages, open_task
from relearn.studies import parameters
from relearn.studies.family import Family
from relearn.studies.gradinit.plan import plan
from relearn.studies.study import load

from ...steps import recorded

CHECKOUT = Path(__file__).resolve().parents[3]
SPLIT = {"dataset": "digits", "pretrain_per_class": 19, "fine_tune_per_class": 1, "pool_per_class": 1}
STEPS = {**load("layer_scale").steps, **load("gradinit").steps}
COUNT = 200  # images to train on
AUGMENTATION: dict[str, Any] = {"crop_padding": 1, "flip": False, "cutout": 2}
NETWORK = {"name": "ResNet-110-BN", "width": 0.25, "depth": 0.06}
START = {"task": "images", "network": NETWORK, "batch_size": 32, "iterations": 3, **AUGMENTATION}
RECIPE: dict[str, Any] = {
    **AUGMENTATION,
    "batch_size": 48,
    "lr": 0.1,
    "momentum": 0.9,
    "weight_decay": 1.0e-4,
    "epochs": 3,
    "test_images": 100,
    "optimizer": "sgd",
    "steps": None,
    "clip_norm": None,
    "mixup": None,
    "scalars": False,
}
GRADINIT = {"optimizer": "sgd", "tau": 0.05, "eta": 0.1, "gamma": 1.0, "overlap": 0.5, "normalised": True}


class Runs(recorded.Runs):
    """``initialise`` and ``train_from_init`` on the same 200 digits."""

    study, steps = "gradinit", STEPS

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.data = self.root / "images/data.safetensors"
        self.step("prepare_images", "images", SPLIT, {})

    def initialise(
        self,
        name: str,
        method: str | None,
        arguments: Mapping[str, Any] | None = None,
        *,
        seed: int = 0,
        network: Mapping[str, Any] = NETWORK,
        **changes: Any,
    ) -> dict:
        """An initialisation in the folder ``name``, which is its label `initialisation` too."""
        settings = {
            **START,
            "network": network,
            "method": method,
            "arguments": dict(arguments or {}),
            **changes,
        }
        labels = {"task": "images", "network": network["name"], "initialisation": name}
        return self.step("initialise", name, settings, labels, seed, data=self.data)

    def train(
        self, name: str, start: str, *, seed: int = 0, network: str = NETWORK["name"], **changes: Any
    ) -> dict:
        labels = {"task": "images", "network": network, "initialisation": start, "recipe": "sgd"}
        return self.step(
            "train_from_init",
            name,
            {**RECIPE, **changes},
            labels,
            seed,
            data=self.data,
            start=self.weights(start),
        )

    def weights(self, name: str) -> Path:
        return self.root / name / "weights.safetensors"

    def state(self, name: str) -> dict[str, Tensor]:
        return load_file(self.weights(name))

    def task(self) -> Any:
        return open_task(OnImages(**AUGMENTATION), {"data": [self.data]}, "cpu")


@functools.cache
def shipped(scale: str) -> dict[str, Any]:
    """The shipped parameters, read once a scale: not to be changed."""
    return parameters.load(str(CHECKOUT / "params.yaml"), scale=scale)


@functools.cache
def planned(scale: str) -> dict[str, Family]:
    """The families of the study's runs with the shipped parameters."""
    return plan(shipped(scale), scale)


def settings(family: Family, cell: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a run as its step reads them, from JSON."""
    found: dict[str, Any] = json.loads(record.canonical(family.settings_of(**cell)))
    return found


class Spy:
    """What reaches `fit`, what it draws and what it leaves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.images: list[Tensor] = []
        self.labels: list[Tensor] = []
        real = fitting.fit

        def augmented(images: Tensor, generator: torch.Generator) -> Tensor:
            self.images.append(self.given["augment"](images, generator))
            return self.images[-1]

        def lost(logits: Tensor, labels: Tensor) -> Tensor:
            self.labels.append(labels)
            return self.given["loss"](logits, labels)

        def fit(model: nn.Module, data: object, **given: object) -> fitting.Fitted:
            self.model, self.given = model, given
            self.names = [name for name, _ in model.named_parameters()]
            self.start = {key: tensor.clone() for key, tensor in model.state_dict().items()}
            return real(model, data, **given | {"augment": augmented, "loss": lost})

        monkeypatch.setattr(fitting, "fit", fit)

    def drawn(self) -> list[Tensor]:
        return self.images + self.labels
