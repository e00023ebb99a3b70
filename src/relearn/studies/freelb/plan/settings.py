"""Settings and modules of the steps, from the study's section of params.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relearn.methods.gradient_strategies import SPACES, STRATEGIES
from relearn.models import module_of as network_module
from relearn.studies.freelb.plan.members import decides

REFERENCES = ("freelb", "pgd")
"""The methods whose networks determine the radii of table 3.5; a radius favours the network that determines it."""
OFTEN = {"vanilla_as_often_as_free_at": "vanilla", "free_at_as_often_as_freelb": "free_at"}
"""Controls with as many updates as another method, and the methods behind them: FreeAT updates the network after every pass, the others
once a minibatch."""


def encoder_sizes(own: Mapping[str, Any], encoder: str) -> dict[str, Any]:
    """The sizes of an encoder; only ALBERT has a separate embedding width."""
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

    ``freelb_fresh`` draws new dropout masks in every pass. ``freelb_wide`` and ``freelb_fresh_wide`` multiply radius, step size and
    start norm by ``wide``: the attack with a shared mask is stronger than with fresh masks, so each may need its own radius.
    ``freelb_fresh_as_freelb`` has the rate and radius that ``freelb`` chooses: the control for a comparison of methods that each choose.
    The methods of :data:`OFTEN` have the rate and radius that the method behind them chooses; on the second encoder they search
    themselves. ``pgd_as_freelb`` and ``freelb_as_pgd``, which are run there only, have the rate and radius that the other one chooses there.
    ``yopo_n`` takes n inner steps of size ``step_size`` / n, and ``yopo_n_whole`` n inner steps of size ``step_size``.
    """
    kind = strategy_of(name)
    if kind == "vanilla":
        return {"kind": "vanilla"}
    factor = common["wide"] if name.endswith("_wide") else 1.0
    method = {
        "kind": kind,
        **{key: recipe[key] for key in ("passes", "project")},
        **{key: factor * recipe[key] for key in ("step_size", "start_norm")},
        "eps": factor * recipe["eps"] if recipe["project"] else None,
        "mask": common["mask"],
    }
    if kind in ("freelb", "yopo", "pgd"):
        method["reuse_masks"] = not name.startswith("freelb_fresh")
    if kind == "freelb":
        method["clean_first"] = common["clean_first"]
    if kind == "yopo":
        method["inner"] = int(name.split("_")[1])
        method["inner_step"] = "whole" if name.endswith("_whole") else "divided"
    return method


def strategy_of(name: str) -> str:
    """The key of STRATEGIES behind a method of params.yaml."""
    return name.partition("_")[0] if name.startswith(("freelb", "yopo", "pgd")) else OFTEN.get(name, name)


def strategy_modules(name: str) -> list[str]:
    """The module of a method of params.yaml; none for vanilla training."""
    kind = strategy_of(name)
    return [] if kind == "vanilla" else [STRATEGIES[kind].partition(":")[0]]


def finetune_settings(own: Mapping[str, Any], recipe: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Settings of `finetune`. An MNLI network also answers GLUE's diagnostic set, ``ax``.

    FreeAT makes ``passes`` times as many updates as the other methods; its learning rate is ``free_at_rate`` times theirs. The methods of
    :data:`OFTEN` change the number of minibatches instead, of the training and of its warm-up: ``passes`` times as many without
    perturbations, and one ``passes``-th with FreeAT.
    """
    encoder, common = recipe["encoder"], own["finetune"]
    apart = common["decisive"]["held_out"] if decides(own, encoder, recipe["name"]) else 0
    same = (
        "max_length",
        "batch_size",
        "lr",
        "weight_decay",
        "dropout",
        "attention_dropout",
    )
    return {
        "encoder": {**encoder_sizes(own, encoder), "checkpoint": own["encoders"][encoder]["checkpoint"]},
        "task": recipe["task"],
        "samples": {
            **{part: recipe[f"{part}_samples"] for part in ("train", "dev", "test")},
            **({"held_out": apart} if apart else {}),
        },
        "method": strategy_settings(method, recipe, common),
        **{key: recipe[key] for key in same},
        **_minibatches(recipe, method),
        "lr": recipe["lr"] * (common["free_at_rate"] if strategy_of(method) == "free_at" else 1.0),
        "with_tasks": recipe["joint_tasks"],
        "accumulate": recipe["gradient_accumulation_steps"],
        "clip_norm": recipe["clip_norm"] or None,
        **{key: common[key] for key in ("schedule", "betas", "adam_eps", "evaluations")},
        **({"answered": ["ax"]} if recipe["task"] == "mnli" else {}),
    }


def _minibatches(recipe: Mapping[str, Any], method: str) -> dict[str, int]:
    """The number of minibatches of a training and of its warm-up."""
    both = {key: recipe[key] for key in ("steps", "warmup_steps")}
    if method not in OFTEN:
        return both
    times = recipe["passes"] if OFTEN[method] == "vanilla" else 1 / recipe["passes"]
    return {key: round(times * count) for key, count in both.items()}


def tuning_settings(
    own: Mapping[str, Any], recipe: Mapping[str, Any], method: str, rate: float, radius: float
) -> dict[str, Any]:
    """Settings of a `finetune` run that tries the given rate, with step size, start norm and eps of the recipe times ``radius``."""
    ball = {key: radius * recipe[key] for key in ("step_size", "start_norm", "eps")}
    return {**finetune_settings(own, {**recipe, **ball}, method), "lr": rate}


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


def image_settings(own: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Settings of `train_images_adversarially`; ``eps`` is None unless perturbations are projected."""
    strategy: dict[str, Any] = {"kind": "vanilla"}
    if method != "vanilla":
        strategy = {"kind": method, **own["perturbation"]}
        strategy["eps"] = strategy["eps"] if strategy["project"] else None
    return {**{key: dict(own[key]) for key in ("network", "train", "attack")}, "method": strategy}


def image_modules(network: str, method: str) -> list[str]:
    """The modules used by a run on images: those of the network, of the method, and of the space of its perturbations."""
    strategy = strategy_modules(method)
    return [network_module(network), *strategy, *([SPACES["pixels"].partition(":")[0]] if strategy else [])]
