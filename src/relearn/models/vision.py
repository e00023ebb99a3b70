"""Image classifiers by name: any network of timm's registry, which includes the vision Transformers of this package.

Importing this file imports neither torch nor timm.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

from relearn.models.files import ModelFile

if TYPE_CHECKING:
    from relearn.models.vision_classifier import VisionClassifier


def create(
    name: str,
    *,
    classes: int,
    in_channels: int = 3,
    size: int = 224,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    resize: bool = False,
    **arguments: Any,
) -> VisionClassifier:
    """Build a network of timm's registry for images in [0, 1]; its weights are drawn from torch's global generator.

    Args:
        name: such as ``lipsformer_cswin_tiny`` or ``swin_tiny_patch4_window7_224``.
        classes: number of classes C.
        in_channels: channels of the images.
        size: side length of the images in pixels; not passed to networks that accept any size.
        mean, std: per-channel normalisation in pixel units, applied inside the network; None: mean 0, std 1.
        resize: images of another size are resized to ``size`` inside the network (bicubic).
        **arguments: arguments of the network, as in timm (``embed_dim``, ``depths``, ``drop_path_rate``, …); JSON-serialisable.

    Returns:
        A :class:`~relearn.models.vision_classifier.VisionClassifier`: images (B, in_channels, size, size) → logits (B, C).

    Raises:
        ValueError: an unknown name (the message gives the nearest known one), an unknown argument, or arguments that the network
            rejects.
    """
    from relearn.models import timm_names
    from relearn.models.vision_classifier import VisionClassifier

    timm_names.register()
    timm = import_module("timm")
    if not timm.is_model(name):
        nearest = get_close_matches(str(name), timm.list_models(), n=1, cutoff=0.0)[0]
        raise ValueError(
            f"network: {name!r} (allowed: a name of timm's or of relearn's; did you mean {nearest!r}?)"
        )
    sizes = {"img_size": size} if timm.get_pretrained_cfg(name).fixed_input_size else {}
    try:
        trunk = timm.create_model(name, num_classes=classes, in_chans=in_channels, **(sizes | arguments))
    except TypeError as error:
        raise ValueError(f"network {name}: {str(error).splitlines()[0]}") from None
    described = {
        "name": name,
        "classes": classes,
        "in_channels": in_channels,
        "size": size,
        "mean": None if mean is None else list(mean),
        "std": None if std is None else list(std),
        **({"resize": True} if resize else {}),
        **arguments,
    }
    side = size if resize else None
    return VisionClassifier(
        trunk, in_channels=in_channels, mean=mean, std=std, description=described, resize=side
    )


def modules_of(name: str) -> list[str]:
    """Return the modules of this package that define a network, in addition to this file's imports; empty for timm's own networks."""
    from relearn.models.timm_names import NAMES

    return [NAMES[name][0].partition(":")[0]] if name in NAMES else []


FILE = ModelFile("vision_network", "a vision network", create)
