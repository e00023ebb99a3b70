"""What params.yaml may say of ``long_short`` and ``robustness``: rules that tie several keys together; see ``schema_rules``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from relearn.data.facts import SIDE
from relearn.params.forecast_memory import Need, Tensor, attention, transformer

Get = Callable[[str], Any]
Conflict = tuple[tuple[str | int, ...], str]

TASKS = ("listops", "text", "retrieval", "image", "pathfinder")
STAGES = {"CvT": 3, "ViL": 4, "Swin": 4, "LipsFormer": 4}
"""Stages of a pyramid, each of half the side of the one before, by the beginning of its name."""
DEIT_PATCH = 4
"""DeiT's patches are so many times as wide as the first of a pyramid, as published: 16 and 4."""
HELD_OUT = 20
"""One of so many characters of a stream is for validation, one for testing."""
MOST_CHARACTERS = {"enwik8": 100_000_000, "text8": 100_000_000, "warandpeace": 3_293_492}
"""Characters of a stream, at the most. That of pydoc_topics depends on the version of Python."""


def _at(key: str, *index: int) -> tuple[str | int, ...]:
    return (*key.split("."), *index)


def _trees(get: Get) -> Iterator[Conflict]:
    """A tree is shorter than its form says, and none is cut: a part of one has another result."""
    form, longest = "long_short.sequences.listops.form", get("long_short.sequences.listops.max_length")
    least, most = get(f"{form}.min_length"), get(f"{form}.max_length")
    if most > longest + 1:
        yield (
            _at(f"{form}.max_length"),
            f"found {most}, allowed: at most listops.max_length + 1 = {longest + 1}",
        )
    if least > most - 2:
        yield (
            _at(f"{form}.min_length"),
            f"found {least}, allowed: at most form.max_length - 2 = {most - 2}, so that a number is between the two",
        )


def _pixels(get: Get) -> Iterator[Conflict]:
    """A sequence of an image is the image."""
    dataset, side = (
        get("long_short.sequences.image.dataset"),
        get("long_short.sequences.pathfinder.form.size"),
    )
    for task, wanted, why in (
        ("image", SIDE[dataset] ** 2, f"the pixels of {dataset}"),
        ("pathfinder", side**2, f"form.size = {side} squared"),
    ):
        key = f"long_short.sequences.{task}.max_length"
        if get(key) != wanted:
            yield _at(key), f"found {get(key)}, allowed: {wanted}, {why}"


def _batches(get: Get) -> Iterator[Conflict]:
    for task in TASKS:
        key, samples = (
            f"long_short.understand.tasks.{task}.batch_size",
            get(f"long_short.sequences.{task}.train_samples"),
        )
        if samples and get(key) > samples:
            yield _at(key), f"found {get(key)}, allowed: at most sequences.{task}.train_samples = {samples}"


def _warmups(get: Get) -> Iterator[Conflict]:
    for task in TASKS:
        key = f"long_short.understand.tasks.{task}"
        if get(f"{key}.warmup_steps") > get(f"{key}.steps"):
            yield (
                _at(f"{key}.warmup_steps"),
                f"found {get(f'{key}.warmup_steps')}, allowed: at most steps = {get(f'{key}.steps')}",
            )
    for index, phase in enumerate(get("long_short.predict.phases")):
        if phase["warmup_steps"] > phase["steps"]:
            yield (
                (*_at("long_short.predict.phases", index), "warmup_steps"),
                f"found {phase['warmup_steps']}, allowed: at most steps = {phase['steps']}",
            )


def _windows(get: Get) -> Iterator[Conflict]:
    """An attention sees something, and a query never more than there is: of what several tasks share the first task that says so."""
    shared, found = "long_short.understand", dict[str, str]()
    for task in TASKS:
        own, longest = f"{shared}.tasks.{task}", get(f"long_short.sequences.{task}.max_length")
        kinds = get(f"{own}.attentions")
        for kind, section in (("long_short", shared), ("long_short_best", own)):
            window, rank = get(f"{section}.window"), get(f"{section}.rank")
            if kind in kinds and not window and not rank:
                found.setdefault(f"{section}.window", "found 0 with rank 0, allowed: one of the two above 0")
            elif kind in kinds and 2 * window + rank > longest:
                text = (
                    f"found {rank}, allowed: at most {task}.max_length - 2 x window = {longest - 2 * window}"
                )
                found.setdefault(f"{section}.rank", text)
        window, rank = get(f"{shared}.window"), get(f"{own}.dynamic_rank")
        if "window" in kinds and not 1 <= window <= longest // 2:
            text = f"found {window}, allowed: 1 to {longest // 2}, half of {task}.max_length"
            found.setdefault(f"{shared}.window", text)
        if "dynamic" in kinds and rank > longest:
            found.setdefault(
                f"{own}.dynamic_rank", f"found {rank}, allowed: at most {task}.max_length = {longest}"
            )
    for key, text in found.items():
        yield _at(key), text


def _band(get: Get) -> Iterator[Conflict]:
    key = "long_short.understand.rivals.longformer.window"
    if get(key) % 2:
        yield _at(key), f"found {get(key)}, allowed: even numbers, half on each side"


def _heads(get: Get) -> Iterator[Conflict]:
    for section in ("encoder", "characters", "cost.curve"):
        key, heads = f"long_short.{section}.dim", get(f"long_short.{section}.heads")
        if get(key) % heads:
            yield _at(key), f"found {get(key)}, allowed: multiples of heads = {heads}"


def _coverage(get: Get) -> Iterator[Conflict]:
    """Every position behind a query is in one of its windows or in a segment that is over (docs: errata, Z9)."""
    for section in ("characters", "cost.curve"):
        key = f"long_short.{section}.window"
        window, segment = get(key), get(f"long_short.{section}.segment")
        if window + math.gcd(window, segment) < segment:
            yield (
                _at(key),
                f"found {window} of segment {segment}, allowed: window + gcd(window, segment) >= segment",
            )


def _characters(get: Get) -> Iterator[Conflict]:
    """No more than there are, and at least two in each part that is held out: one of them is predicted."""
    key, found = "long_short.stream.characters", get("long_short.stream.characters")
    if 0 < found < 2 * HELD_OUT:
        yield _at(key), f"found {found}, allowed: 0 (all), or at least {2 * HELD_OUT}"
    for name in get("long_short.stream.datasets"):
        if found > (most := MOST_CHARACTERS.get(name, found)):
            yield _at(key), f"found {found}, allowed: at most the {most} characters of {name}"


def _phases(get: Get) -> Iterator[Conflict]:
    """The cache is as long as a phase's segments: whole windows and segments, which stay where they were."""
    window, segment = get("long_short.characters.window"), get("long_short.characters.segment")
    whole, characters = math.lcm(window, segment), get("long_short.stream.characters")
    for index, phase in enumerate(get("long_short.predict.phases")):
        if phase["length"] % whole:
            yield (
                (*_at("long_short.predict.phases", index), "length"),
                f"found {phase['length']}, allowed: multiples of {whole}, of characters.window = {window} and segment = {segment}",
            )
        lane = (characters - 2 * (characters // HELD_OUT) - 1) // phase["batch_size"]
        if characters and phase["length"] > lane:
            yield (
                (*_at("long_short.predict.phases", index), "length"),
                f"found {phase['length']}, allowed: at most {lane}, characters of one of batch_size = {phase['batch_size']} lanes",
            )


def _scored(get: Get) -> Iterator[Conflict]:
    way = "long_short.predict.evaluation"
    if get(f"{way}.form") == "windows" and get(f"{way}.step") > get(f"{way}.context"):
        yield (
            _at(f"{way}.step"),
            f"found {get(f'{way}.step')}, allowed: at most context = {get(f'{way}.context')}",
        )
    if get(f"{way}.characters") == 1:
        yield _at(f"{way}.characters"), "found 1, allowed: 0 (all), or at least 2: the first is not predicted"


def _longest(get: Get) -> Iterator[Conflict]:
    key = "long_short.cost.curve.full_longest"
    least = get("long_short.cost.curve.lengths")[0]
    if "full" in get("long_short.cost.curve.attentions") and get(key) < least:
        yield _at(key), f"found {get(key)}, allowed: at least the shortest of lengths, {least}"


def _adapted(get: Get) -> Iterator[Conflict]:
    """Heads divide the width; the converted encoder is no shorter than the one before, sees something and is trained."""
    own = "long_short.adapt"
    if get(f"{own}.config.dim") % get(f"{own}.config.heads"):
        yield (
            _at(f"{own}.config.dim"),
            f"found {get(f'{own}.config.dim')}, allowed: multiples of heads = {get(f'{own}.config.heads')}",
        )
    if not get(f"{own}.checkpoint") and get(f"{own}.max_length") < get(f"{own}.config.max_length"):
        least = get(f"{own}.config.max_length")
        yield (
            _at(f"{own}.max_length"),
            f"found {get(f'{own}.max_length')}, allowed: at least config.max_length = {least}",
        )
    if not get(f"{own}.window") and not get(f"{own}.rank"):
        yield _at(f"{own}.window"), "found 0 with rank 0, allowed: one of the two above 0"
    for stage in ("pretrain", "convert_pretrain", "finetune"):
        steps, warm = get(f"{own}.{stage}.steps"), get(f"{own}.{stage}.warmup_steps")
        if warm > steps:
            yield _at(f"{own}.{stage}.warmup_steps"), f"found {warm}, allowed: at most steps = {steps}"
    if not get(f"{own}.finetune.steps"):
        yield _at(f"{own}.finetune.steps"), "found 0, allowed: at least 1"
    if not get(f"{own}.large_checkpoint"):
        for index, name in enumerate(get(f"{own}.variants")):
            if name.endswith("_large"):
                yield (
                    _at(f"{own}.variants", index),
                    f"found {name}, allowed: with a large_checkpoint: full, long_short without",
                )


def _patches(get: Get) -> Iterator[Conflict]:
    """DeiT cuts images into whole patches; ``schema_rules_vision`` asks for those of the pyramids."""
    key, side = "long_short.network.patch_size", SIDE[get("long_short.images.dataset")]
    if "DeiT-S" in get("long_short.grid.networks") and side % (DEIT_PATCH * get(key)):
        fit = ", ".join(str(n) for n in range(1, side + 1) if side % (DEIT_PATCH * n) == 0)
        yield _at(key), f"found {get(key)}, allowed: {fit} (DeiT-S, images of side {side})"


def _similarity(get: Get) -> Iterator[Conflict]:
    """Who is looked at is trained, and has at least two patches in every layer."""
    key, known = "long_short.grid.similarity", get("long_short.grid.networks")
    patch, side = get("long_short.network.patch_size"), SIDE[get("long_short.images.dataset")]
    for index, name in enumerate(get(key)):
        if name not in known:
            yield _at(key, index), f"found {name}, allowed: of grid.networks: {', '.join(known)}"
        elif name == "ResNet-50":
            yield _at(key, index), f"found {name}, allowed: networks of patches"
        else:
            stages = STAGES.get(name.partition("-")[0])
            wide = patch * 2 ** (stages - 1) if stages else DEIT_PATCH * patch
            if side <= wide:
                yield (
                    _at(key, index),
                    f"found {name}, allowed: networks with more than one patch in the last layer, here {wide} pixels wide of {side}",
                )


def _withstand(get: Get) -> Iterator[Conflict]:
    """Who is tested is trained; errors on our own corruptions are relative to those of a network that is tested too."""
    key, known = "robustness.withstand.networks", get("long_short.grid.networks")
    tested = get(key)
    for index, name in enumerate(tested):
        if name not in known:
            yield _at(key, index), f"found {name}, allowed: of long_short.grid.networks: {', '.join(known)}"
    key = "robustness.withstand.reference"
    if tested and get("robustness.withstand.corruptions") and get(key) not in tested:
        yield _at(key), f"found {get(key)}, allowed: of robustness.withstand.networks: {', '.join(tested)}"


def _attacked(get: Get) -> Iterator[Conflict]:
    """Attacked images are some of those that are tested."""
    key, most = "robustness.withstand.pgd.images", get("robustness.withstand.images")
    if most and get(key) > most:
        yield _at(key), f"found {get(key)}, allowed: at most robustness.withstand.images = {most}"


RULES = (
    *(
        _trees,
        _pixels,
        _batches,
        _warmups,
        _windows,
        _band,
        _heads,
        _coverage,
        _characters,
        _phases,
        _scored,
        _longest,
    ),
    _adapted,
    *(_patches, _similarity, _withstand, _attacked),
)


def _sizes(section: Any) -> dict[str, Any]:
    return {name: section[name] for name in ("layers", "dim", "ffn", "heads")}


def _data_memory(get: Get) -> Iterator[Need]:
    """All sequences of a generated task, a byte each value; other tasks have as many as there are."""
    for task in ("listops", "pathfinder"):
        own, key = get(f"long_short.sequences.{task}"), f"long_short.sequences.{task}.train_samples"
        samples = sum(own[f"{part}_samples"] for part in ("train", "valid", "test"))
        sizes = (("samples", samples), ("length", own["max_length"]))
        yield Need(_at(key), get(key), (Tensor("sequences", sizes, 1),))


def _understand_memory(get: Get) -> Iterator[Need]:
    sizes = _sizes(get("long_short.encoder"))
    for task in TASKS:
        key, longest = (
            f"long_short.sequences.{task}.max_length",
            get(f"long_short.sequences.{task}.max_length"),
        )
        own = get(f"long_short.understand.tasks.{task}")
        batch = own["batch_size"] * (2 if task == "retrieval" else 1)
        full = "full" in own["attentions"]
        yield Need(_at(key), longest, transformer(**sizes, length=longest, batch=batch, full=full))


def _predict_memory(get: Get) -> Iterator[Need]:
    """Phases of training, and one layer of an evaluation; their attention goes through the scores in pieces."""
    own = get("long_short.characters")
    large = "large" in get("long_short.predict.variants")
    sizes = _sizes(own) | {"layers": own["large_layers"] if large else own["layers"]}
    for index, phase in enumerate(get("long_short.predict.phases")):
        tensors = transformer(**sizes, length=phase["length"], batch=phase["batch_size"], full=False)
        yield Need((*_at("long_short.predict.phases", index), "length"), phase["length"], tensors)
    way = get("long_short.predict.evaluation")
    tensors = transformer(**sizes | {"layers": 1}, length=way["context"], batch=way["batch_size"], full=False)
    yield Need(_at("long_short.predict.evaluation.context"), way["context"], tensors)


def _curve_memory(get: Get) -> Iterator[Need]:
    own, batch = get("long_short.cost.curve"), get("long_short.cost.curve.batches")[-1]
    longest, last = own["lengths"][-1], len(own["lengths"]) - 1
    tensors = transformer(
        **_sizes(own), length=longest, batch=batch, vocabulary=own["vocabulary"], full=False
    )
    yield Need(_at("long_short.cost.curve.lengths", last), longest, tensors)
    if "full" in own["attentions"]:
        most = min(longest, own["full_longest"])
        key = _at("long_short.cost.curve.full_longest")
        yield Need(key, own["full_longest"], (attention(batch, own["heads"], most),))


def _latency_memory(get: Get) -> Iterator[Need]:
    sizes, own = _sizes(get("long_short.encoder")), get("long_short.cost.latency")
    for task, longest in own["lengths"].items():
        batch = own["batch_size"] * (2 if task == "retrieval" else 1)
        tensors = transformer(**sizes, length=longest, batch=batch, full="full" in own["attentions"])
        yield Need(_at(f"long_short.cost.latency.lengths.{task}"), longest, tensors)


def _adapt_memory(get: Get) -> Iterator[Need]:
    """The encoder that is made here, before and after its conversion; one of a checkpoint has sizes of its own."""
    own = get("long_short.adapt")
    if own["checkpoint"]:
        return
    for length, full, stages in (
        ("config.max_length", True, ("pretrain",)),
        ("max_length", False, ("convert_pretrain", "finetune")),
    ):
        longest = get(f"long_short.adapt.{length}")
        tensors = transformer(
            **_sizes(own["config"]),
            length=longest,
            batch=max(own[stage]["batch_size"] for stage in stages),
            vocabulary=own["config"]["vocabulary"],
            full=full,
        )
        yield Need(_at(f"long_short.adapt.{length}"), longest, tensors)


NEEDS = (_data_memory, _understand_memory, _predict_memory, _curve_memory, _latency_memory, _adapt_memory)
