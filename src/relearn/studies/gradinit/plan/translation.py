"""The runs on translation: initialisations of the Post-LN Transformer, training from each of them, and gradient measurements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from relearn.studies.family import Family, Needs
from relearn.studies.gradinit.plan.data import families as data_families
from relearn.studies.gradinit.plan.images import STARTED
from relearn.studies.gradinit.plan.methods import (
    arguments_for_translation,
    iterations_of,
    method_of,
    modules_of,
)

TASK = "relearn.steps.tasks.translation"


def families(params: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """The families of runs on translation by rule."""
    own = params["gradinit"]
    translation = own["translation"]
    corpus = data_families(params, scale)["prepare_translation"].path(
        "corpus", dataset=own["corpus"]["dataset"]
    )
    trained = list(dict.fromkeys(_trained(translation)))
    started = [name.rpartition("/")[0] for name in trained] + translation["probe"]["runs"]

    initialise = Family(
        study="gradinit",
        step="initialise",
        scale=scale,
        folder="translation/{network}/{initialisation}",
        cells=[_cell(name) for name in started],
        seeds=translation["seeds"] or own["seeds"],
        inputs={"data": corpus},
        settings=lambda network, initialisation: _initialise(own, network, initialisation),
        modules=lambda network, initialisation: [TASK, *modules_of(_method(initialisation), "xavier")],
        labels={"task": "translation"},
        outputs=STARTED,
        needs=Needs(mem_mb=8000, minutes=240),
    )
    train = replace(
        initialise,
        step="train_translation",
        folder="{network}/{initialisation}/{recipe}",
        cells=[_cell(name) for name in trained],
        inputs={"corpus": corpus, "start": initialise.files["weights"]},
        settings=lambda network, initialisation, recipe: _train(own, recipe),
        modules=(),
        outputs={"history": "history.csv", "hypotheses": "hypotheses.txt"},
        needs=Needs(mem_mb=8000, minutes=1440),
    )
    statistics = replace(
        initialise,
        step="gradient_statistics",
        cells=[_cell(name) for name in translation["probe"]["runs"]],
        inputs={"data": corpus, "network": initialise.files["weights"]},
        settings={
            "protocol": "gradient_statistics",
            "task": "translation",
            "batches": translation["probe"]["batches"],
            "max_tokens": translation["initialise"]["max_tokens"],
            "label_smoothing": translation["train"]["label_smoothing"],
        },
        modules=["relearn.measures.gradient_statistics", TASK],
        labels={"task": "translation", "protocol": "gradient_statistics"},
        outputs={"layers": "layers.csv"},
        needs=Needs(mem_mb=8000, minutes=120),
    )
    return {
        "initialise_translation": initialise,
        "train_translation": train,
        "gradient_statistics_translation": statistics,
    }


def _trained(translation: Mapping[str, Any]) -> Iterator[str]:
    """Names of training runs, network/initialisation/recipe: those listed, then those of the grid of figure 4.3."""
    grid = translation["grid"]
    yield from translation["runs"]
    for start in grid["runs"]:
        for lr in grid["lr"]:
            for beta in grid["beta2"]:
                yield f"{start}/adam_lr{lr:g}_b{beta:g}"


def _cell(name: str) -> dict[str, str]:
    """The labels in the name of an initialisation (network/initialisation) or of a training run (with /recipe)."""
    return dict(zip(("network", "initialisation", "recipe"), name.split("/")))


def _method(name: str) -> str | None:
    """The method for the name of an initialisation; for a Transformer, FixUp is implemented as a form of T-FixUp."""
    method = method_of(name)
    return "t_fixup" if method == "fixup" else method


def _initialise(own: Mapping[str, Any], network: str, name: str) -> dict[str, Any]:
    translation = own["translation"]
    sizes, initialise = translation["network"], translation["initialise"]
    return {
        "task": "translation",
        "network": {
            "residual": network,
            **{key: sizes[key] for key in ("dim", "ffn", "heads", "dropout")},
            "encoder_layers": sizes["layers"],
            "decoder_layers": sizes["layers"],
        },
        "method": _method(name),
        "arguments": {"form": "fixup"} if name == "fixup" else arguments_for_translation(own, name),
        "max_tokens": initialise["max_tokens"],
        "iterations": iterations_of(method_of(name), initialise),
        "label_smoothing": translation["train"]["label_smoothing"],
    }


def _train(own: Mapping[str, Any], recipe: str) -> dict[str, Any]:
    """Settings of `train_translation`.

    The name of a recipe gives the optimiser, the warm-up if there is one, and in the grid of figure 4.3 the learning rate
    and beta2: ``radam_warmup``, ``sgd``, ``adam_lr0.0005_b0.98``. ``adam_short_warmup`` has fewer warm-up steps and a lower
    learning rate, because it fails at the rate of the other recipes (section 4.3.2).
    """
    train, beam = own["translation"]["train"], own["translation"]["beam"]
    words = recipe.split("_")
    kept = ("steps", "schedule", "schedule_steps", "max_tokens", "lr", "betas", "weight_decay")
    settings = {
        **{key: train[key] for key in (*kept, "label_smoothing", "evaluations")},
        "clip_norm": train["clip_norm"] or None,
        "optimizer": words[0],
        "warmup_steps": train["warmup_steps"] if "warmup" in words else 0,
    }
    if words[0] == "sgd":
        settings["lr"] = train["sgd_lr"]
        del settings["betas"]
    if "short" in words:
        short = train["short_warmup"]
        settings |= {"warmup_steps": short["steps"], "lr": short["lr"]}
    if words[1:2] and words[1].startswith("lr"):
        settings |= {"lr": float(words[1][2:]), "betas": [train["betas"][0], float(words[2][1:])]}
    return {
        **settings,
        "beam": beam["size"],
        **{key: beam[key] for key in ("length_penalty", "extra", "factor")},
        "test_pairs": own["corpus"]["test_pairs"],
    }
