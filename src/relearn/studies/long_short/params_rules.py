"""Checks of ``robustness`` that need the section ``long_short``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from relearn.data.facts import CLASSES, images_for_testing

Get = Callable[[str], Any]
Conflict = tuple[tuple[str | int, ...], str]


def _at(key: str, *index: int) -> tuple[str | int, ...]:
    return (*key.split("."), *index)


def _withstand(get: Get) -> Iterator[Conflict]:
    """Every evaluated network must be trained by long_short, and the mCE reference must be among them."""
    key, known = "robustness.withstand.networks", get("long_short.grid.networks")
    tested = get(key)
    for index, name in enumerate(tested):
        if name not in known:
            yield _at(key, index), f"found {name}, allowed: of long_short.grid.networks: {', '.join(known)}"
    key = "robustness.withstand.reference"
    if tested and get("robustness.withstand.corruptions") and get(key) not in tested:
        yield _at(key), f"found {get(key)}, allowed: of robustness.withstand.networks: {', '.join(tested)}"


def _test_images(get: Get) -> Iterator[Conflict]:
    """A number of test images is at most the number that there are."""
    key, dataset = "robustness.withstand.images", get("long_short.images.dataset")
    most = images_for_testing(dataset, CLASSES * get("long_short.images.train_per_class"))
    if get(key) > most:
        yield _at(key), f"found {get(key)}, allowed: at most the {most} test images of {dataset}"


def _attacked(get: Get) -> Iterator[Conflict]:
    """Attacked images are some of the tested ones."""
    key, most = "robustness.withstand.pgd.images", get("robustness.withstand.images")
    if most and get(key) > most:
        yield _at(key), f"found {get(key)}, allowed: at most robustness.withstand.images = {most}"


RULES = (_withstand, _test_images, _attacked)
