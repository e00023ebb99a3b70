"""Small networks and folders of images for the tests of robustness; a slow truth image by image."""

from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from relearn.data.imagenet_classes import identifiers
from relearn.models.vision import create
from relearn.models.vision_classifier import VisionClassifier

VIT = {"name": "vit_tiny_patch16_224", "patch_size": 8, "embed_dim": 8, "depth": 1, "num_heads": 2}
SIZE, RATIO = 16, 0.8
PROTOCOL: dict[str, Any] = {
    "size": SIZE,
    "crop_ratio": RATIO,
    "cropped_ratio": 1.0,
    "interpolation": "bicubic",
    "batch_size": 7,
    "on_bad_image": "fail",
    "on_missing_class": "skip",
}
NOTHING: dict[str, Any] = {
    "sets": {},
    "protocol": None,
    "images": 0,
    "corruptions": [],
    "severities": [1, 5],
    "pgd": None,
    "autoattack": None,
    "network": None,
}


def network(classes: int = 1000, seed: int = 0, **changed: Any) -> VisionClassifier:
    """Large weights, so that images differ in their class."""
    arguments = {**VIT, "classes": classes, "size": SIZE, "mean": [0.4] * 3, "std": [0.3] * 3, **changed}
    torch.manual_seed(seed)
    net = create(arguments.pop("name"), **arguments)
    with torch.no_grad():
        for parameter in net.trunk.parameters():
            parameter.add_(torch.randn_like(parameter))
    return net.eval()


class Linear(nn.Module):
    """z = W x + b, with the description of a network of the package."""

    def __init__(self, weight: Tensor, bias: Tensor, side: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)
        self.description = {
            "name": "linear",
            "classes": len(bias),
            "in_channels": weight.shape[1] // side**2,
            "size": side,
        }

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.weight.T + self.bias


def folder(
    path: Path, names: Iterable[str], each: int = 1, seed: int = 0, size: Sequence[int] = (20, 26)
) -> Path:
    """``each`` random images in a folder for each name, under ImageNet's names for validation images, out of order."""
    names = list(names)
    rng = np.random.default_rng(seed)
    order = iter(rng.permutation(len(names) * each) + 1)
    for name in names:
        (path / name).mkdir(parents=True)
        for _ in range(each):
            # a colour of its own, so that a network answers many classes
            pixels = np.clip(rng.integers(0, 256, 3) + rng.integers(-60, 60, (*size, 3)), 0, 255).astype(
                np.uint8
            )
            Image.fromarray(pixels).save(path / name / f"ILSVRC2012_val_{next(order):08d}.png")
    return path


def slow_logits(net: VisionClassifier, files: Iterable[Path], ratio: float = RATIO) -> Tensor:
    """One image after another, by timm's own transform with the network's own normalisation."""
    side = net.description["size"]
    made = import_module("timm.data").create_transform(
        side,
        crop_pct=ratio,
        interpolation="bicubic",
        mean=net.mean.flatten().tolist(),
        std=net.std.flatten().tolist(),
    )
    with torch.no_grad():
        return torch.cat([net.trunk(made(Image.open(path).convert("RGB"))[None]) for path in files])


def some_identifiers(numbers: Iterable[int]) -> list[str]:
    return [identifiers()[number] for number in numbers]
