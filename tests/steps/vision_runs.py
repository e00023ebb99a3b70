"""Tiny runs of `train_vision`: digits prepared once, trainings as records below one folder."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import relearn.methods.fit as fitting
from relearn.models import vision
from relearn.models.vision_classifier import VisionClassifier
from relearn.steps.tasks import OnImages, vision_recipe
from relearn.studies.study import load

from . import recorded

STEPS = {**load("lipsformer").steps, **load("robustness").steps}
SPLIT = {"dataset": "digits", "pretrain_per_class": 19, "fine_tune_per_class": 1, "pool_per_class": 1}
COUNT = 200  # images to train on
FOUR = {"embed_dim": 8, "depths": [1, 1, 2, 1], "num_heads": [2, 2, 2, 2], "patch_size": 1}
VIT = {"patch_size": 2, "embed_dim": 16, "num_heads": 2, "depth": 3}
NETWORKS: dict[str, dict[str, Any]] = {
    "lipsformer": {"name": "lipsformer_cswin_tiny", **FOUR, "drop_path_rate": 0.2},
    "swin": {"name": "swin_tiny_patch4_window7_224", **FOUR, "window_size": 2},
    "vit": {"name": "residual_deit_tiny", **VIT, "residual": "layer_scale", "epsilon": 0.1},
    "gp": {"name": "lrformer_depth6", **VIT, "gp": {"features": 32, "length_scale": 2.0, "ridge": 1.0}},
}
RECIPE: dict[str, Any] = {
    "optimizer": "adamw",
    "lr": 1e-2,
    "momentum": 0.9,
    "betas": [0.9, 0.999],
    "weight_decay": 0.05,
    "batch_size": 48,
    "epochs": 3,
    "warmup_epochs": 0,
    "schedule": "cosine",
    "label_smoothing": 0.0,
    "randaugment": None,
    "mixup": None,
    "cutmix": None,
    "ema": None,
    "clip_norm": None,
    "crop_padding": 1,
    "flip": False,
    "train_images": 0,
    "test_images": 150,
    "task": "images",
}


class Runs(recorded.Runs):
    """`train_vision` on the same 200 digits."""

    study, steps = "lipsformer", STEPS

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.data = self.root / "images/data.safetensors"
        self.step("prepare_images", "images", SPLIT, {})

    def classify(self, name: str, network: str = "lipsformer", *, seed: int = 0, **changes: Any) -> dict:
        settings = {"network": NETWORKS[network], **RECIPE, **changes}
        labels = {"suite": "test", "variant": name}
        return self.step("train_vision", name, settings, labels, seed, data=self.data)

    def net(self, name: str) -> VisionClassifier:
        return vision.FILE.load(self.root / name / "model.safetensors")

    def task(self, held_out: float | None = None) -> Any:
        own = OnImages(crop_padding=RECIPE["crop_padding"], flip=RECIPE["flip"])
        return vision_recipe.open_images(own, {"data": [self.data]}, "cpu", held_out=held_out)


class Spy:
    """What reaches `fit`, what it draws and what it leaves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.images: list[Tensor] = []
        self.labels: list[Tensor] = []
        real = fitting.fit

        def fit(model: nn.Module, data: object, **given: Any) -> fitting.Fitted:
            self.model, self.data, self.given = model, data, given
            self.start = {key: tensor.clone() for key, tensor in model.state_dict().items()}

            def mixed(batch: Any, generator: torch.Generator) -> Any:
                images, labels = given["mix"](batch, generator) if given["mix"] else batch
                self.images.append(images)
                self.labels.append(labels)
                return [images, labels]

            return real(model, data, **given | {"mix": mixed})

        monkeypatch.setattr(fitting, "fit", fit)

    def drawn(self) -> list[Tensor]:
        return self.images + self.labels
