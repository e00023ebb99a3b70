"""The computation of each step: passes through the encoders, one or several per training step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relearn.studies.work import (
    FORWARD,
    INPUT,
    TRAIN,
    Counts,
    Job,
    Net,
    Pass,
    Unknown,
    Work,
    epochs,
    images_of,
    transformer,
)

DEV = {"acceptability": 300, "sst2": 872, "imdb": 5000}
"""Rows of a dev part where the settings ask for all of it."""
LARGE = {"layers": 24, "dim": 1024, "ffn": 4096, "heads": 16, "vocabulary": 50_265}
"""The published encoders, where a checkpoint replaces the sizes."""


def encoder(given: Mapping[str, Any], length: int, masked: bool = False) -> Counts:
    """Operation counts for one text; ``masked``: the output layer has one logit per vocabulary unit."""
    sizes = LARGE if given.get("checkpoint") else given
    found = transformer(
        **{key: sizes[key] for key in ("layers", "dim", "ffn", "heads")},
        length=length,
        vocabulary=sizes["vocabulary"] if masked else 0,
        calls=40,
    )
    weights = found.weights + sizes["vocabulary"] * (sizes.get("embedding_dim") or sizes["dim"])
    return Counts(products=found.products, moved=found.moved, calls=found.calls, weights=weights)


def pretrain_encoder(job: Job) -> Work:
    given = job.settings
    net = encoder(given["encoder"], given["encoder"]["max_length"], masked=True)
    return Work([Pass(net, given["steps"], given["batch_size"], TRAIN)], given["corpus"]["dataset"])


def updates(method: Mapping[str, Any]) -> float:
    """Forward and backward passes per training step."""
    if method["kind"] == "vanilla":
        return 1
    return method["passes"] + (1 if method["kind"] == "pgd" else 0)


def finetune(job: Job) -> Work:
    given = job.settings
    net = encoder(given["encoder"], given["max_length"])
    steps, batch = given["steps"] * updates(given["method"]), given["batch_size"]
    tested = given["samples"]["dev"] or DEV.get(given["task"], 1000)
    tests = given["samples"]["test"] or tested
    passes = [
        Pass(net, steps * given["accumulate"], batch / given["accumulate"], TRAIN),
        epochs(net, tested, 64, given["evaluations"], FORWARD),
        epochs(net, tests, 64, 1, FORWARD),
    ]
    return Work(passes)


def max_loss_increase(job: Job) -> Work:
    given, made = job.settings, job.made("vanilla")
    if not made:
        raise Unknown(job.folder)
    net, count = encoder(made[0].settings["encoder"], given["max_length"]), given["samples"] or 1000
    return Work([epochs(net, count, given["batch_size"], 6 * given["steps"] * given["starts"], INPUT)])


def train_images(job: Job) -> Work:
    given, images = job.settings, images_of(job)
    net = Net("relearn.models:create", {**given["network"], "in_channels": images.channels}, images.shape)
    recipe, attack = given["train"], given["attack"]
    passes = [
        epochs(
            net,
            images.trained + images.tuned,
            recipe["batch_size"],
            recipe["epochs"] * updates(given["method"]),
        ),
        epochs(net, attack["images"], 500, attack["steps"] * attack["restarts"], INPUT),
        epochs(net, images.tested, 500, recipe["epochs"], FORWARD),
    ]
    return Work(passes)


WORK = {
    "pretrain_encoder": pretrain_encoder,
    "finetune": finetune,
    "max_loss_increase": max_loss_increase,
    "train_images_adversarially": train_images,
}
