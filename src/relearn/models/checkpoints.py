"""Load external checkpoints into networks of timm's registry, from safetensors or torch files (weights only)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from relearn.models.vision_classifier import VisionClassifier

SUFFIXES = (".safetensors", ".pth", ".pt", ".bin", ".tar")


def load(
    name: str, weights: Path, *, classes: int, size: int, average: bool = False, **arguments: Any
) -> VisionClassifier:
    """Build a network with :func:`relearn.models.vision.create` and load a checkpoint into it; in eval mode, on the CPU.

    The normalisation is the one given by timm for ``name``. A file may contain the state dict itself, or store it under ``state_dict`` or
    ``model``, as training programs do; prefixes of wrappers are removed. No code in the file is executed.

    Args:
        name: name of the network, such as ``lipsformer_cswin_tiny``.
        weights: a file whose suffix is in :data:`SUFFIXES`.
        classes, size: number of outputs, and side length of the images.
        average: load the moving average of the weights, ``state_dict_ema`` or ``model_ema``, if the file has one.
        **arguments: further arguments of the network.

    Raises:
        ValueError: an unknown file type, an unreadable file, weights that do not fit the network, or arguments that
            :func:`relearn.models.vision.create` rejects.
    """
    from relearn.models.vision import create

    if weights.suffix not in SUFFIXES:
        raise ValueError(f"{weights}: ends in {weights.suffix!r}; allowed: {', '.join(SUFFIXES)}")
    mean, std = normalisation(name)
    net = create(name, classes=classes, size=size, mean=mean, std=std, **arguments)
    try:
        state = import_module("timm.models").load_state_dict(str(weights), use_ema=average, weights_only=True)
        net.trunk.load_state_dict(state)
    except (
        Exception
    ) as error:  # the errors of torch, pickle, zipfile and safetensors have no common base class
        one = f"{type(error).__name__} {error}, allowed: a dict of tensors"  # pickle's may be a number or nothing
        detail = next((line.strip() for line in str(error).splitlines()[1:] if line.strip()), one)
        raise ValueError(f"{weights}: not weights of {name} for {classes} classes: {detail[:300]}") from None
    return net.eval()


def normalisation(name: str) -> tuple[list[float] | None, list[float] | None]:
    """Return timm's per-channel mean and standard deviation for ``name``, or None if timm does not know the name."""
    from relearn.models import timm_names

    import_module("relearn.torchvision_schema").declare()
    timm_names.register()
    known = import_module("timm")
    if not known.is_model(name):
        return None, None
    pretrained = known.get_pretrained_cfg(name)
    return list(pretrained.mean), list(pretrained.std)
