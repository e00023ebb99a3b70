"""Images in one folder per class, as in ImageNet: ``$RELEARN_MIRROR/<data set>/{train,val}/<class>/<image>``.

This module does not import torch, because the workflow needs the hash of the file list while it plans.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from relearn.data.mirror import mirror_of

PARTS = ("train", "val")
SUFFIXES = (".jpeg", ".jpg", ".png")


def root_of(dataset: str) -> Path:
    """Return ``$RELEARN_MIRROR/<dataset>``.

    Raises:
        ValueError: the folder or one of its parts is missing.
    """
    root = mirror_of(dataset)
    if root is None or not all((root / part).is_dir() for part in PARTS):
        raise ValueError(
            f"{dataset}: no such images here; allowed: RELEARN_MIRROR names a folder that holds "
            f"{dataset}/{{{','.join(PARTS)}}}/<class>/*.JPEG (they are not downloaded)"
        )
    return root


def files_of(folder: Path) -> dict[str, list[str]]:
    """Return the image names of each class, both sorted; hidden ones and files that are no images are left out."""
    classes = sorted(one.name for one in os.scandir(folder) if one.is_dir() and not one.name.startswith("."))
    return {name: sorted(filter(_is_image, os.listdir(folder / name))) for name in classes}


def _is_image(name: str) -> bool:
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def sha256_of(root: Path) -> str:
    """Hash the lines ``<part>/<class>/<name>``.

    Only names are hashed, because reading the metadata of 1.3 million files takes too long.
    """
    digest = hashlib.sha256()
    for part in PARTS:
        for name, files in files_of(root / part).items():
            digest.update("".join(f"{part}/{name}/{file}\n" for file in files).encode())
    return digest.hexdigest()


def listed_root(listing: Path) -> Path:
    """The folder of a ``listing.json``, which `list_imagenet` wrote.

    Raises:
        ValueError: the folder is missing, or its files have changed since.
    """
    listed = json.loads(listing.read_text(encoding="utf-8"))
    root = root_of(listed["dataset"])
    if sha256_of(root) != listed["sha256"]:
        raise ValueError(
            f"{root}: found other files than in {listing}, allowed: the same; delete the listing to make it anew"
        )
    return root
