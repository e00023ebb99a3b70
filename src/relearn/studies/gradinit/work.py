"""The computation of each step: first and second derivatives of the initialised networks, and their training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relearn.studies.work import (
    FORWARD,
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

SECOND = (10.0, 12.0)
"""A loss, its gradient, and the gradient of what follows from that gradient."""
METHODS = {"gradinit": SECOND, "metainit": SECOND, "metainit_adam": SECOND, "extra_epoch": TRAIN}
WORDS = 9.0
"""Tokens of a sentence, on average, where only the size of a batch in tokens is known."""


def image_net(job: Job, network: Mapping[str, Any]) -> Net:
    images = images_of(job)
    return Net("relearn.models:create", {**network, "in_channels": images.channels}, images.shape)


def translator(network: Mapping[str, Any], vocabulary: int) -> Counts:
    """Operation counts of encoder and decoder for one sentence pair; a decoder layer has two attention sublayers."""
    sizes = {"dim": network["dim"], "ffn": network["ffn"], "heads": network["heads"], "length": WORDS}
    first = transformer(layers=network["encoder_layers"], **sizes)
    second = transformer(layers=1.5 * network["decoder_layers"], vocabulary=vocabulary, **sizes)
    return Counts(
        products=first.products + second.products,
        moved=first.moved + second.moved,
        calls=first.calls + second.calls,
        weights=first.weights + second.weights,
    )


def vocabulary(job: Job, name: str) -> int:
    for made in job.made(name):
        return int(made.settings["vocabulary"])
    raise Unknown(job.folder)


def initialise(job: Job) -> Work:
    given, method = job.settings, job.settings["method"]
    mode = METHODS.get(method, FORWARD)
    steps = given["iterations"] or (30 if method in METHODS else 4)
    if given["task"] == "translation":
        net = translator(given["network"], vocabulary(job, "data"))
        pairs = given["max_tokens"] / WORDS
        return Work([Pass(net, steps, pairs, mode), Pass(net, 2, pairs, TRAIN)], f"translation {method}")
    if "batch_size" not in given:
        raise Unknown(job.folder)
    image, size = image_net(job, given["network"]), given["batch_size"]
    if method == "extra_epoch" and not given["iterations"]:
        images = images_of(job)
        steps = max(1, (images.trained + images.tuned) // size)
    family = given["network"]["name"].partition("-")[0]
    return Work([Pass(image, steps, size, mode), Pass(image, 2, size, TRAIN)], f"{method} {family}")


def train_from_init(job: Job) -> Work:
    given, start = job.settings, job.made("start")
    if not start or start[0].settings.get("task") != "images":
        raise Unknown(job.folder)
    images, net = images_of(job), image_net(job, start[0].settings["network"])
    tested = given["test_images"] or images.tested
    if given["steps"]:
        return Work(
            [Pass(net, given["steps"], given["batch_size"], TRAIN), epochs(net, tested, 500, 1, FORWARD)]
        )
    train = epochs(net, images.trained + images.tuned, given["batch_size"], given["epochs"])
    return Work([train, epochs(net, tested, 500, given["epochs"], FORWARD)])


def statistics(job: Job) -> Work:
    given, made = job.settings, job.made("network")
    if not made or "network" not in made[0].settings:
        raise Unknown(job.folder)
    network = made[0].settings["network"]
    if given["task"] == "translation":
        net = translator(network, vocabulary(job, "data"))
        return Work([Pass(net, given["batches"], given["max_tokens"] / WORDS, TRAIN)], "translation")
    return Work([Pass(image_net(job, network), given["batches"], given["batch_size"], TRAIN)], "images")


def train_translation(job: Job) -> Work:
    """The length of the translations, and so the cost of the beam search, depends on the corpus."""
    given, start = job.settings, job.made("start")
    if not start:
        raise Unknown(job.folder)
    net = translator(start[0].settings["network"], vocabulary(job, "corpus"))
    pairs = given["max_tokens"] / WORDS
    tested = given["test_pairs"] or 1000
    search = Pass(net, (WORDS + given["extra"]) * given["evaluations"], tested * given["beam"])
    return Work([Pass(net, given["steps"], pairs, TRAIN), search], job.made("corpus")[0].settings["dataset"])


WORK = {
    "initialise": initialise,
    "train_from_init": train_from_init,
    "gradient_statistics": statistics,
    "train_translation": train_translation,
}
