"""Network architectures: one family per file, with the common interface of :mod:`relearn.models.classifier`.

Importing this package imports no architecture; :func:`create` imports only the file of the requested network.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from relearn import attribute

if TYPE_CHECKING:
    from relearn.models.classifier import Classifier

MODELS: dict[str, str] = {
    "ResNet18": "relearn.models.resnet:ResNet18",
    "ResNet50": "relearn.models.resnet:ResNet50",
    "SENet18": "relearn.models.senet:SENet18",
    "ResNeXt29-2x64d": "relearn.models.resnext:ResNeXt29",
    "DPN92": "relearn.models.dpn:DPN92",
    "MobileNetV2": "relearn.models.mobilenet:MobileNetV2",
    "GoogLeNet": "relearn.models.googlenet:GoogLeNet",
    "DenseNet121": "relearn.models.densenet:DenseNet121",
    "VGG-19": "relearn.models.vgg:VGG19",
    "VGG-19-BN": "relearn.models.vgg:VGG19BN",
    "ResNet-110": "relearn.models.cifar_resnet:ResNet110",
    "ResNet-110-BN": "relearn.models.cifar_resnet:ResNet110BN",
    "ResNet-1202": "relearn.models.cifar_resnet:ResNet1202",
    "ResNet-1202-BN": "relearn.models.cifar_resnet:ResNet1202BN",
    "FixUpResNet-110": "relearn.models.cifar_resnet:FixUpResNet110",
    "ResNet-110-SkipInit": "relearn.models.cifar_resnet:SkipInitResNet110",
    "ResNet-110-ReZero": "relearn.models.cifar_resnet:ReZeroResNet110",
    "WRN-28-10": "relearn.models.wide_resnet:WideResNet28",
    "DenseNet-100": "relearn.models.densenet_cifar:DenseNet100",
    "DenseNet-100-BN": "relearn.models.densenet_cifar:DenseNet100BN",
    "timm-ResNet-50-BN": "relearn.models.timm_resnet50:TimmResNet50",
    "timm-ResNet-50-FixUp": "relearn.models.timm_resnet50:FixUpResNet50",
}
"""Name of a network → ``module:Class``."""


def _known(name: str) -> str:
    if name in MODELS:
        return MODELS[name]
    lower = {known.lower(): known for known in MODELS}
    nearest = lower[get_close_matches(str(name).lower(), lower, n=1, cutoff=0.0)[0]]
    raise ValueError(f"unknown network {name!r}: did you mean {nearest!r}? (allowed: {', '.join(MODELS)})")


def module_of(name: str) -> str:
    """Return the module that defines a network, e.g. ``relearn.models.resnet``; ValueError for an unknown name."""
    return _known(name).partition(":")[0]


def create(
    name: str,
    *,
    classes: int = 10,
    in_channels: int = 3,
    width: float = 1.0,
    depth: float = 1.0,
    dropout: float = 0.0,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Classifier:
    """Build a network in CIFAR form; its weights are drawn from torch's global generator.

    The eight networks of the poisoning chapter use torch's default initialisation; those of the chapter on
    initialisation use their published one (:mod:`relearn.models.published_start`).

    Args:
        name: one of :data:`MODELS`.
        classes: number of classes C.
        in_channels: channels of the images.
        width: factor for all channel counts; 1 is the published network.
        depth: factor for the number of blocks in each stage (at least one remains); 1 is the published network.
        dropout: dropout probability p in [0, 1); every block has one dropout layer.
        mean, std: per-channel normalisation in pixel units, applied inside the network; None: mean 0, std 1.

    Returns:
        A :class:`.classifier.Classifier`: images (B, in_channels, H, W) in [0, 1] → logits (B, C).

    Raises:
        ValueError: an unknown name (with the nearest known one) or a value out of range.
    """
    build = attribute(_known(name), f"network {name!r}")
    return build(
        classes=classes,
        in_channels=in_channels,
        width=width,
        depth=depth,
        dropout=dropout,
        mean=mean,
        std=std,
    )
