r"""Class folders of a test set and the classes that a network knows: which folder is which output.

A network's outputs are numbered; a test set's folders are named, and not every set has all of them. In this order:

1. folders named by numbers are those classes: ImageNet-V2 (Recht et al., 2019) has ``0`` to ``999``, which as text would stand as
   0, 1, 10, 100, 101, …, so that almost every label would be wrong and accuracy near chance;
2. folders named by ImageNet's 1,000 WordNet identifiers, of a network with 1,000 outputs, are numbered as usual (in alphabetical
   order), even where some folders are missing, as in a sample of the validation images;
3. any other names, as many as the network has outputs, are numbered alphabetically, as :mod:`relearn.data.imagenet_folder` does.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from relearn.data.imagenet_folder import Listing, listing

OUTPUTS = 1000


def labelled(folder: Path, *, classes: int) -> Listing:
    """The images of ``<folder>/<class>/``, with the labels of a network of so many outputs.

    Raises:
        ValueError: a number that is no class, other names in another number than ``classes``, and what
            :func:`relearn.data.imagenet_folder.listing` refuses. OSError: the folder cannot be read.
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
            raise ValueError(f"{folder}: two folders of one number; allowed: one folder a class")
        return numbers
    order = {name: number for number, name in enumerate(identifiers())} if classes == OUTPUTS else {}
    if all(name in order for name in names):
        return [order[name] for name in names]
    if len(names) != classes:
        raise ValueError(
            f"{folder}: {len(names)} class folders; allowed: {classes}, or folders named by number"
            " (or by ImageNet's identifiers, of a network with 1000 outputs)"
        )
    return list(range(classes))


@cache
def identifiers() -> tuple[str, ...]:
    """The WordNet identifiers of ImageNet's 1,000 classes in their usual order, from the file that timm has."""
    return tuple(file_of_timm("imagenet_synsets.txt").read_text(encoding="utf-8").split())


def file_of_timm(name: str) -> Path:
    """A file on ImageNet that comes with timm, found without importing it."""
    from importlib.metadata import distribution

    return Path(str(distribution("timm").locate_file(f"timm/data/_info/{name}")))
