"""What params.yaml may say of ``freelb``: rules that tie several keys together; see ``schema_rules``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from relearn.data.facts import CLASSES, MOST_FOR_TRAINING, images_for_testing
from relearn.params.forecast_memory import TRAINED, Need, Tensor, transformer

Get = Callable[[str], Any]
Conflict = tuple[tuple[str | int, ...], str]

RUNS = "freelb.finetune.runs"
PROVOKED = ("vanilla", "pgd", "freelb")
"""Methods that table 3.5 compares."""
PROVOKED_ENCODER = "roberta"


def _at(key: str, *index: int | str) -> tuple[str | int, ...]:
    return (*key.split("."), *index)


def _encoders(get: Get) -> Iterator[Conflict]:
    for name in ("roberta", "albert", "bert"):
        own = get(f"freelb.encoders.{name}")
        if not own["checkpoint"] and own["dim"] % own["heads"]:
            yield (
                _at(f"freelb.encoders.{name}.dim"),
                f"found {own['dim']}, allowed: multiples of heads = {own['heads']}",
            )


def _runs(get: Get) -> Iterator[Conflict]:
    """A name once for each encoder; what fits an encoder that is made here; what starts from a run comes after it."""
    before: dict[tuple[str, str], list[str]] = {}
    for index, run in enumerate(get(RUNS)):
        encoder, name = run["encoder"], run["name"]
        longest = get(f"freelb.encoders.{encoder}.max_length")
        made = not get(f"freelb.encoders.{encoder}.checkpoint")

        def at(key: str, index: int = index) -> tuple[str | int, ...]:
            return _at(RUNS, index, key)

        if (encoder, name) in before:
            yield at("name"), f"found {name} twice for {encoder}, allowed: once"
        if name != run["task"].removesuffix("_pairs") and not run["start"] and not run["with_tasks"]:
            yield (
                at("name"),
                f"found {name}, allowed: {run['task'].removesuffix('_pairs')}, its task (another with start or with_tasks)",
            )
        if run["warmup_steps"] > run["steps"]:
            yield at("warmup_steps"), f"found {run['warmup_steps']}, allowed: at most steps = {run['steps']}"
        if made and run["max_length"] > longest:
            text = f"found {run['max_length']}, allowed: at most encoders.{encoder}.max_length = {longest}"
            yield at("max_length"), text
        if run["train_samples"] and run["batch_size"] > run["train_samples"]:
            text = f"found {run['batch_size']}, allowed: at most train_samples = {run['train_samples']}"
            yield at("batch_size"), text
        if run["batch_size"] % run["accumulate"]:
            text = f"found {run['accumulate']}, allowed: divisors of batch_size = {run['batch_size']}"
            yield at("accumulate"), text
        if run["project"] and not run["eps"]:
            yield at("eps"), "found 0.0, allowed: above 0, or project: false"
        if run["start"] and "vanilla" not in before.get((encoder, run["start"]), []):
            ready = [
                other
                for (whose, other), methods in before.items()
                if whose == encoder and "vanilla" in methods
            ]
            known = ", ".join(ready) or "none"
            yield (
                at("start"),
                f"found {run['start']}, allowed: empty, or of the runs above that have vanilla: {known}",
            )
        if run["task"] in run["with_tasks"]:
            yield at("with_tasks"), f"found {run['task']}, allowed: other tasks than its own"
        before[encoder, name] = run["methods"]


def _provoke(get: Get) -> Iterator[Conflict]:
    """A probe compares three networks of one encoder and task; a task of numbers has no right answers."""
    key = "freelb.provoke.tasks"
    ready = [
        run["name"]
        for run in get(RUNS)
        if run["encoder"] == PROVOKED_ENCODER
        and set(PROVOKED) <= set(run["methods"])
        and run["task"] != "stsb"
    ]
    for index, name in enumerate(get(key)):
        if name not in ready:
            text = f"found {name}, allowed: {', '.join(ready) or 'none'} (runs of {PROVOKED_ENCODER} with {', '.join(PROVOKED)})"
            yield _at(key, index), text


def _vote(get: Get) -> Iterator[Conflict]:
    key = "freelb.vote.methods"
    there = {method for run in get(RUNS) for method in run["methods"]}
    for index, method in enumerate(get(key)):
        if method not in there:
            yield _at(key, index), f"found {method}, allowed: methods of finetune.runs"


def _acquire(get: Get) -> Iterator[Conflict]:
    steps, warm = get("freelb.acquire.steps"), get("freelb.acquire.warmup_steps")
    if warm > steps:
        yield _at("freelb.acquire.warmup_steps"), f"found {warm}, allowed: at most steps = {steps}"


def _images(get: Get) -> Iterator[Conflict]:
    key, dataset = "freelb.images.train_per_class", get("freelb.images.dataset")
    most = MOST_FOR_TRAINING[dataset]
    if not 2 <= get(key) <= most:
        yield _at(key), f"found {get(key)}, allowed: 2 to {most} images a class of {dataset}"


def _contrast(get: Get) -> Iterator[Conflict]:
    """A batch is the batch that it says; so are the images that are attacked."""
    dataset, used = get("freelb.images.dataset"), CLASSES * get("freelb.images.train_per_class")
    key = "freelb.contrast.train.batch_size"
    if get(key) > used:
        text = f"found {get(key)}, allowed: at most {used} images ({CLASSES} x images.train_per_class)"
        yield _at(key), text
    key, most = (
        "freelb.contrast.attack.images",
        images_for_testing(dataset, used),
    )
    if get(key) > most:
        yield _at(key), f"found {get(key)}, allowed: at most the {most} test images of {dataset}; 0 = all"
    key = "freelb.contrast.perturbation"
    if get(f"{key}.project") and not get(f"{key}.eps"):
        yield _at(f"{key}.eps"), "found 0.0, allowed: above 0, or project: false"


RULES = (_encoders, _runs, _provoke, _vote, _acquire, _images, _contrast)


def _encoder_memory(get: Get) -> Iterator[Need]:
    """Encoders that are made here, while they are made and while they are fine-tuned; a checkpoint's have sizes of their own."""
    for name in ("roberta", "albert", "bert"):
        own, key = get(f"freelb.encoders.{name}"), f"freelb.encoders.{name}.dim"
        if own["checkpoint"]:
            continue
        sizes = {size: own[size] for size in ("layers", "dim", "ffn", "heads")}
        sizes["shared"] = name == "albert"
        embedding = Tensor(
            "embedding", (("vocabulary", own["vocabulary"]), ("embedding_dim", own["embedding_dim"])), TRAINED
        )
        batch, length = get("freelb.acquire.batch_size"), own["max_length"]
        logits = Tensor("logits", (("batch", batch), ("length", length), ("vocabulary", own["vocabulary"])))
        tensors = transformer(**sizes, length=length, batch=batch)
        yield Need(_at(key), own["dim"], (*tensors, embedding, logits))
        for index, run in enumerate(get(RUNS)):
            if run["encoder"] == name:
                share = run["batch_size"] // run["accumulate"]
                tensors = transformer(**sizes, length=run["max_length"], batch=share)
                yield Need(_at(RUNS, index, "batch_size"), run["batch_size"], (*tensors, embedding))


NEEDS = (_encoder_memory,)
