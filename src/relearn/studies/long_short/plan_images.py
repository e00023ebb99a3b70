"""Runs on images (zhu2022, section 5.3.3): training, patch similarity and throughput; and the counts for all networks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from relearn.layers.efficient import module_of as attention_module
from relearn.models.vision import modules_of
from relearn.studies import vision
from relearn.studies.family import Family, Needs
from relearn.studies.long_short.networks import NAMES, scaled

STUDY = "long_short"
COUNTED = {
    "lra": [
        attention_module(kind)
        for kind in ("full", "linformer", "performer", "nystromformer", "reformer", "dynamic")
    ],
    "language": [],
    "vision": ["relearn.models.cvt", "relearn.models.vil", "relearn.models.residual_vit"],
}
"""Family of networks → modules that its counts depend on, beyond those that the step imports."""


def recipe_of(train: Mapping[str, Any], network: str) -> dict[str, Any]:
    """The common recipe, with this network's own values substituted."""
    mine: Mapping[str, Any] = next((one for one in train["own"] if network in one["networks"]), {})
    changed = {key: value for key, value in mine.items() if key != "networks"}
    return {**{key: value for key, value in train.items() if key != "own"}, **changed}


def families(params: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """Families for images, training, patch similarity, throughput and counts."""
    planned = partial(Family, study=STUDY, scale=scale)
    own, folder = params[STUDY], vision.from_folder(params, STUDY)

    def sized(network: str) -> dict[str, Any]:
        return scaled(network, own["network"], published_windows=folder)

    def training(network: str) -> dict[str, Any]:
        arguments, recipe = sized(network), recipe_of(own["train"], network)
        if network != "ResNet-50":
            arguments["drop_path_rate"] = recipe["drop_path"]
        return {"network": arguments, **vision.recipe(params, STUDY, recipe)}

    def timing(network: str) -> dict[str, Any]:
        timed = own["throughput"]
        return {
            "network": sized(network),
            "against": sized(timed["against"]),
            "classes": 1000 if folder else 10,
            "modes": ["inference"],
            "memory": False,
            **{key: timed[key] for key in ("batch_size", "size")},
            "pairs": timed["repeats"],
        }

    train = vision.trainings(
        params,
        scale,
        STUDY,
        folder="{network}",
        cells=[{"network": name} for name in own["grid"]["networks"]],
        settings=training,
        modules=lambda network: vision.modules_behind(params, STUDY, NAMES[network]),
    )
    similarity = planned(
        step="patch_similarity",
        folder="{network}",
        cells=[{"network": name} for name in own["grid"]["similarity"]],
        seeds=own["seeds"],
        inputs={**train.inputs, "network": train.files["network"]},
        settings={"task": "folder" if folder else "images", **own["patch_similarity"]},
        modules=train.modules,
        outputs={"rows": "similarity.csv"},
        needs=Needs(mem_mb=8000, minutes=240),
    )
    throughput = planned(
        step="throughput",
        folder="{network}",
        cells=[{"network": name} for name in own["throughput"]["networks"]],
        seeds=[0],
        settings=timing,
        modules=lambda network: sorted(
            {
                *modules_of(NAMES[network]),
                *modules_of(NAMES[own["throughput"]["against"]]),
            }
        ),
        outputs={"times": "throughput.csv"},
        needs=Needs(mem_mb=16000, minutes=120),
    )
    count = planned(
        step="count_params_flops",
        folder="{family}",
        cells=[{"family": name} for name in own["count_params_flops"]["families"]],
        seeds=[0],
        settings=lambda family: {"family": family},
        modules=lambda family: COUNTED[family],
        outputs={"counts": "counts.csv"},
        needs=Needs(mem_mb=4000, minutes=30, gpu=0),
        constraints={"family": "|".join(COUNTED)},
    )
    return {
        "prepare_images": vision.prepare_images(params, scale, STUDY),
        "train_vision": train,
        "patch_similarity": similarity,
        "throughput": throughput,
        "count_params_flops": count,
    }
