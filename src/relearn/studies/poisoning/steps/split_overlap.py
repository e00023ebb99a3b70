"""split_overlap: reduce a prepared data set to a range of each class's pre-training images.

Used for networks whose pre-training images overlap only partly (zhu2022, 2.2.8.2: substitutes are trained on the first half
of each class, a victim on the middle half, the second half or all of it). Pool, fine-tuning set and test set are unchanged.
Mean and standard deviation are recomputed from the remaining images.

Settings: start, stop: shares of a class's pre-training images, 0 <= start < stop <= 1. Input: data. Output: data.safetensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NEEDS_TORCH = False


@dataclass(frozen=True, kw_only=True)
class Settings:
    start: float
    stop: float


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    """Run the step; see the module docstring. Device and precision are not used.

    Raises:
        ValueError: the range contains no image, or the file is not a prepared data set.
    """
    import numpy as np

    from relearn.data import prepared_file
    from relearn.data.images import channel_statistics
    from relearn.data.split import class_range

    header, tensors = prepared_file.read(
        inputs["data"][0],
        "data set",
        "poisoning prepare_images",
        fields=("data set", "classes"),
        arrays=("images", "labels", "pretrain"),
    )
    index = tensors["pretrain"]
    labels = tensors["labels"][index]
    smallest = int(np.bincount(labels).min())
    start, stop = round(settings.start * smallest), round(settings.stop * smallest)
    tensors["pretrain"] = index[class_range(labels, start, stop)]
    tensors["mean"], tensors["std"] = channel_statistics(tensors["images"][tensors["pretrain"]])
    prepared_file.write(run.output("data.safetensors"), tensors, header)
    run.finish({"pretrain_count": float(len(tensors["pretrain"])), "per_class_count": float(stop - start)})
