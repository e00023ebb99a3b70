"""Runs on text: character models (zhu2022, section 5.3.2) and RoBERTa converted to long-short attention (table 5.4)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from relearn.data import module_of
from relearn.data.streams import STREAMS
from relearn.studies.family import Family, Needs

STUDY = "long_short"
NORMS = {"dual_norm": True, "no_dual_norm": False}
MEASURED = 2048
"""Characters on which the published model's norms are measured before training: a segment of its first phase."""
DATASET = {"dataset": "[a-z0-9_]+"}


def families(params: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """Families for preparing the texts, training character models, measuring initial norms, and converting encoders."""
    planned = partial(Family, study=STUDY, scale=scale)
    own = params[STUDY]
    prepare = planned(
        step="prepare_char_stream",
        folder="{dataset}",
        cells=[{"dataset": name} for name in own["prepare_char_stream"]["datasets"]],
        seeds=[0],
        settings=lambda dataset: {"dataset": dataset, "characters": own["prepare_char_stream"]["characters"]},
        modules=lambda dataset: [module_of(dataset, STREAMS, "stream")],
        outputs={"stream": "stream.safetensors"},
        needs=Needs(mem_mb=4000, minutes=120, gpu=0),
        constraints=DATASET,
    )
    train = planned(
        step="train_long_char_lm",
        folder="{dataset}/{variant}",
        cells=[
            {"dataset": name, "variant": variant}
            for name in own["prepare_char_stream"]["datasets"]
            for variant in own["train_long_char_lm"]["variants"]
            if variant != "large" or name in own["train_long_char_lm"]["large_datasets"]
        ],
        seeds=own["train_long_char_lm"]["seeds"] or own["seeds"],
        inputs={"stream": prepare.files["stream"].replace("{seed}", "0")},
        settings=lambda dataset, variant: character_settings(own, dataset, variant),
        outputs={"history": "history.csv", "norms": "norms.csv", "network": "model.safetensors"},
        needs=Needs(mem_mb=16000, minutes=10080),
        constraints=DATASET,
    )
    norms = planned(
        step="initial_norms",
        folder="{dataset}/{variant}",
        cells=[
            {"dataset": name, "variant": variant}
            for name in own["prepare_char_stream"]["datasets"]
            for variant in NORMS
        ],
        seeds=[0],
        inputs={"stream": prepare.files["stream"].replace("{seed}", "0")},
        settings=lambda dataset, variant: {
            "size": "small",
            "dual_norm": NORMS[variant],
            "characters": MEASURED,
        },
        outputs={"norms": "norms.csv"},
        needs=Needs(mem_mb=8000, minutes=30, gpu=0),
        constraints=DATASET,
    )
    convert = planned(
        step="convert_roberta",
        folder="{variant}",
        cells=[{"variant": variant} for variant in own["convert_roberta"]["variants"]],
        seeds=own["seeds"],
        settings=partial(conversion_settings, own["convert_roberta"]),
        outputs={
            "history": "history.csv",
            "predictions": "predictions.csv",
            "network": "model.safetensors",
        },
        needs=Needs(mem_mb=32000 if own["convert_roberta"]["checkpoint"] else 8000, minutes=10080),
    )
    return {
        "prepare_char_stream": prepare,
        "train_long_char_lm": train,
        "initial_norms": norms,
        "convert_roberta": convert,
    }


def character_settings(own: Mapping[str, Any], dataset: str, variant: str) -> dict[str, Any]:
    """Settings of `train_long_char_lm`. In params.yaml, 0 means no clipping, no bound on the loss, no separate rate for text8."""
    recipe, model, large = own["train_long_char_lm"], own["char_lm"], variant == "large"
    rate = recipe["text8_lr"] if dataset == "text8" else 0.0
    phases = [{**phase, "lr": rate or phase["lr"]} for phase in recipe["phases"]]
    return {
        "attention": "full" if variant == "full" else "long_short",
        "dual_norm": variant != "no_dual_norm",
        "as_released": False,
        "optimizer": "adamw",
        **{key: model[key] for key in ("dim", "heads", "ffn", "window", "segment", "rank")},
        "layers": model["large_layers" if large else "layers"],
        "dropout": model["large_dropout" if large else "dropout"],
        "weight_decay": recipe["large_weight_decay" if large else "weight_decay"],
        "phases": phases,
        **{key: recipe[key] for key in ("betas", "adam_eps", "evaluations")},
        **{key: recipe[key] for key in ("history_characters", "evaluation")},
        **{key: recipe[key] or None for key in ("clip_norm", "diverged_above")},
    }


def conversion_settings(own: Mapping[str, Any], variant: str) -> dict[str, Any]:
    """Settings of `convert_roberta`; ``full`` is fine-tuned without conversion."""
    attention = variant.removesuffix("_large")
    apart = ("variants", "large_checkpoint", "mlm_probability")
    settings = {key: value for key, value in own.items() if key not in apart}
    if attention == "full":
        settings |= {"convert_pretrain": None, "window": None, "rank": None, "max_length": None}
    return {
        **settings,
        "mask_frac": own["mlm_probability"],
        "attention": attention,
        "checkpoint": own["checkpoint" if variant == attention else "large_checkpoint"] or None,
        "clip_norm": own["clip_norm"] or None,
    }
