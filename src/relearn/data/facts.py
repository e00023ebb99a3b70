"""Sizes of the data sets that params.yaml may name. Standard library only, so that a plan can import it.

tests/data/test_facts.py compares them with the data that the loaders return.
"""

from __future__ import annotations

CLASSES = 10
"""Classes of digits and of CIFAR-10."""
SIDE = {"digits": 8, "cifar10": 32, "imagenet": 224}
"""Side of an image in pixels; that of ImageNet after the crop."""
ALL_IMAGES = {"digits": 1797}
"""Images of a data set without a test set of its own."""
TEST_IMAGES = {"cifar10": 10_000, "imagenet": 50_000}
"""Images of the official test set (of ImageNet: the validation set)."""
SMALLEST_CLASS = {"digits": 174, "cifar10": 5000}
"""Training images of the smallest class; for digits, all images of that class."""
LEFT_FOR_TEST = {"digits": 10, "cifar10": 0}
"""Images per class that must be left over for the test set; CIFAR-10 has an official one."""
MOST_FOR_TRAINING = {name: most - LEFT_FOR_TEST[name] for name, most in SMALLEST_CLASS.items()}
"""The highest number of training images per class."""


def images_for_testing(dataset: str, used: int) -> int:
    """Return the number of test images when ``used`` images serve another purpose.

    An official test set does not depend on ``used``. A data set that is in neither table has no image.
    """
    return TEST_IMAGES.get(dataset, ALL_IMAGES.get(dataset, 0) - used)
