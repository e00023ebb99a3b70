"""ReaL: reassessed labels of ImageNet's 50,000 validation images, for each the classes that are right (Beyer et al., 2020).

A prediction counts as right if it is one of an image's classes; images with none (3,163 of them) are left out. The file is a JSON list
with a list of class numbers for each image, in the order of the images' official names, ``ILSVRC2012_val_00000001.JPEG`` and on. It
belongs to https://github.com/google-research/reassessed-imagenet (Apache 2.0). timm comes with the very bytes, so that nothing has to
be fetched; where its copy is another, the official file is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from relearn.data.imagenet_classes import file_of_timm
from relearn.data.remote import Remote, fault_of

FILE = Remote(
    name="real.json",
    urls=("https://raw.githubusercontent.com/google-research/reassessed-imagenet/master/real.json",),
    size=388478,
    sha256="d83e9bff374c631aae8439eb064c7019acc56e1b3bc3f56b8380c2a710b0220b",
)
COPY = "imagenet_real_labels.json"
NAME = re.compile(r"ILSVRC2012_val_(\d{8})")
Allowed = tuple[frozenset[int], ...]


def load(path: Path | None = None) -> Allowed:
    """The right classes of every validation image, in the order of their names; an empty set where there are none.

    Args:
        path: a file of the same form; None: the official one.

    Raises:
        ValueError: no list of lists of whole numbers from 0 on. OSError: it cannot be read or fetched.
    """
    path = official() if path is None else path
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as fault:
        raise ValueError(f"{path}: no JSON text ({fault})") from None
    if not isinstance(found, list) or not found or not all(isinstance(one, list) for one in found):
        raise ValueError(f"{path}: allowed: a list with a list of class numbers for each image")
    if strange := [n for one in found for n in one if not isinstance(n, int) or isinstance(n, bool) or n < 0]:
        raise ValueError(f"{path}: {strange[0]!r} among the classes; allowed: whole numbers from 0 on")
    return tuple(map(frozenset, found))


def official() -> Path:
    """timm's copy where it has the official bytes, else the file in the cache, fetched if need be."""
    copy = file_of_timm(COPY)
    if copy.is_file() and not fault_of(copy, FILE):
        return copy
    from relearn.data.download import fetch

    return fetch(FILE)


def of_files(files: Sequence[Path], real: Allowed) -> Allowed:
    """The right classes of each file, by the number in its official name, whatever folder it lies in.

    Files of other names are taken for the images in the order of their names, if there are as many as lists.

    Raises:
        ValueError: a number without a list, or files of other names in another number or twice under one name.
    """
    numbers = [NAME.fullmatch(path.stem) for path in files]
    if files and all(numbers):
        positions = [int(match[1]) - 1 for match in numbers if match]
        if not 0 <= min(positions) <= max(positions) < len(real):
            wrong = next(p + 1 for p in positions if not 0 <= p < len(real))
            raise ValueError(f"image {wrong}: no labels; allowed: 1 to {len(real)}")
        return tuple(real[position] for position in positions)
    names = [path.name for path in files]
    if len(names) != len(real) or len(set(names)) < len(names):
        raise ValueError(
            f"{len(set(names))} names of {len(names)} images, such as {names[0] if names else 'none'}; allowed: names "
            f"as ILSVRC2012_val_00000001.JPEG, or {len(real)} different ones, as many as there are labels"
        )
    order = {name: position for position, name in enumerate(sorted(names))}
    return tuple(real[order[name]] for name in names)
