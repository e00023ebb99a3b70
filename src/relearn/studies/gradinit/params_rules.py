"""What params.yaml may say of ``gradinit``: the rules that tie several keys together; see ``schema_rules``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from relearn.data.facts import CLASSES, MOST_FOR_TRAINING, images_for_testing
from relearn.params.forecast_memory import Need, Tensor, first_maps, transformer

Get = Callable[[str], Any]
Conflict = tuple[tuple[str | int, ...], str]

G = "gradinit"
STEM = 64
"""Channels of the first convolution of the networks on ImageNet (He et al. 2016)."""


def _at(key: str) -> tuple[str | int, ...]:
    return tuple(key.split("."))


def _images(get: Get) -> Iterator[Conflict]:
    key = f"{G}.images.train_per_class"
    found, dataset = get(key), get(f"{G}.images.dataset")
    if found > MOST_FOR_TRAINING[dataset]:
        yield (
            _at(key),
            f"found {found}, allowed: at most {MOST_FOR_TRAINING[dataset]} images a class of {dataset}",
        )


def _batches(get: Get) -> Iterator[Conflict]:
    """A batch that a run states is the batch that it takes; GradInit draws S and the fresh part of the second batch at once."""
    images = CLASSES * get(f"{G}.images.train_per_class")
    for section in ("train", "probe"):
        key = f"{G}.{section}.batch_size"
        if get(key) > images:
            yield (
                _at(key),
                f"found {get(key)}, allowed: at most {images} images ({CLASSES} x images.train_per_class)",
            )
    part = 2.0 - get(f"{G}.initialise.overlap")
    for section in ("initialise", "first_steps"):
        key = f"{G}.{section}.batch_size"
        if get(key) > int(images / part):
            yield (
                _at(key),
                f"found {get(key)}, allowed: at most {int(images / part)} (2 - overlap = {part:g} times as many images are drawn)",
            )


def _test_images(get: Get) -> Iterator[Conflict]:
    key, dataset = f"{G}.train.test_images", get(f"{G}.images.dataset")
    used = CLASSES * get(f"{G}.images.train_per_class")
    most = images_for_testing(dataset, used)
    if get(key) > most:
        yield _at(key), f"found {get(key)}, allowed: at most the {most} test images of {dataset}; 0 = all"


def _transformer(get: Get) -> Iterator[Conflict]:
    key = f"{G}.translation.network.dim"
    dim, heads = get(key), get(f"{G}.translation.network.heads")
    if dim % heads or dim % 2:
        yield _at(key), f"found {dim}, allowed: an even multiple of heads = {heads}"


def _lengths(get: Get) -> Iterator[Conflict]:
    longest = get(f"{G}.corpus.max_length") + 1
    for key, rows in (
        (f"{G}.translation.initialise.max_tokens", 3),
        (f"{G}.translation.train.max_tokens", 1),
    ):
        if get(key) < rows * longest:
            sentences = "sentence" if rows == 1 else "sentences"
            yield (
                _at(key),
                f"found {get(key)}, allowed: at least {rows * longest} ({rows} {sentences} of corpus.max_length + 1)",
            )


def _schedule(get: Get) -> Iterator[Conflict]:
    train = f"{G}.translation.train"
    whole = get(f"{train}.schedule_steps")
    if get(f"{train}.steps") > whole:
        yield (
            _at(f"{train}.steps"),
            f"found {get(f'{train}.steps')}, allowed: at most schedule_steps = {whole}",
        )
    if get(f"{train}.warmup_steps") >= whole:
        found = get(f"{train}.warmup_steps")
        yield _at(f"{train}.warmup_steps"), f"found {found}, allowed: less than schedule_steps = {whole}"


def _imagenet(get: Get) -> Iterator[Conflict]:
    key, epochs = f"{G}.imagenet.milestones", get(f"{G}.imagenet.epochs")
    for index, milestone in enumerate(get(key)):
        if milestone >= epochs:
            yield (*_at(key), index), f"found {milestone}, allowed: less than imagenet.epochs = {epochs}"
    # A table shows a network on one data set.
    for name, networks in get(f"{G}.imagenet.networks").items():
        elsewhere = get(f"{G}.networks.{name}")
        for index, network in enumerate(networks):
            if network in elsewhere:
                yield (
                    (*_at(f"{G}.imagenet.networks.{name}"), index),
                    f"found {network}, allowed: networks that are not in gradinit.networks.{name} too",
                )


RULES = (_images, _batches, _test_images, _imagenet, _transformer, _lengths, _schedule)


def _folder_memory(get: Get) -> Iterator[Need]:
    """ImageNet's networks: a batch, and the channels behind the stride of 2 that all of them begin with."""
    side = get(f"{G}.imagenet.size")
    for section in ("imagenet", "imagenet.initialise"):
        key = f"{G}.{section}.batch_size"
        yield Need(_at(key), get(key), first_maps(get(key), side, 2, STEM))


def _translation_memory(get: Get) -> Iterator[Need]:
    """Encoder and decoder, on as many sentences as a batch of tokens holds."""
    own, longest = get(f"{G}.translation.network"), get(f"{G}.corpus.max_length") + 1
    for section in ("initialise", "train"):
        key = f"{G}.translation.{section}.max_tokens"
        sizes = {name: own[name] for name in ("dim", "ffn", "heads")}
        tensors = transformer(
            **sizes,
            layers=2 * own["layers"],
            length=longest,
            batch=get(key) // longest,
            vocabulary=get(f"{G}.corpus.vocabulary"),
        )
        yield Need(_at(key), get(key), tensors)


def _beam_memory(get: Get) -> Iterator[Need]:
    """What every layer of the decoder has made of every unit of every branch."""
    own, key = get(f"{G}.translation.network"), f"{G}.translation.beam.size"
    beam = get(f"{G}.translation.beam")
    longest = int(beam["factor"] * get(f"{G}.corpus.max_length")) + beam["extra"]
    sizes = (("layers", own["layers"]), ("beam", get(key)), ("length", longest), ("dim", own["dim"]))
    yield Need(_at(key), get(key), (Tensor("units so far", sizes),))


NEEDS = (_folder_memory, _translation_memory, _beam_memory)
