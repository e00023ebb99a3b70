"""List the images of a folder of classes, for runs that read them in place.

Settings: dataset (a folder of RELEARN_MIRROR, with ``{train,val}/<class>/<image>``) and sha256 (hash of its file list when the
workflow was planned; null: any), so that a folder with other files gives another run. No inputs.
Output: listing.json (classes, numbers of images, sha256 of the file list). Metrics: number of classes, number of images of both parts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from relearn.data.class_folders import PARTS, files_of, root_of, sha256_of

NEEDS_TORCH = False


@dataclass(frozen=True, kw_only=True)
class Settings:
    dataset: str
    sha256: str | None


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    name = settings.dataset
    root = root_of(name)
    found, planned = sha256_of(root), settings.sha256
    if planned not in (None, found):
        raise ValueError(
            f"{root}: found other files than when the workflow was planned, allowed: the same; start again"
        )
    train, val = (files_of(root / part) for part in PARTS)
    listing = {
        "dataset": name,
        "classes": list(train),
        "train": _count(train),
        "val": _count(val),
        "sha256": found,
    }
    run.output("listing.json").write_text(json.dumps(listing, indent=1) + "\n", encoding="utf-8")
    run.finish(
        {
            "classes_count": float(len(train)),
            "train_count": float(_count(train)),
            "test_count": float(_count(val)),
        }
    )


def _count(files: dict[str, list[str]]) -> int:
    return sum(map(len, files.values()))
