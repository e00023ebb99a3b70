"""The prepared data set: written by the step prepare_images of each study, read by its later steps.

``data.safetensors`` holds only the images used by the split:

==============  ==============================================================  ==================
tensor          meaning                                                         shape, type
==============  ==============================================================  ==================
images          used training images, in the data set's order                   (N, C, H, W) uint8
labels          their classes                                                   (N,) int64
source_index    their positions in the original training set                    (N,) int64
exact           False: this image is known not to be bit-exact                  (N,) bool
pretrain        indices into ``images``, ascending                              int64
pool            likewise                                                        int64
fine_tune       likewise; a subset of ``pool``                                  int64
test            likewise, or into ``test_images`` if present                    int64
test_images     official test images, if there is an official test set          (M, C, H, W) uint8
test_labels     their classes                                                   (M,) int64
test_exact      as ``exact``                                                    (M,) bool
mean, std       of the PRE-TRAINING images, [0, 1] scale, per channel           (C,) float32
==============  ==============================================================  ==================

The header is ``{"data set": …, "classes": […]}`` as one JSON text, so that equal data give equal bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from relearn.data import prepared_file
from relearn.data.split import class_range, pick_trials

TENSORS = (
    *("images", "labels", "source_index", "exact"),
    *("pretrain", "pool", "fine_tune", "test", "mean", "std"),
)
OFFICIAL_TEST = ("test_images", "test_labels", "test_exact")


@dataclass(frozen=True)
class Trials:
    """Targets of the attacks and base images of the poisons; T targets, k poisons."""

    target_images: Tensor
    """(T, C, H, W) uint8."""
    target_index: Tensor
    """(T,) int64, into ``Prepared.images``; ``source_index[target_index]`` are positions in the original training set."""
    base_images: Tensor
    """(k, C, H, W) uint8."""
    base_positions_in_fine_tune: Tensor
    """(k,) int64, rows of ``Prepared.fine_tune()`` replaced by the poisons."""


@dataclass(frozen=True)
class Prepared:
    """A prepared data set on the CPU. Image sets are pairs (images (n, C, H, W) uint8, labels (n,) int64)."""

    dataset: str
    classes: tuple[str, ...]
    tensors: dict[str, Tensor]

    @property
    def images(self) -> Tensor:
        """All used training images, (N, C, H, W) uint8."""
        return self.tensors["images"]

    @property
    def labels(self) -> Tensor:
        """(N,) int64."""
        return self.tensors["labels"]

    @property
    def mean(self) -> Tensor:
        """(C,) float32, [0, 1] scale, of the pre-training images."""
        return self.tensors["mean"]

    @property
    def std(self) -> Tensor:
        """(C,) float32, [0, 1] scale, of the pre-training images."""
        return self.tensors["std"]

    def pretrain(self, per_class: tuple[int, int] | None = None) -> tuple[Tensor, Tensor]:
        """The pre-training images.

        Args:
            per_class: half-open range [start, stop) of each class's pre-training images; None = all of them.

        Raises:
            ValueError: the range is empty or reaches beyond a class.
        """
        index = self.tensors["pretrain"]
        if per_class is not None:
            index = index[torch.from_numpy(class_range(self.labels[index].numpy(), *per_class))]
        return self.images[index], self.labels[index]

    def fine_tune(self) -> tuple[Tensor, Tensor]:
        """The victim's clean training set."""
        return self.images[self.tensors["fine_tune"]], self.labels[self.tensors["fine_tune"]]

    def pool(self) -> tuple[Tensor, Tensor]:
        """Fine-tuning images and further images, from which the targets are taken."""
        return self.images[self.tensors["pool"]], self.labels[self.tensors["pool"]]

    def test(self) -> tuple[Tensor, Tensor]:
        """The official test set or, if there is none, the images that no other part uses."""
        name = "test_" if "test_images" in self.tensors else ""
        index = self.tensors["test"]
        return self.tensors[name + "images"][index], self.tensors[name + "labels"][index]

    def trials(self, *, target_class: int, targets: int, poison_class: int, poisons: int) -> Trials:
        """Targets and bases by the rule of ``relearn.data.split``.

        Raises:
            ValueError: see ``relearn.data.split.pick_trials``.
        """
        picks = pick_trials(
            self.labels.numpy(),
            self.tensors["pool"].numpy(),
            self.tensors["fine_tune"].numpy(),
            target_class=target_class,
            targets=targets,
            poison_class=poison_class,
            poisons=poisons,
        )
        target_index, bases = torch.from_numpy(picks.targets), torch.from_numpy(picks.bases)
        return Trials(
            target_images=self.images[target_index],
            target_index=target_index,
            base_images=self.images[self.tensors["fine_tune"][bases]],
            base_positions_in_fine_tune=bases,
        )


def load_prepared(path: Path | str) -> Prepared:
    """Read the file written by the step prepare_images.

    Raises:
        SafetensorError: the file is damaged.
        ValueError: it does not hold a prepared data set.
        OSError: it cannot be read.
    """
    header, tensors = prepared_file.read(
        path,
        "data set",
        "poisoning prepare_images",
        fields=("data set", "classes"),
        arrays=TENSORS,
        framework="pt",
    )
    return Prepared(dataset=header["data set"], classes=tuple(header["classes"]), tensors=tensors)
