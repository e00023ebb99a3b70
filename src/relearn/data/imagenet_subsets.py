"""ImageNet-A and ImageNet-R (Hendrycks et al., 2021): 200 of the 1,000 classes each, and which ones.

A network of 1,000 outputs can be asked in two ways: for its largest logit among the set's 200 classes (masked, the published
protocol), or among all (unmasked; a class outside the set is then an error). The two differ by several points, so a number
without its mask says little. The lists of classes come with timm (Apache 2.0), which this package needs anyway; the images are at
https://github.com/hendrycks/natural-adv-examples and https://github.com/hendrycks/imagenet-r, and nothing is downloaded here.
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
        ValueError: another name.
    """
    if name not in LISTS:
        raise ValueError(f"subset {name!r}; allowed: {', '.join(LISTS)}")
    number = {one: place for place, one in enumerate(identifiers())}
    words = file_of_timm(LISTS[name]).read_text(encoding="utf-8").split()
    return tuple(sorted(number[word] for word in words))


def missing(images: Listing, wanted: Collection[int]) -> tuple[int, ...]:
    """The wanted classes of which the listing has no image, ascending.

    Raises:
        ValueError: an image of a class that is not among them.
    """
    there = set(images.labels.tolist())
    if strange := sorted(there - set(wanted)):
        name = images.classes[strange[0]]
        raise ValueError(f"{images.files[0].parents[1]}: class {name!r} is none of the set's {len(wanted)}")
    return tuple(sorted(set(wanted) - there))


def name_of(number: int, classes: int) -> str:
    """How a message calls a class: with its WordNet identifier where the network has ImageNet's 1,000."""
    return f"{number} ({identifiers()[number]})" if classes == OUTPUTS else str(number)
