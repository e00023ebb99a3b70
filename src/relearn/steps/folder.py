"""folder: which images a folder of classes holds, for runs that read them where they lie; nothing is copied.

settings: ``dataset`` (a folder of RELEARN_MIRROR, with ``{train,val}/<class>/<image>``) and ``sha256`` (of its file list, as the
workflow saw it when it was planned; null: any), so that a folder with other files is another run.
inputs: none. outputs: ``listing.json`` (classes, numbers of images, sha256 of the file list).
metrics: classes, images of both parts.

No torch here: the workflow asks for the file list's hash while it plans.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from relearn.steps.prepare import mirror_of

NEEDS_TORCH = False
PARTS = ("train", "val")


def run(run, settings: dict[str, Any], inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    name = settings["dataset"]
    root = root_of(name)
    found, planned = sha256_of(root), settings["sha256"]
    if planned not in (None, found):
        raise ValueError(
            f"{root}: files have come, gone or got other names since this was planned; start again"
        )
    train, val = (files_of(root / part) for part in PARTS)
    told = {
        "dataset": name,
        "classes": list(train),
        "train": _count(train),
        "val": _count(val),
        "sha256": found,
    }
    run.output("listing.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    run.finish(
        {
            "classes_count": float(len(train)),
            "train_count": float(_count(train)),
            "test_count": float(_count(val)),
        }
    )


def root_of(dataset: str) -> Path:
    """``$RELEARN_MIRROR/<dataset>``.

    Raises:
        ValueError: it is missing, or one of its parts is.
    """
    root = mirror_of(dataset)
    if root is None or not all((root / part).is_dir() for part in PARTS):
        raise ValueError(
            f"{dataset}: no such images here; allowed: RELEARN_MIRROR names a folder that holds "
            f"{dataset}/{{{','.join(PARTS)}}}/<class>/*.JPEG (they are not downloaded)"
        )
    return root


def files_of(folder: Path) -> dict[str, list[str]]:
    """Class → names of its files, both in order; what is hidden does not count."""
    classes = sorted(one.name for one in os.scandir(folder) if one.is_dir() and not one.name.startswith("."))
    return {name: sorted(n for n in os.listdir(folder / name) if not n.startswith(".")) for name in classes}


def sha256_of(root: Path) -> str:
    """Of the lines ``<part>/<class>/<name>``; names alone, because 1.3 million files take long to ask for more."""
    told = hashlib.sha256()
    for part in PARTS:
        for name, files in files_of(root / part).items():
            told.update("".join(f"{part}/{name}/{file}\n" for file in files).encode())
    return told.hexdigest()


def _count(files: dict[str, list[str]]) -> int:
    return sum(map(len, files.values()))
