"""The runs of the study: fine-tuning of sentence encoders with each method, the same methods on images, and a gradient check."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from relearn.studies import vision
from relearn.studies.family import Family, Needs
from relearn.studies.freelb.plan.members import (
    COMPARED_ENCODER,
    Members,
    decides,
    ensemble_runs,
    group_of,
    merged_cells,
    merged_names,
    seeds_of,
)
from relearn.studies.freelb.plan.second_encoder import repeated
from relearn.studies.freelb.plan.settings import (
    OFTEN,
    finetune_settings,
    image_modules,
    image_settings,
    increase_settings,
    pretrain_settings,
    strategy_modules,
    tuning_settings,
)

COMPARED = ("vanilla", "pgd", "freelb")
"""The methods whose networks table 3.5 compares."""
CHOSEN_BY = {"freelb_fresh_as_freelb": "freelb", **OFTEN}
"""Controls, and the method whose rate and radius they have."""
WORD, NUMBER = "[a-z_0-9]+", r"[0-9.e+-]+"
FINETUNED = {"history": "history.csv", "answers": "answers.csv", "network": "model.safetensors"}


def plan(params: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """The families of runs by step."""
    planned = partial(Family, study="freelb", scale=scale)
    own, seeds = params["freelb"], params["freelb"]["seeds"]
    encoders, common = own["encoders"], own["finetune"]
    recipes = {(run["encoder"], run["name"]): run for run in common["runs"]}
    used = sorted({encoder for encoder, _ in recipes})

    def pretrain_seeds(encoder: str) -> list[int]:
        second = common["second_encoder"]
        again = encoder == COMPARED_ENCODER and bool(second["tasks"])
        return [*seeds[:1], *[second["pretrain_seed"]] * again]

    # The fine-tunings of all seeds start from the same encoder, as they would from a published checkpoint.
    pretrain = planned(
        step="pretrain_encoder",
        folder="{encoder}",
        cells=[{"encoder": name} for name in used if not encoders[name]["checkpoint"]],
        seeds=seeds[:1],
        cell_seeds=pretrain_seeds,
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

    cells = [
        {"encoder": encoder, "task": name, "method": method}
        for (encoder, name), recipe in recipes.items()
        for method in recipe["methods"]
    ]
    decisive = common["decisive"]

    def candidates(encoder: str, task: str, method: str) -> list[dict[str, str]]:
        """The rates and radii to try for a method; vanilla training has no radius, and a control tries none of its own."""
        if method in CHOSEN_BY:
            return []
        radii = decisive["radii"][:1] if method == "vanilla" else decisive["radii"]
        return [
            {"encoder": encoder, "task": task, "method": method, "rate": f"{rate:g}", "radius": f"{radius:g}"}
            for rate in decisive["rates"]
            for radius in radii
            if decides(own, encoder, task)
        ]

    tune = planned(
        step="finetune",
        folder="tuning/{encoder}/{task}/{method}/rate{rate}/radius{radius}",
        cells=[candidate for cell in cells for candidate in candidates(**cell)],
        seeds=decisive["tuning_seeds"],
        labels={"task": lambda task, **_: f"{task}_tuning"},
        inputs={
            "encoder": lambda task, method, rate, radius, **run: pretrained(task=task, method=method, **run)
        },
        settings=lambda encoder, task, method, rate, radius: tuning_settings(
            own, recipes[encoder, task], method, float(rate), float(radius)
        ),
        modules=lambda method, **_: strategy_modules(method),
        outputs=FINETUNED,
        needs=Needs(mem_mb=8000, minutes=1440),
        constraints={"task": WORD, "method": WORD, "rate": NUMBER, "radius": NUMBER},
    )

    def tried(encoder: str, task: str, method: str, seed: str) -> list[str]:
        """The records used to choose rate and radius; they have separate seeds, so they are the same for every seed of a run."""
        return tune.paths(encoder=encoder, task=task, method=CHOSEN_BY.get(method, method))

    def run_seeds(encoder: str, task: str, **_: str) -> list[int]:
        return seeds_of(own, encoder, task)

    finetune = planned(
        step="finetune",
        folder="{encoder}/{task}/{method}",
        cells=cells,
        seeds=seeds,
        cell_seeds=run_seeds,
        inputs={"start": other_task, "encoder": pretrained, "tried": tried},
        settings=lambda encoder, task, method: finetune_settings(own, recipes[encoder, task], method),
        modules=lambda encoder, task, method: strategy_modules(method),
        outputs=FINETUNED,
        needs=Needs(
            mem_mb=40000 if any(encoders[name]["checkpoint"] for name in used) else 8000, minutes=1440
        ),
        constraints={"task": WORD, "method": WORD},
    )

    def compared_network(method: str) -> Any:
        return lambda encoder, task, seed: finetune.path(
            "network", encoder=encoder, task=task, method=method, seed=seed
        )

    increase = planned(
        step="max_loss_increase",
        folder="{encoder}/{task}",
        cells=[{"encoder": COMPARED_ENCODER, "task": name} for name in own["max_loss_increase"]["tasks"]],
        seeds=seeds,
        cell_seeds=run_seeds,
        inputs={method: compared_network(method) for method in COMPARED},
        settings=lambda encoder, task: increase_settings(own, recipes[encoder, task]),
        outputs={"increases": "increases.csv"},
        needs=Needs(mem_mb=8000, minutes=1440),
        constraints={"task": WORD},
    )

    # Ensemble members beyond the seeds of the tables have separate folders, so that they enter no median.
    further = {group: Members(own, group).family(finetune, recipes) for group in ("glue", "csqa")}

    def members(encoder: str, method: str) -> list[dict[str, Any]]:
        names = ensemble_runs(common["runs"], encoder, method)
        return [
            {"task": task, "name": name, "seed": seed}
            for task, name in names.items()
            for seed in Members(own, group_of(task)).seeds(encoder, name)
        ]

    def member_answers(encoder: str, method: str, seed: str) -> list[str]:
        return [
            (finetune if one["seed"] in seeds else further[group_of(one["task"])]).path(
                "answers", encoder=encoder, task=one["name"], method=method, seed=one["seed"]
            )
            for one in members(encoder, method)
        ]

    ensemble = planned(
        step="ensemble",
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
    merge = planned(
        step="merge_scores",
        folder="{encoder}/{task}/{method}",
        cells=merged_cells(common["runs"]),
        seeds=seeds,
        cell_seeds=lambda encoder, task, method: min(
            (seeds_of(own, encoder, name) for name in merged_names(task)), key=len
        ),
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
    images = planned(
        step="train_images_adversarially",
        folder="{method}",
        cells=[{"method": method} for method in own["train_images_adversarially"]["methods"]],
        seeds=seeds[: decisive["other_seeds"] or None],
        inputs={"data": vision.images_path(params, scale, "freelb")},
        settings=lambda method: image_settings(own["train_images_adversarially"], method),
        modules=lambda method: image_modules(own["train_images_adversarially"]["network"]["name"], method),
        outputs={"history": "history.csv", "answers": "answers.csv", "network": "weights.safetensors"},
        needs=Needs(mem_mb=8000, minutes=1440),
        constraints={"method": WORD},
    )
    gradient = planned(
        step="check_gradient",
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
        "tune_finetune": tune,
        **{f"finetune_{group}_members": family for group, family in further.items()},
        **repeated(own, pretrain, tune, finetune, increase),
    }
