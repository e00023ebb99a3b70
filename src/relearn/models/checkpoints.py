"""Weights from elsewhere into a network of timm's registry: safetensors, or torch's own files read as weights alone."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from relearn.models.vision_classifier import VisionClassifier

SUFFIXES = (".safetensors", ".pth", ".pt", ".bin", ".tar")


def load(
    name: str, weights: Path, *, classes: int, size: int, average: bool = False, **arguments: Any
) -> VisionClassifier:
    """A network of :func:`relearn.models.vision.create` with the weights of a checkpoint, in eval mode, on the CPU.

    The normalisation is what timm says of ``name``. A file may hold the state itself, or one under ``state_dict`` or
    ``model`` as training programs write it; prefixes of wrappers are taken off. Nothing in it is executed.

    Args:
        name: of the network, such as ``lipsformer_cswin_tiny``.
        weights: a file that ends in one of :data:`SUFFIXES`.
        classes, size: outputs, and side of the images.
        average: take the moving average of the weights, ``state_dict_ema`` or ``model_ema``, where the file has it.
        **arguments: of the network.

    Raises:
        ValueError: a file of another kind, one that cannot be read, weights that do not fit the network, and what
            :func:`relearn.models.vision.create` refuses.
    """
    from relearn.models.vision import create

    if weights.suffix not in SUFFIXES:
        raise ValueError(f"{weights}: ends in {weights.suffix!r}; allowed: {', '.join(SUFFIXES)}")
    mean, std = normalisation(name)
    net = create(name, classes=classes, size=size, mean=mean, std=std, **arguments)
    try:
        state = import_module("timm.models").load_state_dict(str(weights), use_ema=average, weights_only=True)
        net.trunk.load_state_dict(state)
    except Exception as error:  # what torch, pickle, zipfile and safetensors raise has no common base
        said = next((line.strip() for line in str(error).splitlines()[1:] if line.strip()), str(error))
        raise ValueError(f"{weights}: not weights of {name} for {classes} classes: {said[:300]}") from None
    return net.eval()


def normalisation(name: str) -> tuple[list[float] | None, list[float] | None]:
    """Mean and standard deviation of each channel that timm states for ``name``; None for a name that it lacks."""
    from relearn.models import timm_names

    import_module("relearn.torchvision_schema").declare()
    timm_names.register()
    known = import_module("timm")
    if not known.is_model(name):
        return None, None
    told = known.get_pretrained_cfg(name)
    return list(told.mean), list(told.std)
