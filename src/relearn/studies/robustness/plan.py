"""The runs of the study: each network of `long_short` named in params.yaml, on corrupted, attacked and derived images."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relearn.studies import vision
from relearn.studies.family import Family, Needs
from relearn.studies.study import load

STUDY, TRAINED_BY = "robustness", "long_short"


def plan(params: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """Families of runs by step."""
    own = params[STUDY]["withstand"]
    trained = load(TRAINED_BY).part("plan").plan(params, scale)["train_vision"]
    pattern = f"results/{scale}/runs/{STUDY}/evaluate_robustness/{{network}}/seed{{seed}}/sets.csv"

    def reference(network: str, seed: str) -> list[str]:
        """Errors of mCE's reference network; empty for that network itself, or if it or no corrupted image is evaluated."""
        name = own["reference"]
        corrupted = bool(own["corruptions"] or own["sets"]["c"])
        known = corrupted and network != name and name in own["networks"]
        return [pattern.format(network=name, seed=seed)] if known else []

    checkpoints = {one["network"]: one for one in own["checkpoints"]}

    def weights(network: str, seed: str) -> str:
        """The weights from our own training, or a released checkpoint, which is the same for every seed."""
        if network in checkpoints:
            return str(Path(os.environ.get("RELEARN_MIRROR", "")) / checkpoints[network]["file"])
        return trained.path("network", network=network, seed=seed)

    def described(network: str) -> dict[str, Any] | None:
        """Description of a checkpoint's network; None for our own files, which contain their description."""
        one = checkpoints.get(network)
        return one and {"name": one["name"], "classes": 1000, "average": one["average"]}

    apart = ("networks", "reference", "checkpoints")
    named = {key: value for key, value in own.items() if key not in apart}
    sets = {name: folder for name, folder in own["sets"].items() if folder}
    pgd = dict(own["pgd"])
    evaluate = Family(
        study=STUDY,
        step="evaluate_robustness",
        scale=scale,
        folder="{network}",
        cells=[{"network": name} for name in own["networks"]],
        seeds=params[TRAINED_BY]["seeds"],
        inputs={
            "data": vision.images_path(params, scale, TRAINED_BY),
            "network": weights,
            "reference": reference,
        },
        settings=lambda network: {
            **named,
            "sets": sets,
            "protocol": dict(own["protocol"]) if sets else None,
            "pgd": pgd if pgd["images"] else None,
            "autoattack": None,
            "network": described(network),
        },
        modules=lambda network: [
            one for one in trained.modules_of(network=network) if not one.startswith("relearn.steps")
        ],
        outputs={"sets": "sets.csv", "attacks": "attacks.csv", "bad": "bad_images.csv"},
        needs=Needs(mem_mb=12000, minutes=1440),
    )
    return {"evaluate_robustness": evaluate}
