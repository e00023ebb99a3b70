"""The runs of the study: bounds checked case by case, and networks with either attention and either head, trained and evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relearn.data import OUTLIERS
from relearn.studies import vision
from relearn.studies.family import Family, Needs

STUDY = "lrformer"
ATTENTIONS = {"dot": "dot_product", "lrsa": "lrsa"}


def plan(params: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """The families of runs by step."""
    own = params[STUDY]
    grid, sizes, doubt = own["grid"], own["network"], own["uncertainty"]
    cells = [
        {"variant": variant, "depth": str(depth)} for variant in grid["variants"] for depth in grid["depths"]
    ]

    def theorem_settings(protocol: str) -> dict[str, Any]:
        found = dict(own["examine"][protocol])
        if "scales" in found:
            found["spreads"] = [1.0, *found.pop("scales")]  # the reference for the others comes first
        return {"protocol": protocol, **found}

    def settings(variant: str, depth: str) -> dict[str, Any]:
        attention, head = variant.split("_")
        network = {
            "name": f"lrformer_depth{depth}",
            "embed_dim": sizes["dim"],
            "num_heads": sizes["heads"],
            **{key: sizes[key] for key in ("patch_size", "start_std", "position_std")},
            "drop_path_rate": own["train"]["drop_path"],
            "attention": ATTENTIONS[attention],
            "head": head,
        }
        if attention == "lrsa":
            network["lrsa_alpha"] = sizes["lrsa_alpha"]
        if head == "gp":
            network["gp"] = dict(sizes["gp"])
        optimiser = grid["optimisers"][f"depth_{depth}"]
        return {"network": network, **vision.recipe(params, STUDY, own["train"], **optimiser)}

    theorems = Family(
        study=STUDY,
        step="check_theorems",
        scale=scale,
        folder="{protocol}",
        cells=[{"protocol": protocol} for protocol in own["examine"]],
        seeds=own["seeds"],
        settings=theorem_settings,
        outputs={"cases": "cases.csv"},
        needs=Needs(mem_mb=4000, minutes=60, gpu=0),
    )
    train = Family(
        study=STUDY,
        step="train_vision",
        scale=scale,
        folder="{variant}/depth{depth}",
        cells=cells,
        seeds=own["seeds"],
        inputs={"data": vision.images_path(params, scale, STUDY)},
        settings=settings,
        modules=vision.modules_behind(params, STUDY, "lrformer_depth12"),
        outputs=vision.TRAINED,
        needs=vision.training_needs(params, STUDY),
        constraints={"depth": r"\d+"},
    )
    evaluate = Family(
        study=STUDY,
        step="evaluate_uncertainty",
        scale=scale,
        folder="{variant}/depth{depth}",
        cells=cells,
        seeds=own["seeds"],
        inputs={"data": vision.images_path(params, scale, STUDY), "network": train.files["network"]},
        settings={
            "sets": doubt["sets"],
            "bins": doubt["bins"],
            "test_images": doubt["images"],
            "distances": doubt["distances"],
        },
        # the out-of-distribution sets of params.yaml and no others
        modules=[
            "relearn.models.residual_vit",
            *(OUTLIERS[name].partition(":")[0] for name in doubt["sets"]),
        ],
        outputs={
            "calibration": "calibration.csv",
            "ood": "ood.csv",
            "distances": "distance.csv",
            "scores": "scores.csv",
        },
        needs=Needs(mem_mb=8000, minutes=120),
        constraints={"depth": r"\d+"},
    )
    return {
        "prepare_images": vision.prepare_images(params, scale, STUDY),
        "check_theorems": theorems,
        "train_vision": train,
        "evaluate_uncertainty": evaluate,
    }
