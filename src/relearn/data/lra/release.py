"""The arena's official archive ``lra_release``: where its parts are.

Copies of the archive are unpacked to different depths. Each part is therefore looked up in the given folder itself, in its subfolder with
the part's name, and in such a subfolder of ``lra_release``::

    lra_release/listops-1000/basic_{train,val,test}.tsv
    lra_release/lra_release/tsv_data/new_aan_pairs.{train,eval,test}.tsv
    lra_release/lra_release/pathfinder32/curv_contour_length_14/{imgs/<n>/*.png,metadata/<n>.npy}

Its official address no longer responds; nothing is downloaded here.
"""

from __future__ import annotations

from pathlib import Path

NAME = "lra_release"


def part_of(folder: Path, name: str) -> Path:
    """The folder ``name`` in the archive, or ``folder`` itself if there is none."""
    places = (folder / name, folder / NAME / name)
    return next((place for place in places if place.is_dir()), folder)
