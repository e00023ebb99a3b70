"""Apply the recipe of a vision network to its data: augmentation, mixtures, loss, images without augmentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from relearn.data.evenly_spaced import evenly_spaced, evenly_spaced_places
from relearn.methods.augmentation import Augment, Mix, compose
from relearn.steps.tasks import OnFolder, OnImages, open_task

if TYPE_CHECKING:
    from relearn.steps.train_vision import Settings, Training

CHUNK = 512  # images per batch without gradients


def open_images(
    settings: OnImages | OnFolder,
    inputs: Mapping[str, list[Path]],
    device: str,
    *,
    count: int = 0,
    held_out: float | None = None,
) -> Any:
    """The task of a run (:class:`~relearn.steps.tasks.images.Images` or ``Folder``), with at most ``count`` training images (0: all).

    If there are fewer, they are evenly spaced, because the images of a folder are sorted by class. With ``held_out``, an evenly
    spaced share of the training images replaces the test images and is not trained on.
    """
    task: Any = open_task(settings, inputs, device)
    if isinstance(settings, OnImages):
        task.images, task.labels = evenly_spaced(task.images, count), evenly_spaced(task.labels, count)
    else:
        task.train = task.train.evenly_spaced(count)
    if held_out:
        _hold_out(task, held_out)
    return task


def _hold_out(task: Any, share: float) -> None:
    """Test on a share of the training images, and train on the others.

    Raises:
        ValueError: the share is so small that no image is held out.
    """
    folder = hasattr(task, "train")
    total = len(task.train) if folder else len(task.images)
    count = int(share * total)
    if count < 1:
        raise ValueError(f"held_out: found {share} of {total} images, allowed: at least one image")
    held = evenly_spaced_places(total, count)
    rest = torch.ones(total, dtype=torch.bool)
    rest[held] = False
    kept = rest.nonzero().flatten()
    if folder:
        task.tested, task.train = task.train.take(held), task.train.take(kept.tolist())
        task.test_labels = task.tested.labels
        return
    task.test_images, task.test_labels = task.images[held].cpu(), task.labels[held].cpu()
    task.images, task.labels = task.images[kept], task.labels[kept]


def describe(settings: Settings, task: Any) -> dict[str, Any]:
    """The keyword arguments of :func:`relearn.models.vision.create` for a run's network on its task's images."""
    described = task.describe(settings.network)
    if settings.task == "folder":
        return {**described, "size": task.size}
    own, wanted = task.images.shape[-1], settings.size
    return {**described, "size": wanted or own, **({"resize": True} if wanted else {})}


def augmentation(settings: Training, task: Any) -> Augment | None:
    """Crop and flip, then RandAugment (filled with the data's mean); the images of a folder are cropped and flipped by their source."""
    steps = [task.augment] if task.augment else []
    if found := settings.randaugment:
        from relearn.methods.randaugment import randaugment

        steps.append(randaugment(found.magnitude, found.spread, found.operations, fill=task.mean))
    return compose(*steps) if steps else None


def mixture(settings: Training, classes: int) -> Mix | None:
    """mixup, CutMix, a random choice of the two for each batch, or None."""
    from relearn.methods.mixing import cutmix, mixup, mixup_or_cutmix

    blended, pasted = settings.mixup, settings.cutmix
    if blended and pasted:
        return mixup_or_cutmix(blended, pasted, classes)
    if blended:
        return mixup(blended, classes)
    return cutmix(pasted, classes) if pasted else None


def smoothed_loss(smoothing: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Mean cross entropy in nats for labels or probabilities, with label smoothing; half-precision logits are cast to single precision."""

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        wide = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
        return cross_entropy(wide, labels, label_smoothing=smoothing)

    return loss


def plain_images(task: Any) -> Iterator[Tensor]:
    """All training images, (n, C, H, W) uint8, without augmentation; those of a folder are centrally cropped."""
    if not hasattr(task, "train"):
        yield from task.images.split(CHUNK)
        return
    import numpy as np

    from relearn.data.imagenet_folder import central, decode_rgb, decoding_threads
    from relearn.steps.tasks.folder import RESIZE

    def one(path: Path) -> Tensor:
        image = central(decode_rgb(path), size=task.size, resize=round(task.size * RESIZE))
        return torch.from_numpy(np.array(image)).permute(2, 0, 1)

    with ThreadPoolExecutor(decoding_threads()) as pool:
        for start in range(0, len(task.train), CHUNK):
            yield torch.stack(list(pool.map(one, task.train.files[start : start + CHUNK])))
