"""ImageNet-C (Hendrycks & Dietterich, 2019): ``<folder>/<corruption>/<severity>/<class>/*.JPEG``, 15 corruptions × 5 severities.

The archives are published by group (noise, blur, weather, digital, extra), so there may be a group folder in between:
``<folder>/noise/gaussian_noise/1/…``. Four additional corruptions (:data:`EXTRA`) are not part of any mean. The images are the
50,000 validation images at 224 × 224, already resized and cropped; https://github.com/hendrycks/robustness states where to get
them and under which terms. Nothing is downloaded here.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from relearn.data.corruptions import LEVELS, NAMES

GROUPS = ("noise", "blur", "weather", "digital", "extra")
EXTRA = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
Folders = dict[tuple[str, int], Path]


def corrupted_folders(
    folder: Path, *, names: Iterable[str] = NAMES, severities: Iterable[int] = LEVELS
) -> Folders:
    """The folder of each requested (corruption, severity), with corruptions in their usual order.

    Raises:
        ValueError: an unknown corruption or severity is requested, a folder has an unknown name, or a requested one is missing.
        OSError: the folder cannot be read.
    """
    wanted, levels = list(names), list(severities)
    for name in wanted:
        if name not in NAMES:
            raise ValueError(f"corruption {name!r} is unknown; {_nearest(name)}allowed: {', '.join(NAMES)}")
    for level in levels:
        if level not in LEVELS:
            raise ValueError(f"severity is {level!r}; allowed: {', '.join(map(str, LEVELS))}")
    there = _there(folder)
    found: Folders = {}
    for name in NAMES:
        for level in sorted(levels) if name in wanted else ():
            if name not in there:
                raise ValueError(f"{folder}: no folder {name}; allowed: all of {', '.join(wanted)}")
            place = there[name] / str(level)
            if not place.is_dir():
                raise ValueError(
                    f"{there[name]}: no folder {level}; allowed: severities {', '.join(map(str, levels))}"
                )
            found[name, level] = place
    return found


def _there(folder: Path) -> dict[str, Path]:
    """The folder of every corruption, directly or in a group folder."""
    inside = [one for one in sorted(folder.iterdir()) if one.is_dir() and not one.name.startswith(".")]
    deeper = [
        one for group in inside if group.name in GROUPS for one in sorted(group.iterdir()) if one.is_dir()
    ]
    found = [one for one in inside if one.name not in GROUPS] + deeper
    for one in found:
        if one.name not in NAMES + EXTRA:
            raise ValueError(
                f"{one}: {one.name!r} is not a corruption; {_nearest(one.name)}allowed: {', '.join(NAMES + EXTRA)}"
            )
    return {one.name: one for one in found}


def _nearest(name: str) -> str:
    near = get_close_matches(str(name), NAMES, n=1)
    return f"did you mean {near[0]!r}? " if near else ""
