"""The sizes that params.yaml is checked against are those of the data."""

import os
from pathlib import Path

import numpy as np
import pytest

from relearn import data
from relearn.data import facts

MIRROR = Path(os.environ.get("RELEARN_MIRROR") or "none")


def test_every_data_set_has_its_facts() -> None:
    assert set(facts.SMALLEST_CLASS) == set(facts.LEFT_FOR_TEST) == set(data.DATASETS)
    assert set(data.DATASETS) < set(facts.SIDE) == {*facts.ALL_IMAGES, *facts.TEST_IMAGES}
    assert not set(facts.ALL_IMAGES) & set(facts.TEST_IMAGES)


@pytest.mark.parametrize("name", sorted(data.DATASETS))
def test_the_facts_are_those_of_the_data(name: str) -> None:
    if name != "digits" and not (MIRROR / name).is_dir():
        pytest.skip(f"{name} is neither shipped nor in RELEARN_MIRROR")
    found = data.load(name, folder=None if name == "digits" else MIRROR / name)
    counts = np.bincount(found.train_labels)
    assert len(counts) == facts.CLASSES
    assert counts.min() == facts.SMALLEST_CLASS[name]
    assert found.train_images.shape[-2:] == (facts.SIDE[name],) * 2
    if found.test_images is None:
        assert len(found.train_labels) == facts.ALL_IMAGES[name]
    else:
        assert len(found.test_images) == facts.TEST_IMAGES[name]


def test_only_a_data_set_without_a_test_set_gives_images_away() -> None:
    assert facts.images_for_testing("digits", 1640) == 157
    assert facts.images_for_testing("cifar10", 1640) == facts.images_for_testing("cifar10", 0) == 10_000
    assert facts.MOST_FOR_TRAINING == {"digits": 164, "cifar10": 5000}
