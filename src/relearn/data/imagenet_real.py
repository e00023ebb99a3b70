"""ReaL: reassessed labels of ImageNet's 50,000 validation images, a set of correct classes for each (Beyer et al., 2020).

A prediction is correct if it is one of an image's classes; images without any (3,163 of them) are excluded. The file is a JSON list with a
list of class numbers for each image, in the order of the images' official names, ``ILSVRC2012_val_00000001.JPEG`` etc. It comes from
https://github.com/google-research/reassessed-imagenet (Apache 2.0). timm includes the same bytes, so nothing has to be downloaded; if its
copy differs, the official file is fetched.
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
    """The correct classes of every validation image, in the order of their names; an empty set if there are none.

    Args:
        path: a file of the same form; None: the official one.

    Raises:
        ValueError: not a list of lists of non-negative integers. OSError: the file cannot be read or fetched.
    """
    path = official() if path is None else path
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as fault:
        raise ValueError(f"{path}: not a JSON text ({fault})") from None
    if not isinstance(found, list) or not found or not all(isinstance(one, list) for one in found):
        raise ValueError(f"{path}: allowed: a list with a list of class numbers for each image")
    if strange := [n for one in found for n in one if not isinstance(n, int) or isinstance(n, bool) or n < 0]:
        raise ValueError(f"{path}: {strange[0]!r} among the classes; allowed: whole numbers from 0 on")
    return tuple(map(frozenset, found))


def official() -> Path:
    """timm's copy if it has the official bytes, else the file in the cache, fetched if necessary."""
    copy = file_of_timm(COPY)
    if copy.is_file() and not fault_of(copy, FILE):
        return copy
    from relearn.data.download import fetch

    return fetch(FILE)


def classes_of_files(files: Sequence[Path], real: Allowed) -> Allowed:
    """The correct classes of each file, by the number in its official name, whatever its folder.

    If the names are not official, the files are matched to the lists in the order of their names; the numbers must agree.

    Raises:
        ValueError: a number without a list, or unofficial names that are not unique or not as many as the lists.
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
