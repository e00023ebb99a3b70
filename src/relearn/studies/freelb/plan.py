"""The runs of the study: sentence encoders fine-tuned by each method, the same methods on images, a check of the gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from relearn.methods.gradient_strategies import SPACES, STRATEGIES
from relearn.models import module_of as network_module
from relearn.studies import vision
from relearn.studies.family import Family, Needs

COMPARED = ("vanilla", "pgd", "freelb")
"""The methods whose networks table 3.5 compares."""
COMPARED_ENCODER = "roberta"
REFERENCES = ("freelb", "pgd")
"""The methods whose networks determine the radii of table 3.5; a radius favours the network that determines it."""
ARC = ("arc_easy", "arc_challenge")
"""The two sets of questions that ARC-Merge joins."""
GLUE = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")
SIZES = {"glue": "members", "csqa": "csqa_members"}
"""The key of ``ensemble`` that gives the size of a group's ensembles."""
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


class Members:
    """The members of the ensembles of a group of tasks (:func:`group_of`).

    The first are the runs of the tables; where an ensemble has more members than there are seeds, further runs are made.
    """

    def __init__(self, own: Mapping[str, Any], group: str) -> None:
        self.own, self.group = own, group

    def seeds(self, encoder: str) -> list[int]:
        """The seeds of the members; where the paper has no ensemble, those of the study."""
        seeds = list(self.own["seeds"])
        if encoder != COMPARED_ENCODER or self.group not in SIZES:
            return seeds
        count = self.own["ensemble"][SIZES[self.group]]
        more = range(max(seeds) + 1, max(seeds) + 1 + count - len(seeds))
        return [*seeds, *more][:count]

    def family(self, finetune: Family, recipes: Mapping[tuple[str, str], Mapping[str, Any]]) -> Family:
        """The further runs, and the plain fine-tunings whose networks they start from; none where the seeds suffice.

        Their label ``task`` ends in ``_member``, so that no table of medians shows them.
        """
        runs = list(recipes.values())
        cells: list[dict[str, str]] = []
        for method in self.own["ensemble"]["methods"]:
            for task, name in ensemble_runs(runs, COMPARED_ENCODER, method).items():
                by = method
                while name and group_of(task) == self.group:
                    cell = {"encoder": COMPARED_ENCODER, "task": name, "method": by}
                    cells += [] if cell in cells else [cell]
                    name, by = recipes[COMPARED_ENCODER, name]["init_from"], "vanilla"
        further = self.seeds(COMPARED_ENCODER)[len(self.own["seeds"]) :]

        def start(encoder: str, task: str, method: str, seed: str) -> str | list[str]:
            first = recipes[encoder, task]["init_from"]
            if not first:
                return []
            return family.path("network", encoder=encoder, task=first, method="vanilla", seed=seed)

        family = replace(
            finetune,
            folder=f"{{encoder}}/{self.group}_members/{{task}}/{{method}}",
            cells=cells if further else [],
            seeds=further or [max(self.own["seeds"]) + 1],
            inputs={**finetune.inputs, "start": start},
            labels={"task": lambda encoder, task, method: f"{task}_member"},
        )
        return family


def group_of(task: str) -> str:
    """``glue`` or ``csqa``, whose ensembles have a size of their own; empty for a task without a published ensemble."""
    return "glue" if task.removesuffix("_pairs") in GLUE else "csqa" if task == "csqa" else ""


def merged_cells(runs: list[dict[str, Any]]) -> list[dict[str, str]]:
    """ARC-Merge: encoder, name and method for which both of its sets have a run; the name follows theirs (``arc_joint``)."""
    made = {(run["encoder"], run["name"], method) for run in runs for method in run["methods"]}
    return [
        {"encoder": encoder, "task": "arc" + name.removeprefix(ARC[0]), "method": method}
        for encoder, name, method in sorted(made)
        if name.startswith(ARC[0]) and (encoder, ARC[1] + name.removeprefix(ARC[0]), method) in made
    ]


def merged_names(task: str) -> list[str]:
    """The runs behind a name of :func:`merged_cells`."""
    return [name + task.removeprefix("arc") for name in ARC]


def encoder_sizes(own: Mapping[str, Any], encoder: str) -> dict[str, Any]:
    """The sizes of an encoder; only ALBERT's embeddings have a width of their own."""
    sizes = {key: value for key, value in own["encoders"][encoder].items() if key != "checkpoint"}
    if encoder != "albert":
        del sizes["embedding_dim"]
    return {"family": encoder, **sizes}


def pretrain_settings(own: Mapping[str, Any], encoder: str) -> dict[str, Any]:
    """Settings of `pretrain_encoder`. In params.yaml a ``clip_norm`` of 0 means none."""
    recipe = dict(own["pretrain_encoder"])
    return {
        "encoder": encoder_sizes(own, encoder),
        "corpus": dict(own["corpus"]),
        "mask_frac": recipe.pop("mlm_probability"),
        "clip_norm": recipe.pop("clip_norm") or None,
        **recipe,
    }


def strategy_settings(name: str, recipe: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    """The gradient strategy behind a method of params.yaml.

    ``freelb_fresh`` draws new dropout masks in every pass. ``yopo_n`` takes n inner steps of size ``step_size`` / n,
    ``yopo_n_whole`` of size ``step_size``.
    """
    kind = strategy_of(name)
    if kind == "vanilla":
        return {"kind": "vanilla"}
    method = {
        "kind": kind,
        **{key: recipe[key] for key in ("passes", "step_size", "start_norm", "project")},
        "eps": recipe["eps"] if recipe["project"] else None,
        "mask": common["mask"],
    }
    if kind in ("freelb", "yopo", "pgd"):
        method["reuse_masks"] = name != "freelb_fresh"
    if kind == "freelb":
        method["clean_first"] = common["clean_first"]
    if kind == "yopo":
        method["inner"] = int(name.split("_")[1])
        method["inner_step"] = "whole" if name.endswith("_whole") else "divided"
    return method


def strategy_of(name: str) -> str:
    """The key of STRATEGIES behind a method of params.yaml."""
    return name.partition("_")[0] if name.startswith(("freelb", "yopo")) else name


def strategy_modules(name: str) -> list[str]:
    """The module of a method of params.yaml; none for plain training."""
    kind = strategy_of(name)
    return [] if kind == "vanilla" else [STRATEGIES[kind].partition(":")[0]]


def finetune_settings(own: Mapping[str, Any], recipe: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Settings of `finetune`. A network of MNLI also answers GLUE's diagnostic set, ``ax``."""
    encoder, common = recipe["encoder"], own["finetune"]
    same = (
        "max_length",
        "steps",
        "warmup_steps",
        "batch_size",
        "lr",
        "weight_decay",
        "dropout",
        "attention_dropout",
    )
    return {
        "encoder": {**encoder_sizes(own, encoder), "checkpoint": own["encoders"][encoder]["checkpoint"]},
        "task": recipe["task"],
        "samples": {part: recipe[f"{part}_samples"] for part in ("train", "dev", "test")},
        "method": strategy_settings(method, recipe, common),
        **{key: recipe[key] for key in same},
        "with_tasks": recipe["joint_tasks"],
        "accumulate": recipe["gradient_accumulation_steps"],
        "clip_norm": recipe["clip_norm"] or None,
        **{key: common[key] for key in ("schedule", "betas", "adam_eps", "evaluations")},
        **({"answered": ["ax"]} if recipe["task"] == "mnli" else {}),
    }


def increase_settings(own: Mapping[str, Any], recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of `max_loss_increase`."""
    search = {key: value for key, value in own["max_loss_increase"].items() if key != "tasks"}
    return {
        "task": recipe["task"],
        "max_length": recipe["max_length"],
        "references": list(REFERENCES),
        "shrink": search.pop("radius_decay"),
        "starts": search.pop("restarts"),
        **search,
    }


def ensemble_runs(recipes: list[dict[str, Any]], encoder: str, method: str) -> dict[str, str]:
    """The fine-tuning that an ensemble uses for each task.

    Of several, one that starts from another task's network is preferred, and a choice between sentences to their pairs, as in
    the submission of the paper (section 3.5.1).
    """
    chosen: dict[str, Mapping[str, Any]] = {}
    for recipe in recipes:
        if recipe["encoder"] != encoder or method not in recipe["methods"]:
            continue
        own = recipe["task"].removesuffix("_pairs")
        if own not in chosen or _preferred(recipe) > _preferred(chosen[own]):
            chosen[own] = recipe
    return {recipe["task"]: recipe["name"] for recipe in chosen.values()}


def _preferred(recipe: Mapping[str, Any]) -> tuple[bool, bool]:
    return not recipe["task"].endswith("_pairs"), bool(recipe["init_from"]) and not recipe["joint_tasks"]


def image_settings(own: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Settings of `train_images_adversarially`; ``eps`` is a bound only where perturbations are projected."""
    strategy: dict[str, Any] = {"kind": "vanilla"}
    if method != "vanilla":
        strategy = {"kind": method, **own["perturbation"]}
        strategy["eps"] = strategy["eps"] if strategy["project"] else None
    return {**{key: dict(own[key]) for key in ("network", "train", "attack")}, "method": strategy}


def image_modules(network: str, method: str) -> list[str]:
    """The modules behind a run on images: its network, its method, and the space in which the method perturbs."""
    strategy = strategy_modules(method)
    return [network_module(network), *strategy, *([SPACES["pixels"].partition(":")[0]] if strategy else [])]
