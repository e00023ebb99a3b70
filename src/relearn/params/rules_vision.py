"""What params.yaml may say of the studies that train vision Transformers, where they do: rules that tie several keys together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from relearn.data.facts import CLASSES, SIDE, images_for_testing

Get = Callable[[str], Any]
Conflict = tuple[tuple[str | int, ...], str]

STUDIES = ("long_short",)
LOOKS = {
    "long_short": ("long_short.similarity.images",),
}
"""What asks for test images of a study after it has trained."""


def _at(key: str) -> tuple[str | int, ...]:
    return tuple(key.split("."))


def _test_images_of(get: Get, study: str) -> int:
    dataset = get(f"{study}.images.dataset")
    return images_for_testing(dataset, CLASSES * get(f"{study}.images.train_per_class"))


def _patches(get: Get) -> Iterator[Conflict]:
    for study in STUDIES:
        key, side = f"{study}.network.patch_size", SIDE[get(f"{study}.images.dataset")]
        if side % get(key):
            fit = ", ".join(str(n) for n in range(1, side + 1) if side % n == 0)
            yield _at(key), f"found {get(key)}, allowed: what divides the images' side of {side}: {fit}"


def _batches(get: Get) -> Iterator[Conflict]:
    keys = {
        "long_short": ("train",),
    }
    for study, places in keys.items():
        images = CLASSES * get(f"{study}.images.train_per_class")
        for place in places:
            key = f"{study}.{place}.batch_size"
            if images and get(key) > images:
                yield (
                    _at(key),
                    f"found {get(key)}, allowed: at most {images} images (10 x images.train_per_class)",
                )


def _test_images(get: Get) -> Iterator[Conflict]:
    for study in STUDIES:
        most = _test_images_of(get, study)
        for key in (f"{study}.train.test_images", *LOOKS.get(study, ())):
            if get(key) > most:
                what = f"the {most} test images of {get(f'{study}.images.dataset')}"
                yield _at(key), f"found {get(key)}, allowed: at most {what}"


RULES = (_patches, _batches, _test_images)


NEEDS = ()
