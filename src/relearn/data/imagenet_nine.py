"""ImageNet-9 (Xiao et al., 2021): nine groups of ImageNet's classes, on original, similar and random backgrounds.

``<folder>/<variant>/[val/]<class>/*.JPEG`` with the nine folders named as released, ``00_dog`` to ``08_fish``; variants
:data:`VARIANTS`. The images are 224 × 224; https://github.com/MadryLab/backgrounds_challenge states where to get them. Nothing is
downloaded here.

**Groups** (:data:`GROUPS`): a group consists of the classes below one noun of WordNet, such as n02084071 for dogs, except a few classes
omitted by the authors. 370 of the 1,000 classes belong to a group; predicting one of the others is an error. The authors' repository
publishes the map without a licence, so its file is not included: the facts are stated here as ranges of class numbers, and a test
compares them with the file if it is available.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from relearn.data.imagenet_folder import Listing, listing

VARIANTS = {"nine_original": "original", "nine_same": "mixed_same", "nine_rand": "mixed_rand"}
NAMES = (
    "dog",
    "bird",
    "wheeled vehicle",
    "reptile",
    "carnivore",
    "insect",
    "musical instrument",
    "primate",
    "fish",
)
NONE = -1
OUTPUTS = 1000
GROUPS: tuple[str, ...] = (
    "151-170 173-268",
    "7-24 87-100 127-146",
    "407-408 428 436 444 468 511 547 555 561 565 569 573 586 603 609 612 627 656 661 665 670-671 675 690 705 717 734 751 757 791"
    " 802-803 817 820 829 847 864 866-867 870 880",
    "33-68",
    "269-280 286-299 356-362 387-388",
    "300-326",
    "401-402 420 432 486 494 513 541 546 558 566 577 579 593-594 641-642 683-684 687 699 776 822 875 881 889",
    "365-384",
    "0-6 389-397",
)
"""ImageNet's class numbers in each group, in the order of :data:`NAMES`."""


@cache
def group_of_class() -> tuple[int, ...]:
    """The group of each of the 1,000 classes, :data:`NONE` for those without a group."""
    groups = [NONE] * OUTPUTS
    for group, words in enumerate(GROUPS):
        for word in words.split():
            first, _, last = word.partition("-")
            for number in range(int(first), int(last or first) + 1):
                groups[number] = group
    return tuple(groups)


def variant(folder: Path, name: str) -> Listing:
    """The images of one of :data:`VARIANTS`, labels 0 to 8.

    Raises:
        ValueError: an unknown variant, a missing folder, or folders other than the nine groups. OSError: the folder cannot be read.
    """
    if name not in VARIANTS:
        raise ValueError(f"variant {name!r}; allowed: {', '.join(VARIANTS)}")
    place = folder / VARIANTS[name]
    if not place.is_dir():
        raise ValueError(
            f"{folder}: no folder {VARIANTS[name]}; allowed: all of {', '.join(VARIANTS.values())}"
        )
    place = place / "val" if (place / "val").is_dir() else place
    found = listing(place)
    wanted = tuple(f"{number:02d}_{one}" for number, one in enumerate(NAMES))
    if found.classes != wanted:
        odd = next(iter(sorted(set(found.classes) ^ set(wanted))))
        problem = "missing" if odd in wanted else "no group"
        raise ValueError(
            f"{place}: {odd!r} is {problem}; allowed: the nine folders {wanted[0]} to {wanted[-1]}"
        )
    return found
