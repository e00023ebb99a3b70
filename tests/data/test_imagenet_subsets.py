"""The 200 classes of ImageNet-A and -R, and which classes a folder lacks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from relearn.data.imagenet_classes import identifiers, label_by_class
from relearn.data.imagenet_folder import Listing
from relearn.data.imagenet_subsets import classes_of, missing, name_of

META = Path(os.environ.get("RELEARN_MIRROR", ""), "imagenet_meta")
MIRROR = META.parent / "imagenet_sample_derived"


@pytest.mark.parametrize("name", ["a", "r"])
def test_two_hundred_classes(name: str) -> None:
    found = classes_of(name)
    assert len(found) == len(set(found)) == 200 and list(found) == sorted(found)
    assert found[0] >= 0 and found[-1] < 1000


def test_the_two_sets_differ() -> None:
    """Facts of the published lists: great white sharks are drawn and not adversarial, stingrays are both."""
    a, r = set(classes_of("a")), set(classes_of("r"))
    number = {one: place for place, one in enumerate(identifiers())}
    assert number["n01484850"] in r - a and number["n01498041"] in a & r and a != r
    with pytest.raises(ValueError, match="subset 'c'; allowed: a, r"):
        classes_of("c")


@pytest.mark.skipif(not META.is_dir(), reason="RELEARN_MIRROR names no folder with the published lists")
@pytest.mark.parametrize("name", ["a", "r"])
def test_the_numbers_are_the_published_ones(name: str) -> None:
    told = (META / f"imagenet_{name}_indices.txt").read_text().split()
    assert list(classes_of(name)) == [int(one) for one in told]


def test_missing_classes_are_reported_and_unknown_ones_refused() -> None:
    files = tuple(Path(f"set/{name}/1.png") for name in "ccb")
    images = Listing(files, torch.tensor([2, 2, 1]), ("a", "b", "c", "d"))
    assert missing(images, range(4)) == (0, 3) and missing(images, (2, 1)) == ()
    with pytest.raises(ValueError, match="set: class 'c' is not one of the set's 2"):
        missing(images, (0, 1))
    assert name_of(0, 1000) == "0 (n01440764)" and name_of(3, 10) == "3"


@pytest.mark.skipif(not MIRROR.is_dir(), reason="RELEARN_MIRROR names no folder with images of ImageNet")
def test_real_folders_have_all_classes() -> None:
    images = label_by_class(MIRROR, classes=1000)
    assert missing(images, range(1000)) == ()
    kept = images.take([place for place in range(1000) if place not in (0, 7)])
    assert missing(kept, range(1000)) == (0, 7)
