"""folder: which images a folder of classes holds, for runs that read them where they lie; nothing is copied.

settings: ``dataset`` (a folder of RELEARN_MIRROR, with ``{train,val}/<class>/<image>``) and ``sha256`` (of its file list, as the
workflow saw it when it was planned; null: any), so that a folder with other files is another run.
inputs: none. outputs: ``listing.json`` (classes, numbers of images, sha256 of the file list).
metrics: classes, images of both parts.

No torch here: the workflow asks for the file list's hash while it plans.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from relearn.data.class_folders import PARTS, files_of, root_of, sha256_of

NEEDS_TORCH = False


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


def _count(files: dict[str, list[str]]) -> int:
    return sum(map(len, files.values()))
