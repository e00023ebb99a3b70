"""Maps the class folders of a test set to the outputs of a network.

The outputs of a network are numbered; the folders of a test set are named, and some sets lack classes. The first rule that applies is used:

1. folders named by numbers are those classes: ImageNet-V2 (Recht et al., 2019) has ``0`` to ``999``. Sorted as text they would be
   0, 1, 10, 100, 101, …, which would make almost every label wrong and reduce accuracy to chance;
2. folders named by ImageNet's 1,000 WordNet identifiers, for a network with 1,000 outputs, are numbered as usual (in alphabetical
   order), even if some folders are missing, as in a sample of the validation images;
3. any other names, if there are as many as outputs, are numbered alphabetically, as in :mod:`relearn.data.imagenet_folder`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from relearn.data.imagenet_folder import Listing, listing

OUTPUTS = 1000


def label_by_class(folder: Path, *, classes: int) -> Listing:
    """The images of ``<folder>/<class>/``, labelled for a network with ``classes`` outputs.

    Raises:
        ValueError: a number that is not a class, other names whose number differs from ``classes``, or an error of
            :func:`relearn.data.imagenet_folder.listing`. OSError: the folder cannot be read.
    """
    found = listing(folder)
    positions = _positions(folder, found.classes, classes)
    names = dict(zip(positions, found.classes))
    labels = found.labels.new_tensor(positions)[found.labels]
    return Listing(found.files, labels, tuple(names.get(number, "") for number in range(classes)))


def _positions(folder: Path, names: tuple[str, ...], classes: int) -> list[int]:
    """The class of each name."""
    if all(name.isdecimal() and name.isascii() for name in names):
        numbers = [int(name) for name in names]
        if max(numbers) >= classes:
            raise ValueError(f"{folder}: class {max(numbers)}; allowed: 0 to {classes - 1}")
        if len(set(numbers)) < len(numbers):
            raise ValueError(f"{folder}: two folders for one number; allowed: one folder per class")
        return numbers
    order = {name: number for number, name in enumerate(identifiers())} if classes == OUTPUTS else {}
    if all(name in order for name in names):
        return [order[name] for name in names]
    if len(names) != classes:
        raise ValueError(
            f"{folder}: {len(names)} class folders; allowed: {classes}, or folders named by number"
            " (or by ImageNet's identifiers, for a network with 1000 outputs)"
        )
    return list(range(classes))


@cache
def identifiers() -> tuple[str, ...]:
    """The WordNet identifiers of ImageNet's 1,000 classes in their usual order, from timm's file."""
    return tuple(file_of_timm("imagenet_synsets.txt").read_text(encoding="utf-8").split())


def file_of_timm(name: str) -> Path:
    """Path of one of timm's ImageNet files, without importing timm."""
    from importlib.metadata import distribution

    return Path(str(distribution("timm").locate_file(f"timm/data/_info/{name}")))
