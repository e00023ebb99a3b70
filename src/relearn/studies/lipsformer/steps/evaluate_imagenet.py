"""evaluate_imagenet: top-1 accuracy of a checkpoint on ImageNet, ReaL and ImageNet-V2 (qi2023, table 8).

Settings: network ({"name": of timm's registry, …its arguments}), classes, val and v2 (folders of RELEARN_MIRROR with one
folder per class; null omits the set), real (true: also the ReaL labels for the images of val), size, crop_ratio,
interpolation (bilinear | bicubic | lanczos), average (true: the moving average of the weights if the checkpoint has
one; for our own files, averaged.safetensors is required), batch_size, test_images (of each set, evenly spaced; 0: all).
Inputs: weights, a file of `train_vision` (its header describes the network; the settings must name the same network and
size) or a checkpoint of the named network; real, a file of labels in the format of ReaL (default: the official one).
Output: retest.csv (set: val | real | v2, top1_frac, samples).
Metrics: val_acc_frac, real_acc_frac, v2_acc_frac, of the requested sets; parameters_count.

:mod:`relearn.data.imagenet_classes` maps folders to classes; :mod:`relearn.data.imagenet_real` reads ReaL. Images of val
without a ReaL label count for val but not for real.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.runs.settings import picked, rest
from relearn.steps.csv_rows import write_rows

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.data.imagenet_folder import Listing
    from relearn.models.vision_classifier import VisionClassifier

NEEDS_TORCH = True
COLUMNS = ("set", "top1_frac", "samples")
AVERAGED = "averaged.safetensors"  # of `train_vision`


@dataclass(frozen=True, kw_only=True)
class Network:
    name: str
    arguments: Mapping[str, Any] = rest()


@dataclass(frozen=True, kw_only=True)
class Settings:
    network: Network
    classes: int
    val: str | None
    v2: str | None
    real: bool
    size: int
    crop_ratio: float
    interpolation: str
    average: bool
    batch_size: int
    test_images: int


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from relearn.data.imagenet_real import classes_of_files, load
    from relearn.measures.real_accuracy import real_accuracy

    if settings.val is None and (settings.real or settings.v2 is None):
        raise ValueError("val is null; allowed: a folder, or null with a v2 folder and real false")
    net = network(settings, inputs["weights"][0]).to(device)
    classes = net.description["classes"]
    rows: list[tuple[str, float, int]] = []
    for name, folder in (("val", settings.val), ("v2", settings.v2)):
        if folder is None:
            continue
        images = _found(folder, classes).evenly_spaced(settings.test_images)
        # before the pass over all images, so that unusable file names fail at once
        real = None
        if name == "val" and settings.real:
            given = inputs.get("real")
            real = classes_of_files(images.files, load(given[0] if given else None))
        predicted = predictions(net, images, settings, precision)
        right = (predicted == images.labels).double()
        rows.append((name, float(right.mean()), len(images)))
        if real is not None:
            rows.append(("real", *real_accuracy(predicted, real)))
    write_rows(run.output("retest.csv"), COLUMNS, rows)
    count = sum(one.numel() for one in net.parameters())
    run.finish({**{f"{name}_acc_frac": share for name, share, _ in rows}, "parameters_count": float(count)})


def network(settings: Settings, weights: Path) -> VisionClassifier:
    """The network described by the header of one of our files, otherwise ``network`` with the weights of a checkpoint."""
    from relearn.models import checkpoints, vision

    name = settings.network.name
    if weights.suffix == ".safetensors" and vision.FILE.header in _header(weights):
        net = vision.FILE.load(weights)
        if net.description["name"] != name:
            raise ValueError(f"network: {name}; allowed: {net.description['name']}, which {weights} holds")
        if net.description["size"] != settings.size:
            raise ValueError(f"size is {settings.size}; allowed: {net.description['size']}, of {weights}")
        if settings.average and weights.name != AVERAGED:
            raise ValueError(f"average is true; allowed: false, or {AVERAGED} instead of {weights}")
        return net
    return checkpoints.load(
        name,
        weights,
        **picked(settings, "classes", "size", "average"),
        **settings.network.arguments,
    )


def predictions(
    net: VisionClassifier, images: Listing, settings: Settings, precision: str = "fp32"
) -> Tensor:
    """The class with the largest logit for each image (N,), on the CPU."""
    import torch

    from relearn.data.central_crops import batches
    from relearn.data.imagenet_folder import decoding_threads
    from relearn.runs.console import Progress

    where, found, done = next(net.parameters()).device, [], 0
    cropped = batches(
        images,
        **picked(settings, "size", "crop_ratio", "interpolation", "batch_size"),
        workers=decoding_threads(),
    )
    with Progress("evaluate_imagenet") as progress, torch.inference_mode():
        for pixels, _ in cropped:
            x = pixels.to(where).float() / 255.0
            with torch.autocast(where.type, torch.bfloat16, enabled=precision == "bf16"):
                logits = net(x)
            if not torch.isfinite(logits).all():
                raise ValueError(
                    f"{net.description['name']}: logits that are not finite; allowed: finite ones"
                )
            found.append(logits.float().argmax(1).cpu())
            done += len(pixels)
            progress(done, len(images))
    return torch.cat(found)


def _header(path: Path) -> dict[str, str]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            return file.metadata() or {}
    except SafetensorError as error:
        raise ValueError(f"{path}: no safetensors file: {error}") from None


def _found(name: str, classes: int) -> Listing:
    from relearn.data.imagenet_classes import label_by_class
    from relearn.data.mirror import mirror_of

    folder = mirror_of(name)
    if folder is None:
        raise ValueError(
            f"{name}: no such images here; allowed: RELEARN_MIRROR names a folder that holds {name}/<class>/*.JPEG"
        )
    return label_by_class(folder, classes=classes)
