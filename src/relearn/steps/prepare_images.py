"""Prepare a data set: load or download it, split it, and store the images of the split.

settings: ``dataset`` (a name of ``relearn.data.DATASETS``), ``pretrain_per_class``, ``fine_tune_per_class``,
``pool_per_class``, and ``pool_start`` if the pool does not follow directly (see ``relearn.data.split``).
inputs: none. The environment variable RELEARN_MIRROR names a folder of local data sets, with one
folder per data set, e.g. ``$RELEARN_MIRROR/cifar10``. It is not a setting, because the place of the data must
not change the identity of a run.
outputs: ``data.safetensors`` (see ``relearn.data.arrays``).
metrics: number of images in each part, and of those known not to be bit-exact.

This step uses numpy only: importing torch would take longer than all the work on small data.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.runs.settings import picked

if TYPE_CHECKING:
    from relearn.data.images import Images
    from relearn.data.split import Split
    from relearn.runs.record import Run

NEEDS_TORCH = False
PARTS = ("pretrain", "pool", "fine_tune", "test")


@dataclass(frozen=True, kw_only=True)
class Settings:
    dataset: str
    pretrain_per_class: int
    fine_tune_per_class: int
    pool_per_class: int
    pool_start: int | None = None


def run(run: Run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    """See the module. Device and precision are not used."""
    from relearn import data
    from relearn.data import prepared_file
    from relearn.data.mirror import mirror_of
    from relearn.data.split import split

    name = settings.dataset
    images = data.load(name, folder=mirror_of(name))
    parts = split(
        images.train_labels,
        classes=images.class_names,
        official_test=images.test_images is not None,
        **picked(settings, "pretrain_per_class", "fine_tune_per_class", "pool_per_class", "pool_start"),
    )
    tensors = used_tensors(images, parts)
    header = {"data set": name, "classes": list(images.class_names)}
    prepared_file.write(run.output("data.safetensors"), tensors, header)

    inexact = tensors["source_index"][~tensors["exact"]]
    test_exact = tensors.get("test_exact")
    inexact_test = [] if test_exact is None else (~test_exact).nonzero()[0]
    metrics = {
        f"{part}_count": float(len(tensors[part])) for part in ("pretrain", "pool", "fine_tune", "test")
    }
    metrics |= {
        "classes_count": float(len(images.class_names)),
        "inexact_train_count": float(len(inexact)),
        "inexact_test_count": float(len(inexact_test)),
    }
    notes = ["source: " + json.dumps(images.source, sort_keys=True)]
    for part, index in (("training", inexact), ("test", inexact_test)):
        if len(index):
            notes.append(f"{part} images used that are not bit-exact: {' '.join(map(str, index))}")
    run.finish(metrics=metrics, notes=notes)


def used_tensors(images: Images, parts: Split) -> dict[str, Any]:
    """The arrays of ``relearn.data.arrays``: the used training images in their original order, and the parts as indices."""
    import numpy as np

    from relearn.data.images import channel_statistics

    everything = [parts.pretrain, parts.pool] + ([] if parts.test is None else [parts.test])
    used = np.sort(np.concatenate(everything))  # the parts are disjoint
    kept = images.train_images[used]
    tensors: dict[str, Any] = {
        "images": kept,
        "labels": images.train_labels[used],
        "source_index": used,
        "exact": images.train_exact[used],
        "pretrain": np.searchsorted(used, parts.pretrain),
        "pool": np.searchsorted(used, parts.pool),
        "fine_tune": np.searchsorted(used, parts.fine_tune),
    }
    if parts.test is not None:
        tensors["test"] = np.searchsorted(used, parts.test)
    else:
        assert images.test_images is not None
        tensors |= {
            "test": np.arange(len(images.test_images)),
            "test_images": images.test_images,
            "test_labels": images.test_labels,
            "test_exact": images.test_exact,
        }
    # Statistics of the pre-training images only: a network knows no others, and no test images leak into them.
    tensors["mean"], tensors["std"] = channel_statistics(kept[tensors["pretrain"]])
    return tensors
