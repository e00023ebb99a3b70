"""The data of the study: images, a listing of the ImageNet folder, and a corpus in byte-pair units."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from relearn.data import CORPORA, module_of
from relearn.data.class_folders import root_of, sha256_of
from relearn.studies import vision
from relearn.studies.family import Family, Needs


def families(params: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """The families that prepare data.

    The listing of the ImageNet folder is a run of this study only if this study trains on ImageNet. Other studies request the
    listing's file.
    """
    planned = partial(Family, study="gradinit", scale=scale)
    own = params["gradinit"]

    def listing_settings(dataset: str) -> dict[str, Any]:
        return {"dataset": dataset, "sha256": _sha256_of(dataset, last=Path(listing.path(dataset=dataset)))}

    listing = planned(
        step="list_imagenet",
        folder="{dataset}",
        cells=[{"dataset": vision.FOLDER}] if any(own["imagenet"]["networks"].values()) else [],
        settings=listing_settings,
        outputs={"listing": "listing.json"},
        needs=Needs(mem_mb=4000, minutes=60, gpu=0),
        constraints={"dataset": vision.FOLDER},
    )
    corpus = planned(
        step="prepare_translation",
        folder="{dataset}",
        cells=[{"dataset": own["corpus"]["dataset"]}],
        settings=own["corpus"],
        modules=lambda dataset: [module_of(dataset, CORPORA, "corpus")],
        outputs={"corpus": "corpus.safetensors"},
        needs=Needs(mem_mb=4000, minutes=30, gpu=0),
    )
    return {
        "prepare_images": vision.prepare_images(params, scale, "gradinit"),
        "list_imagenet": listing,
        "prepare_translation": corpus,
    }


def _sha256_of(dataset: str, last: Path) -> str | None:
    """The hash of a folder's file list; if the images are not available, the hash in the last record, which then stays valid."""
    try:
        return sha256_of(root_of(dataset))
    except ValueError:
        return json.loads(last.read_text())["settings"]["sha256"] if last.exists() else None
