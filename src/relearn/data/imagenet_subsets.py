"""ImageNet-A and ImageNet-R (Hendrycks et al., 2021), each with 200 of the 1,000 classes.

A network with 1,000 outputs can be evaluated in two ways: by its largest logit among the set's 200 classes (masked, the published
protocol), or among all classes (unmasked; a class outside the set is then an error). The two differ by several percentage points, so a
result must state which one was used. The lists of classes come with timm (Apache 2.0), which this package requires anyway; the images are
at https://github.com/hendrycks/natural-adv-examples and https://github.com/hendrycks/imagenet-r. Nothing is downloaded here.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from relearn.data.imagenet_classes import OUTPUTS, file_of_timm, identifiers
from relearn.data.imagenet_folder import Listing

LISTS = {"a": "imagenet_a_synsets.txt", "r": "imagenet_r_synsets.txt"}


@cache
def classes_of(name: str) -> tuple[int, ...]:
    """The 200 classes of ImageNet-A (``a``) or ImageNet-R (``r``) by their number among the 1,000, ascending.

    Raises:
        ValueError: an unknown name.
    """
    if name not in LISTS:
        raise ValueError(f"subset {name!r}; allowed: {', '.join(LISTS)}")
    number = {one: place for place, one in enumerate(identifiers())}
    words = file_of_timm(LISTS[name]).read_text(encoding="utf-8").split()
    return tuple(sorted(number[word] for word in words))


def missing(images: Listing, wanted: Collection[int]) -> tuple[int, ...]:
    """The wanted classes without an image in the listing, ascending.

    Raises:
        ValueError: an image of a class that is not wanted.
    """
    there = set(images.labels.tolist())
    if strange := sorted(there - set(wanted)):
        name = images.classes[strange[0]]
        raise ValueError(
            f"{images.files[0].parents[1]}: class {name!r} is not one of the set's {len(wanted)}"
        )
    return tuple(sorted(set(wanted) - there))


def name_of(number: int, classes: int) -> str:
    """Name of a class in messages, with its WordNet identifier if the network has ImageNet's 1,000 classes."""
    return f"{number} ({identifiers()[number]})" if classes == OUTPUTS else str(number)
