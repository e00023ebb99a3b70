"""The runs on translation: initialisations of the Post-LN Transformer, training from each of them, and gradient measurements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from relearn.studies.family import Family, Needs
from relearn.studies.gradinit.plan.data import families as data_families
from relearn.studies.gradinit.plan.images import STARTED
from relearn.studies.gradinit.plan.methods import (
    arguments_for_translation,
    iterations_of,
    method_of,
    modules_of,
    rate_of,
    with_tau,
)

TASK = "relearn.steps.tasks.translation"
DECISIVE = (
    "post_ln/xavier/adam_warmup",
    "post_ln/xavier/radam_warmup",
    "post_ln/xavier/adam",
    "post_ln/gradinit/adam",
    "post_ln/gradinit_sgd/sgd",
    "w_skip/admin/sgd",
)
"""The trainings that claims compare, and GradInit under SGD at other rates; all others have the first ``other_seeds`` seeds."""
OTHER_RATES = "post_ln/gradinit_sgd_lr"


def families(params: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """The families of runs on translation by rule."""
    own = params["gradinit"]
    translation = own["translation"]
    corpus = data_families(params, scale)["prepare_translation"].path(
        "corpus", dataset=own["corpus"]["dataset"]
    )
    trained = list(dict.fromkeys(_trained(translation)))
    started = [name.rpartition("/")[0] for name in trained] + translation["probe"]["runs"]
    all_seeds = translation["seeds"] or own["seeds"]

    def seeds(network: str, initialisation: str, recipe: str = "") -> list[int]:
        """The seeds of a training or, without a recipe, of a start: all if any of its trainings has all."""
        start = f"{network}/{initialisation}"
        named = (
            [f"{start}/{recipe}"] if recipe else [name for name in trained if name.startswith(f"{start}/")]
        )
        whole = not translation["other_seeds"] or any(map(_decides, named))
        return list(all_seeds if whole else all_seeds[: translation["other_seeds"]])

    tuning = own["tuning"]["translation"]
    candidates = [
        {**_cell(name), "tried": value}
        for name in trained
        if _decides(name) and tuning["seeds"]
        for value in _values(name, tuning)
    ]

    def tried(key: str, seed: str, **labels: str) -> list[str]:
        """The trainings that choose ``tau`` or ``lr``, the same for each seed."""
        values = [
            value for value in dict.fromkeys(cell["tried"] for cell in candidates) if value.startswith(key)
        ]
        return [path for value in values for path in tune_train.paths(**labels, tried=value)]

    initialise = Family(
        study="gradinit",
        step="initialise",
        scale=scale,
        folder="translation/{network}/{initialisation}",
        cells=[_cell(name) for name in started],
        seeds=all_seeds,
        cell_seeds=seeds,
        inputs={"data": corpus, "tried": partial(tried, "tau")},
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
        inputs={
            "corpus": corpus,
            "start": initialise.files["weights"],
            "tried": partial(tried, "lr"),
        },
        settings=lambda network, initialisation, recipe: _train(own, initialisation, recipe),
        modules=(),
        outputs={"history": "history.csv", "hypotheses": "hypotheses.txt"},
        needs=Needs(mem_mb=8000, minutes=1440),
    )
    tune = replace(
        initialise,
        folder="tuning_translation/{network}/{initialisation}/{tried}",
        cells=[
            {key: cell[key] for key in ("network", "initialisation")} | {"tried": _tau(cell["tried"])}
            for cell in candidates
        ],
        seeds=tuning["seeds"] or all_seeds,
        cell_seeds=None,
        inputs={"data": corpus},
        settings=lambda network, initialisation, tried: with_tau(
            _initialise(own, network, initialisation), tried
        ),
        modules=lambda network, initialisation, tried: initialise.modules_of(
            network=network, initialisation=initialisation
        ),
        labels={"task": "translation", "network": lambda network, **_: f"{network}_tuning"},  # in no table
    )
    tune_train = replace(
        tune,
        step="train_translation",
        folder="tuning/{network}/{initialisation}/{recipe}/{tried}",
        cells=candidates,
        inputs={
            "corpus": corpus,
            "start": lambda recipe, tried, **start: tune.path("weights", **start, tried=_tau(tried)),
        },
        settings=lambda network, initialisation, recipe, tried: (
            _train(own, initialisation, recipe)
            | ({"lr": float(tried.removeprefix("lr"))} if tried.startswith("lr") else {})
        ),
        modules=(),
        outputs=train.outputs,
        needs=train.needs,
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
        "tune_initialise_translation": tune,
        "train_translation": train,
        "tune_train_translation": tune_train,
        "gradient_statistics_translation": statistics,
    }


def _decides(name: str) -> bool:
    return name in DECISIVE or name.startswith(OTHER_RATES)


def _trained(translation: Mapping[str, Any]) -> Iterator[str]:
    """Names of training runs, network/initialisation/recipe: those listed, then those of the grid of figure 4.3."""
    grid = translation["grid"]
    yield from translation["runs"]
    for start in grid["runs"]:
        for lr in grid["lr"]:
            for beta in grid["beta2"]:
                yield f"{start}/adam_lr{lr:g}_b{beta:g}"


def _values(name: str, tuning: Mapping[str, Any]) -> list[str]:
    """The values to try for a training: tau of its start by GradInit, or the rate of Admin under SGD."""
    _, start, recipe = name.split("/")
    if start.startswith("gradinit"):
        return [f"tau{tau:g}" for tau in tuning["taus"]]
    return [f"lr{rate:g}" for rate in tuning["sgd_rates"] if (start, recipe) == ("admin", "sgd")]


def _tau(tried: str) -> str:
    """The start of a training that tries a value: with that tau, or its own."""
    return tried if tried.startswith("tau") else "own"


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
        "arguments": {"form": "fixup"} if name == "fixup" else arguments_for_translation(own, network, name),
        "max_tokens": initialise["max_tokens"],
        "iterations": iterations_of(method_of(name), initialise),
        "label_smoothing": translation["train"]["label_smoothing"],
    }


def _train(own: Mapping[str, Any], initialisation: str, recipe: str) -> dict[str, Any]:
    """Settings of `train_translation`.

    The name of a recipe gives the optimiser, the warm-up if there is one, and in the grid of figure 4.3 the learning rate
    and beta2: ``radam_warmup``, ``sgd``, ``adam_lr0.0005_b0.98``. ``adam_short_warmup`` has fewer warm-up steps and a lower
    learning rate, because it fails at the rate of the other recipes (section 4.3.2). SGD after ``gradinit_sgd_lr0.05`` has that rate.
    """
    train, beam = own["translation"]["train"], own["translation"]["beam"]
    words = recipe.split("_")
    kept = ("steps", "schedule", "schedule_steps", "max_tokens", "lr", "betas", "weight_decay")
    settings = {
        **{key: train[key] for key in (*kept, "label_smoothing", "evaluations")},
        "clip_norm": train["clip_norm"] or None,
        "optimizer": "adamw" if words[0] == "adam" and train["decoupled_decay"] else words[0],
        "warmup_steps": train["warmup_steps"] if "warmup" in words else 0,
    }
    if words[0] == "sgd":
        settings["lr"] = rate_of(initialisation) or train["sgd_lr"]
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
