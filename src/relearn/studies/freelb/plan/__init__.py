"""The runs of the study: sentence encoders fine-tuned by each method, the same methods on images, a check of the gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relearn.studies import vision
from relearn.studies.family import Family, Needs
from relearn.studies.freelb.plan.members import (
    COMPARED_ENCODER,
    Members,
    ensemble_runs,
    group_of,
    merged_cells,
    merged_names,
)
from relearn.studies.freelb.plan.settings import (
    finetune_settings,
    image_modules,
    image_settings,
    increase_settings,
    pretrain_settings,
    strategy_modules,
)

COMPARED = ("vanilla", "pgd", "freelb")
"""The methods whose networks table 3.5 compares."""
WORD = "[a-z_0-9]+"


def plan(params: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """The families of runs by step."""
    own, seeds = params["freelb"], params["freelb"]["seeds"]
    encoders, common = own["encoders"], own["finetune"]
    recipes = {(run["encoder"], run["name"]): run for run in common["runs"]}
    used = sorted({encoder for encoder, _ in recipes})

    # One encoder serves the fine-tunings of all seeds, as a published checkpoint would.
    pretrain = Family(
        study="freelb",
        step="pretrain_encoder",
        scale=scale,
        folder="{encoder}",
        cells=[{"encoder": name} for name in used if not encoders[name]["checkpoint"]],
        seeds=seeds[:1],
        settings=lambda encoder: pretrain_settings(own, encoder),
        modules=[f"relearn.data.{own['corpus']['dataset']}"],
        outputs={"history": "history.csv", "encoder": "encoder.safetensors"},
        needs=Needs(mem_mb=8000, minutes=1440),
    )

    def other_task(encoder: str, task: str, method: str, seed: str) -> str | list[str]:
        first = recipes[encoder, task]["init_from"]
        if not first:
            return []
        return finetune.path("network", encoder=encoder, task=first, method="vanilla", seed=seed)

    def pretrained(encoder: str, task: str, method: str, seed: str) -> str | list[str]:
        if recipes[encoder, task]["init_from"] or encoders[encoder]["checkpoint"]:
            return []
        return pretrain.path("encoder", encoder=encoder, seed=seeds[0])

    finetune = Family(
        study="freelb",
        step="finetune",
        scale=scale,
        folder="{encoder}/{task}/{method}",
        cells=[
            {"encoder": encoder, "task": name, "method": method}
            for (encoder, name), recipe in recipes.items()
            for method in recipe["methods"]
        ],
        seeds=seeds,
        inputs={"start": other_task, "encoder": pretrained},
        settings=lambda encoder, task, method: finetune_settings(own, recipes[encoder, task], method),
        modules=lambda encoder, task, method: strategy_modules(method),
        outputs={"history": "history.csv", "answers": "answers.csv", "network": "model.safetensors"},
        needs=Needs(
            mem_mb=40000 if any(encoders[name]["checkpoint"] for name in used) else 8000, minutes=1440
        ),
        constraints={"task": WORD, "method": WORD},
    )

    def compared_network(method: str) -> Any:
        return lambda encoder, task, seed: finetune.path(
            "network", encoder=encoder, task=task, method=method, seed=seed
        )

    increase = Family(
        study="freelb",
        step="max_loss_increase",
        scale=scale,
        folder="{encoder}/{task}",
        cells=[{"encoder": COMPARED_ENCODER, "task": name} for name in own["max_loss_increase"]["tasks"]],
        seeds=seeds,
        inputs={method: compared_network(method) for method in COMPARED},
        settings=lambda encoder, task: increase_settings(own, recipes[encoder, task]),
        outputs={"increases": "increases.csv"},
        needs=Needs(mem_mb=8000, minutes=1440),
        constraints={"task": WORD},
    )

    # Members of ensembles beyond the seeds of the tables, in folders of their own: they enter no median.
    further = {group: Members(own, group).family(finetune, recipes) for group in ("glue", "csqa")}

    def members(encoder: str, method: str) -> list[dict[str, Any]]:
        names = ensemble_runs(common["runs"], encoder, method)
        return [
            {"task": task, "name": name, "seed": seed}
            for task, name in names.items()
            for seed in Members(own, group_of(task)).seeds(encoder)
        ]

    def member_answers(encoder: str, method: str, seed: str) -> list[str]:
        return [
            (finetune if one["seed"] in seeds else further[group_of(one["task"])]).path(
                "answers", encoder=encoder, task=one["name"], method=method, seed=one["seed"]
            )
            for one in members(encoder, method)
        ]

    ensemble = Family(
        study="freelb",
        step="ensemble",
        scale=scale,
        folder="{encoder}/{method}",
        cells=[
            {"encoder": encoder, "method": method}
            for encoder in used
            for method in own["ensemble"]["methods"]
            if members(encoder, method)
        ],
        seeds=seeds[:1],
        inputs={"answers": member_answers},
        settings=lambda encoder, method: {"members": members(encoder, method)},
        outputs={"scores": "scores.csv", "submission": "submission.zip"},
        needs=Needs(mem_mb=4000, minutes=30, gpu=0),
        constraints={"method": WORD},
    )
    merge = Family(
        study="freelb",
        step="merge_scores",
        scale=scale,
        folder="{encoder}/{task}/{method}",
        cells=merged_cells(common["runs"]),
        seeds=seeds,
        inputs={
            "answers": lambda encoder, task, method, seed: [
                finetune.path("answers", encoder=encoder, task=name, method=method, seed=seed)
                for name in merged_names(task)
            ]
        },
        settings=lambda encoder, task, method: {"members": [{"task": name} for name in merged_names(task)]},
        outputs={"scores": "scores.csv"},
        needs=Needs(mem_mb=4000, minutes=30, gpu=0),
        constraints={"task": WORD, "method": WORD},
    )
    images = Family(
        study="freelb",
        step="train_images_adversarially",
        scale=scale,
        folder="{method}",
        cells=[{"method": method} for method in own["train_images_adversarially"]["methods"]],
        seeds=seeds,
        inputs={"data": vision.images_path(params, scale, "freelb")},
        settings=lambda method: image_settings(own["train_images_adversarially"], method),
        modules=lambda method: image_modules(own["train_images_adversarially"]["network"]["name"], method),
        outputs={"history": "history.csv", "answers": "answers.csv", "network": "weights.safetensors"},
        needs=Needs(mem_mb=8000, minutes=1440),
        constraints={"method": WORD},
    )
    gradient = Family(
        study="freelb",
        step="check_gradient",
        scale=scale,
        folder="",
        cells=[{}],
        seeds=[0],
        settings={},
        modules=strategy_modules("freelb"),
        outputs={"gradients": "gradients.csv"},
        needs=Needs(mem_mb=4000, minutes=30, gpu=0),
    )
    families = (
        vision.prepare_images(params, scale, "freelb"),
        pretrain,
        finetune,
        increase,
        ensemble,
        merge,
        images,
        gradient,
    )
    return {
        **{family.step: family for family in families},
        **{f"finetune_{group}_members": family for group, family in further.items()},
    }
