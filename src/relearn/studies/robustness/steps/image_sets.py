"""Sets of test images and a network's accuracies on them: one row per number, each with its protocol."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.data.imagenet_folder import Listing
    from relearn.models.vision_classifier import VisionClassifier

SETS = ("set", "corruption", "severity", "samples_count", "correct_count", "accuracy_frac", "protocol")
SHOWN = 12  # digits of a subset's hash shown in the table; the JSON file has all
BATCH = 500


class NotFinite(ValueError):
    """The network's logits are not finite, so it has no accuracy."""


@dataclass(frozen=True)
class Protocol:
    """The protocol of a number; None for a field that does not apply."""

    source: str
    """Where the images come from, in words."""
    resize: int | None = None
    """The shorter side in pixels before the crop."""
    crop: int | None = None
    interpolation: str | None = None
    squashed: bool = False
    """Whether both sides were resized to ``resize``."""
    mask: str = "none"
    """The classes over which the largest logit was taken."""
    subset: str = ""
    """sha256 of the images that count, see :func:`hash_of_files` and :func:`hash_of_pixels`."""
    left_out: int = 0
    """Images that could not be decoded."""

    def __str__(self) -> str:
        how = f"{self.resize} (squashed)" if self.squashed else f"{self.resize}"
        shape = f"resize {how}, crop {self.crop}, {self.interpolation}, " if self.crop else ""
        left = f", {self.left_out} images left out" if self.left_out else ""
        return f"{self.source}; {shape}mask {self.mask}; subset {self.subset[:SHOWN]}{left}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def masked(self, mask: str) -> Protocol:
        return replace(self, mask=mask)


@dataclass(frozen=True)
class Row:
    """One accuracy: a row of sets.csv."""

    set: str
    samples_count: int
    correct_count: int
    protocol: Protocol
    corruption: str | None = None
    severity: int | None = None

    @property
    def accuracy_frac(self) -> float:
        return self.correct_count / self.samples_count

    def cells(self) -> list[Any]:
        return [*(getattr(self, name) for name in SETS[:-1]), str(self.protocol)]

    def as_dict(self) -> dict[str, Any]:
        return {**{name: getattr(self, name) for name in SETS[:-1]}, "protocol": self.protocol.as_dict()}


def counted(name: str, right: Tensor, protocol: Protocol, **more: Any) -> Row:
    """The row for a bool vector (n,) that marks correct predictions."""
    return Row(name, len(right), int(right.sum()), protocol, **more)


def answers(
    net: VisionClassifier,
    batches: Iterable[Tensor],
    *,
    precision: str = "fp32",
    mask: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """Predicted class of each image, among all classes and among those of the mask; both (n,) on the CPU.

    Args:
        net: in eval mode; runs on its own device.
        batches: images (B, C, H, W) uint8.
        precision: fp32, or bf16 for autocast.
        mask: indices of the allowed classes; None: all.

    Raises:
        NotFinite: a logit is not finite.
    """
    import torch

    from relearn.measures.masked_accuracy import masked_argmax

    free, bound = [], []
    with torch.inference_mode():
        for pixels in batches:
            logits = logits_of(net, pixels, precision)
            free.append(logits.argmax(1))
            bound.append(free[-1] if mask is None else masked_argmax(logits, mask))
    if not free:  # every image was left out
        return torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)
    return torch.cat(free), torch.cat(bound)


def logits_of(net: VisionClassifier, pixels: Tensor, precision: str) -> Tensor:
    """Logits (B, classes) on the CPU, in at least float32.

    Raises:
        NotFinite: a logit is not finite.
    """
    import torch

    where = next(net.parameters())
    wide = torch.float64 if where.dtype == torch.float64 else torch.float32
    with torch.autocast(where.device.type, torch.bfloat16, enabled=precision == "bf16"):
        logits = net(pixels.to(where.device).to(wide) / 255.0).to(wide)
    if not bool(torch.isfinite(logits).all()):
        raise NotFinite(f"{net.description['name']}: logits that are not finite; allowed: finite ones")
    return logits.cpu()


def hash_of_pixels(images: Tensor, labels: Tensor) -> str:
    """sha256 of the shape, pixels and labels of (n, C, H, W) uint8 images in memory."""
    told = hashlib.sha256(f"{tuple(images.shape)}\n".encode())
    for values in (images, labels.long()):
        told.update(values.contiguous().cpu().numpy().tobytes())
    return told.hexdigest()


def hash_of_files(images: Listing, digests: Mapping[Path, str] | None = None) -> str:
    """sha256 over one line per image, in the listing's order: class folder, file name and the file's sha256.

    ``digests`` contains the sha256 of files that have already been read.
    """
    known = digests or {}

    def line(place: int) -> str:
        path = images.files[place]
        own = known.get(path) or hashlib.sha256(path.read_bytes()).hexdigest()
        return f"{path.parent.name}/{path.name} {own}\n"

    with ThreadPoolExecutor(8) as pool:
        return hashlib.sha256("".join(pool.map(line, range(len(images)))).encode()).hexdigest()
