"""Runs on the Long Range Arena (zhu2022, section 5.3.1): tasks, one encoder per attention, and the cost of attention."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from relearn.data import module_of as images_module
from relearn.data.lra import TASKS
from relearn.layers.efficient import module_of as attention_module
from relearn.studies.family import Family, Needs

STUDY = "long_short"
TASK = {"task": "|".join(TASKS)}
ATTENTION = "[A-Za-z0-9_]+"


def families(params: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """Families for preparing the tasks, choosing rates, training on them, and two benchmarks."""
    planned = partial(Family, study=STUDY, scale=scale)
    own = params[STUDY]
    data_seed = own["seeds"][0]  # generated samples do not depend on the training seed
    prepare = planned(
        step="prepare_lra",
        folder="{task}",
        cells=[{"task": task} for task in TASKS],
        seeds=[data_seed],
        settings=lambda task: preparation_settings(own["prepare_lra"][task], task),
        modules=lambda task: [images_module(own["prepare_lra"][task]["dataset"])] if task == "image" else [],
        outputs={"data": "data.safetensors"},
        needs=Needs(mem_mb=8000, minutes=480, gpu=0),
        constraints=TASK,
    )
    tasks = own["train_lra"]["tasks"]
    trained = partial(
        planned,
        step="train_lra",
        outputs={"history": "history.csv", "predictions": "predictions.csv", "network": "model.safetensors"},
        needs=Needs(mem_mb=16000, minutes=1440),
    )
    # The label `of` instead of `task` keeps these runs out of tables and claims.
    tune = trained(
        folder="tuning/{of}/{attention}/{tried}",
        cells=[
            {"of": task, "attention": attention, "tried": f"lr{rate:g}"}
            for task in TASKS
            for attention in tasks[task]["attentions"]
            for rate in tasks[task]["rates"]
        ],
        seeds=own["train_lra"]["tuning_seeds"],
        inputs={"data": lambda of, seed, **_: prepare.path("data", task=of, seed=data_seed)},
        settings=lambda of, attention, tried: {
            **training_settings(own, of, attention),
            "lr": float(tried.removeprefix("lr")),
        },
        modules=lambda of, attention, tried: [attention_module(attention)],
        constraints={"of": TASK["task"], "attention": ATTENTION, "tried": "lr[0-9.e+-]+"},
    )
    train = trained(
        folder="{task}/{attention}",
        cells=[
            {"task": task, "attention": attention}
            for task in TASKS
            for attention in tasks[task]["attentions"]
        ],
        seeds=own["train_lra"]["seeds"] or own["seeds"],
        inputs={
            "data": prepare.files["data"].replace("{seed}", str(data_seed)),
            "tried": lambda task, attention, seed: tune.paths(of=task, attention=attention),
        },
        settings=partial(training_settings, own),
        modules=lambda task, attention: [attention_module(attention)],
        constraints={**TASK, "attention": ATTENTION},
    )
    return {"prepare_lra": prepare, "tune_lra": tune, "train_lra": train, **benchmarks(own, scale)}


def preparation_settings(own: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Settings of `prepare_lra`; for the released files, ``closing`` is the only relevant entry of ``form``."""
    form = own.get("form", {})
    if own["dataset"] == "lra_release":
        form = {key: value for key, value in form.items() if key == "closing"}
    return {"task": task, **own, "form": dict(form)}


def training_settings(own: Mapping[str, Any], task: str, attention: str) -> dict[str, Any]:
    """Settings of `train_lra`. In params.yaml, clip_norm 0 means no clipping and pooling "" the attention's default."""
    shared, recipe = own["train_lra"], own["train_lra"]["tasks"][task]
    return {
        "attention": attention,
        "arguments": attention_arguments(shared, task, attention),
        **own["encoder"],
        "dropout": recipe["dropout"],
        "attention_dropout": recipe["dropout"],
        **{key: recipe[key] for key in ("steps", "warmup_steps", "batch_size", "lr", "weight_decay")},
        **{key: shared[key] for key in ("betas", "adam_eps", "evaluations", "trim", "schedule")},
        **{key: shared[key] or None for key in ("clip_norm", "pooling")},
    }


def attention_arguments(shared: Mapping[str, Any], task: str, attention: str) -> dict[str, Any]:
    """Arguments of an attention; ``long_short_best`` and ``dynamic`` have separate ones for each task (table 5.2)."""
    own = shared["tasks"][task]
    if attention == "window":
        return {"window": shared["window"]}
    if attention == "long_short":
        return {"window": shared["window"], "rank": shared["rank"]}
    if attention == "long_short_best":
        return {"window": own["window"], "rank": own["rank"]}
    if attention == "dynamic":
        return {"rank": own["dynamic_rank"]}
    return dict(shared["baselines"].get(attention, {}))


def benchmarks(own: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """Families for time and memory against length (figure 5.5) and for seconds per batch of a task (table 5.6)."""
    common: dict[str, Any] = {
        "study": STUDY,
        "step": "benchmark_attention",
        "scale": scale,
        "folder": "{protocol}",
        "seeds": [0],
        "needs": Needs(mem_mb=16000, minutes=480),
    }
    return {
        "benchmark_attention_curve": Family(
            **common,
            cells=[{"protocol": "curve"}],
            settings=lambda protocol: curve_settings(own["benchmark_attention"]["curve"]),
            outputs={"rows": "cost.csv"},
            constraints={"protocol": "curve"},
        ),
        "benchmark_attention_latency": Family(
            **common,
            cells=[{"protocol": "latency"}],
            settings=lambda protocol: latency_settings(own["benchmark_attention"]["latency"], own["encoder"]),
            modules=lambda protocol: [
                attention_module(name) for name in own["benchmark_attention"]["latency"]["attentions"]
            ],
            outputs={"rows": "latency.csv"},
            constraints={"protocol": "latency"},
        ),
    }


def curve_settings(curve: Mapping[str, Any]) -> dict[str, Any]:
    """Settings for protocol ``curve``."""
    settings = {key: value for key, value in curve.items() if key != "full_longest"}
    longest = {"full": curve["full_longest"]} if "full" in curve["attentions"] else {}
    return {"protocol": "curve", "longest": longest, **settings}


def latency_settings(latency: Mapping[str, Any], encoder: Mapping[str, Any]) -> dict[str, Any]:
    """Settings for protocol ``latency``; every attention has its published sizes, which are the layers' defaults."""
    tasks = {
        task: {
            "length": length,
            "batch_size": latency["batch_size"],
            "pairs": task == "retrieval",
            "arguments": {},
        }
        for task, length in latency["lengths"].items()
    }
    return {
        "protocol": "latency",
        **encoder,
        **{key: latency[key] for key in ("vocabulary", "classes", "attentions", "repeats")},
        "tasks": tasks,
        "arguments": {},
    }
