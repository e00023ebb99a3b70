"""The runs of the study: bounds checked case by case, and networks with either attention and either head, trained and evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from relearn.data import OUTLIERS
from relearn.studies import vision
from relearn.studies.family import Family, Needs

STUDY = "lrformer"
ATTENTIONS = {"dot": "dot_product", "lrsa": "lrsa"}
POOLED: dict[str, dict[str, Any]] = {
    "mean": {"class_token": "mean"},
    "mean_no_norm": {"class_token": "mean", "final_norm": False},
}
"""What a variant's name says behind attention and head: the head reads the mean of the patches instead of the class token, and without
LayerNorm behind the last block. Controls: only without this norm can an image far from the data have features far from the data's."""
PRETRAINED = "_pretrained"
"""Behind the name of a variant that starts from weights pre-trained on ImageNet."""
DEEP = "12"
"""Blocks of the networks that table 1 pre-trains."""


def plan(params: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """The families of runs, by step."""
    planned = partial(Family, study=STUDY, scale=scale)
    own = params[STUDY]
    grid, sizes, doubt = own["grid"], own["network"], own["uncertainty"]
    cells = [
        {"variant": variant, "depth": str(depth)} for variant in grid["variants"] for depth in grid["depths"]
    ]
    cells += [{"variant": f"{variant}{PRETRAINED}", "depth": DEEP} for variant in grid["pretrained"]]

    def theorem_settings(protocol: str) -> dict[str, Any]:
        found = dict(own["examine"][protocol])
        if "scales" in found:
            found["spreads"] = [1.0, *found.pop("scales")]  # the reference for the others comes first
        return {"protocol": protocol, **found}

    def network_of(variant: str, depth: str) -> dict[str, Any]:
        attention, head, *pooled = variant.removesuffix(PRETRAINED).split("_", 2)
        network = {
            "name": f"lrformer_depth{depth}",
            "embed_dim": sizes["dim"],
            "num_heads": sizes["heads"],
            **{key: sizes[key] for key in ("patch_size", "start_std", "position_std")},
            "drop_path_rate": own["train"]["drop_path"],
            "attention": ATTENTIONS[attention],
            "attention_maps": sizes["maps"],
            "head": head,
            **(POOLED[pooled[0]] if pooled else {}),
        }
        if attention == "lrsa":
            network["lrsa_alpha"] = sizes["lrsa_alpha"]
        if head == "gp":
            network["gp"] = dict(sizes["gp"])
        return network

    def settings(variant: str, depth: str) -> dict[str, Any]:
        optimiser = grid["optimisers"][f"depth_{depth}"]
        recipe = vision.recipe(params, STUDY, own["train"], **optimiser)
        return {"network": network_of(variant, depth), **recipe}

    def pretraining(network: str) -> dict[str, Any]:
        optimiser = grid["optimisers"][f"depth_{DEEP}_pretraining"]
        recipe = vision.recipe(params, STUDY, own["train"], folder=True, **optimiser)
        return {"network": network_of(network, DEEP), **recipe}

    theorems = planned(
        step="check_theorems",
        folder="{protocol}",
        cells=[{"protocol": protocol} for protocol in own["examine"]],
        seeds=own["seeds"],
        settings=theorem_settings,
        outputs={"cases": "cases.csv"},
        needs=Needs(mem_mb=4000, minutes=60, gpu=0),
    )
    pretrain = planned(
        step="train_vision",
        folder="pretraining/{network}",  # no label `variant`, so that no claim mistakes it for a CIFAR-10 run
        cells=[{"network": variant} for variant in grid["pretrained"]],
        seeds=own["seeds"],
        inputs={"data": vision.listing_path(scale)},
        settings=pretraining,
        modules=["relearn.steps.tasks.folder", *vision.modules_of("lrformer_depth12")],
        outputs=vision.TRAINED,
        needs=vision.folder_needs(own["train"]["gpus"]),
    )

    def weights(variant: str, depth: str, seed: str) -> list[str]:
        if not variant.endswith(PRETRAINED):
            return []
        return [pretrain.path("network", network=variant.removesuffix(PRETRAINED), seed=seed)]

    train = vision.trainings(
        params,
        scale,
        STUDY,
        folder="{variant}/depth{depth}",
        cells=cells,
        inputs={"weights": weights},
        settings=settings,
        modules=vision.modules_behind(params, STUDY, "lrformer_depth12"),
        constraints={"variant": "(?!pretraining)[a-z_]+", "depth": r"\d+"},
    )
    evaluate = planned(
        step="evaluate_uncertainty",
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
        # only the out-of-distribution sets of params.yaml
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
        "pretrain_vision": pretrain,
        "train_vision": train,
        "evaluate_uncertainty": evaluate,
    }
