"""The runs of the study: counts, theorems case by case, trained networks, without and with a constraint, throughput, and trained
networks on ImageNet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from relearn.studies import vision
from relearn.studies.family import Family, Needs
from relearn.studies.lipsformer.networks import ABLATED, BASE, CHANGES, RIVALS, modules_of_counted, pyramid

STUDY = "lipsformer"
PAIRS = "pairs"  # the suite of trainings with and without Lipschitz-continuous parts
THEOREMS = ["relearn.studies.lipsformer.steps.theorems"]


def plan(params: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """The families of runs; activations are a separate family, because their runs write an additional file."""
    planned = partial(Family, study=STUDY, scale=scale)
    own = params[STUDY]
    seeds, train, rivals = own["seeds"], _train(params, scale), own["count"]["rivals"]
    theorem_needs = Needs(mem_mb=4000, minutes=60, gpu=0)
    count = planned(
        step="count_params_flops",
        folder="{network}",
        cells=[{"network": name} for name in [*own["count"]["networks"], *([RIVALS] if rivals else [])]],
        seeds=seeds[:1],
        settings=lambda network: {"networks": rivals} if network == RIVALS else {"network": network},
        modules=modules_of_counted,
        outputs={"counts": "counts.csv"},
        needs=Needs(mem_mb=4000, minutes=30, gpu=0),
    )
    theorems = planned(
        step="check_theorems",
        folder="{protocol}",
        cells=[{"protocol": name} for name in own["examine"] if name != "activations"],
        seeds=seeds,
        settings=lambda protocol: {"protocol": protocol, **own["examine"][protocol]},
        modules=[*THEOREMS, "relearn.models.lipsformer"],
        outputs={"cases": "cases.csv"},
        needs=theorem_needs,
        constraints={"protocol": "(?!activations)[a-z_0-9]+"},
    )
    activations = planned(
        step="check_theorems",
        folder="activations",
        cells=[{}],
        seeds=seeds,
        labels={"protocol": "activations"},
        settings={"protocol": "activations", **own["examine"]["activations"]},
        modules=THEOREMS,
        outputs={"cases": "cases.csv", "curves": "curves.csv"},
        needs=theorem_needs,
    )
    throughput = planned(
        step="throughput",
        folder="{network}",
        cells=[{"network": name} for name in own["throughput"]["networks"]],
        seeds=seeds[:1],
        settings=lambda network: {
            "network": network,
            **{key: own["throughput"][key] for key in ("batch_size", "size", "pairs")},
        },
        modules=["relearn.models.lipsformer"],
        outputs={"times": "throughput.csv"},
        needs=Needs(mem_mb=16000, minutes=120),
    )
    return {
        "prepare_images": vision.prepare_images(params, scale, STUDY),
        "count_params_flops": count,
        "check_theorems": theorems,
        "check_activations": activations,
        "train_vision": train,
        "train_constrained": _train_constrained(params, train),
        "throughput": throughput,
        "evaluate_imagenet": _evaluate_imagenet(params, scale, train),
    }


def _train(params: Mapping[str, Any], scale: str) -> Family:
    own = params[STUDY]
    grid = own["grid"]
    averaged = all(size["average"] for size in grid["sizes"].values())

    def network_of(suite: str, variant: str) -> tuple[str, dict[str, Any]]:
        return pyramid(ABLATED if suite == "ablation" else variant, own["network"])

    def settings(suite: str, variant: str) -> dict[str, Any]:
        name, arguments = network_of(suite, variant)
        size = grid["sizes"][(ABLATED if suite == "ablation" else variant).rsplit("-", 1)[1]]
        changed = {
            "lr": own["train"]["lr"] * size["lr"],
            "weight_decay": size["weight_decay"],
            "average": size["average"],
            "betas": size["betas"],
        }
        if suite == "ablation":
            base = grid["ablation"]["base"]
            numbers = {"alpha": base["alpha"], "drop_path_rate": base["drop_path"]}
            arguments = {**arguments, **BASE, **numbers, **CHANGES[variant]}
            changed["epochs"] = grid["ablation"]["epochs"]
            if variant == "warmup":
                changed["warmup_epochs"] = grid["ablation"]["warmup_epochs"]
        else:
            arguments = {**arguments, "drop_path_rate": size["drop_path"]}
            if not variant.startswith("LipsFormer-"):
                changed["warmup_epochs"] = grid["pairs"]["warmup_epochs"]
        recipe = vision.recipe(params, STUDY, own["train"], **changed)
        return {
            "network": {"name": name, **arguments},
            **recipe,
            **({"average_file": True} if averaged else {}),
        }

    def seeds(suite: str, variant: str) -> list[int]:
        more = grid["ablation"]["extra_seeds"]
        return [
            *own["seeds"],
            *(more["seeds"] if suite == "ablation" and variant in more["variants"] else []),
        ]

    cells = [{"suite": "ablation", "variant": name} for name in grid["ablation"]["variants"]]
    pairs = [*grid["pairs"]["networks"], *grid["constrained"]["networks"]]  # a network twice is one run
    cells += [{"suite": PAIRS, "variant": name} for name in pairs]
    return vision.trainings(
        params,
        scale,
        STUDY,
        folder="{suite}/{variant}",
        cells=cells,
        cell_seeds=seeds,
        settings=settings,
        modules=lambda suite, variant: vision.modules_behind(params, STUDY, network_of(suite, variant)[0]),
        outputs=vision.TRAINED | (vision.AVERAGED if averaged else {}),
        constraints={"suite": "ablation|pairs"},
    )


def _train_constrained(params: Mapping[str, Any], train: Family) -> Family:
    """Networks trained under a constraint, each compared with the one of the pairs that is trained without."""
    own = params[STUDY]["grid"]["constrained"]
    constraint = {key: own[key] for key in ("bound", "kind", "method")}
    free = train.files["network"].replace("{suite}", PAIRS)
    return replace(
        train,
        step="train_constrained",
        folder="{variant}",
        cells=[{"variant": name} for name in own["networks"]],
        cell_seeds=None,
        labels={"suite": PAIRS},  # so that the images come in the order of the pairs
        inputs={**train.inputs, "free": free},
        settings=lambda variant: {
            **train.settings_of(suite=PAIRS, variant=variant),
            "constraint": constraint,
        },
        modules=lambda variant: train.modules_of(suite=PAIRS, variant=variant),
        constraints={},
    )


def _evaluate_imagenet(params: Mapping[str, Any], scale: str, train: Family) -> Family:
    own = params[STUDY]["retest"]
    keys = ("size", "crop_ratio", "interpolation", "average", "batch_size", "test_images")

    def name_of(variant: str) -> str:
        return pyramid(variant, params[STUDY]["network"])[0]

    return Family(
        study=STUDY,
        step="evaluate_imagenet",
        scale=scale,
        folder="{variant}",
        cells=[{"variant": name} for name in own["networks"]],
        seeds=params[STUDY]["seeds"],
        inputs={
            "weights": train.files["averaged" if own["average"] and own["networks"] else "network"].replace(
                "{suite}", PAIRS
            )
        },
        settings=lambda variant: {
            "network": {"name": name_of(variant)},
            "classes": 1000,
            "val": "imagenet/val",
            "v2": "imagenetv2-matched-frequency-format-val",
            "real": True,
            **{key: own[key] for key in keys},
        },
        modules=lambda variant: vision.modules_of(name_of(variant)),
        outputs={"sets": "retest.csv"},
        needs=Needs(mem_mb=12000, minutes=240, threads=8),
    )
