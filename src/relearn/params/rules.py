"""What params.yaml may say: the rules that tie several keys together.

Each rule yields the key path at fault and one line: what was found, what is allowed. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from relearn.data.facts import CLASSES, MOST_FOR_TRAINING, images_for_testing
from relearn.params import forecast_memory
from relearn.params import rules_vision as schema_rules_vision
from relearn.studies.long_short import params_rules as schema_rules_long_short

Get = Callable[[str], Any]
Conflict = tuple[tuple[str | int, ...], str]
"""Key path, and one line: what was found and what is allowed."""


def _at(key: str, *index: int) -> tuple[str | int, ...]:
    return (*key.split("."), *index)


def _split(get: Get) -> Iterator[Conflict]:
    tune, pool = get("poisoning.prepare.fine_tune_per_class"), get("poisoning.prepare.pool_per_class")
    if tune > pool:
        yield (
            _at("poisoning.prepare.fine_tune_per_class"),
            f"found {tune}, allowed: at most pool_per_class = {pool}",
        )


def _images(get: Get) -> Iterator[Conflict]:
    dataset = get("poisoning.prepare.dataset")
    asked = get("poisoning.prepare.pretrain_per_class") + get("poisoning.prepare.pool_per_class")
    most = MOST_FOR_TRAINING[dataset]
    if asked > most:
        yield (
            _at("poisoning.prepare.pretrain_per_class"),
            f"found {asked} with pool_per_class added, allowed: at most {most} images a class of {dataset}",
        )


def _poisons(get: Get) -> Iterator[Conflict]:
    poisons, tune = get("poisoning.craft.poisons"), get("poisoning.prepare.fine_tune_per_class")
    if poisons > tune:
        yield (
            _at("poisoning.craft.poisons"),
            f"found {poisons}, allowed: at most fine_tune_per_class = {tune}",
        )


def _targets(get: Get) -> Iterator[Conflict]:
    spare = get("poisoning.prepare.pool_per_class") - get("poisoning.prepare.fine_tune_per_class")
    targets = get("poisoning.craft.targets")
    if targets > spare:
        allowed = f"at most pool_per_class - fine_tune_per_class = {spare}"
        yield _at("poisoning.craft.targets"), f"found {targets}, allowed: {allowed}"


def _classes(get: Get) -> Iterator[Conflict]:
    target = get("poisoning.craft.target_class")
    if target == get("poisoning.craft.poison_class"):
        allowed = "a class other than poison_class"
        yield _at("poisoning.craft.target_class"), f"found {target}, allowed: {allowed}"


def _neighbours(get: Get) -> Iterator[Conflict]:
    points = get("poisoning.prepare.fine_tune_per_class") * CLASSES
    itself = get("poisoning.filter.deep_knn.include_self")
    most = points if itself else points - 1
    why = f"at most {most} ({points} fine-tuning images{'' if itself else ' less the image itself'})"
    k = get("poisoning.filter.deep_knn.k")
    if k > most:
        yield _at("poisoning.filter.deep_knn.k"), f"found {k}, allowed: {why}"
    for index, k in enumerate(get("poisoning.filter.deep_knn.sweep")):
        if k > most:
            yield _at("poisoning.filter.deep_knn.sweep", index), f"found {k}, allowed: {why}"


def _milestones(get: Get) -> Iterator[Conflict]:
    for recipe in ("transfer", "end_to_end"):
        epochs = get(f"poisoning.train.{recipe}.epochs")
        for index, milestone in enumerate(get(f"poisoning.train.{recipe}.milestones")):
            if milestone >= epochs:
                yield (
                    _at(f"poisoning.train.{recipe}.milestones", index),
                    f"found {milestone}, allowed: less than epochs = {epochs}",
                )


def _batches(get: Get) -> Iterator[Conflict]:
    for batch, images in (
        ("poisoning.pretrain.training.batch_size", "poisoning.prepare.pretrain_per_class"),
        ("poisoning.adversarial_training.training.batch_size", "poisoning.prepare.pretrain_per_class"),
        ("poisoning.train.transfer.batch_size", "poisoning.prepare.fine_tune_per_class"),
        ("poisoning.train.end_to_end.batch_size", "poisoning.prepare.fine_tune_per_class"),
    ):
        size, most = get(batch), CLASSES * get(images)
        if size > most:
            yield (
                _at(batch),
                f"found {size}, allowed: at most {most} images ({CLASSES} x {images.split('.')[-1]})",
            )


def _victims(get: Get) -> Iterator[Conflict]:
    """A study attacks networks that are there."""
    known = get("poisoning.pretrain.victims.architectures")
    allowed = f"one of pretrain.victims.architectures: {', '.join(known)}"
    for study in ("dropout", "overlap", "end_to_end", "imbalance"):
        key = f"poisoning.studies.{study}.victims"
        for index, victim in enumerate(get(key)):
            if victim not in known:
                yield _at(key, index), f"found {victim}, allowed: {allowed}"
    key = "poisoning.studies.white_box.victim"
    victim = get(key)
    if victim not in known:
        yield _at(key), f"found {victim}, allowed: {allowed}"


def _study_targets(get: Get) -> Iterator[Conflict]:
    targets = get("poisoning.craft.targets")
    some = get("poisoning.studies.end_to_end.targets")
    if some > targets:
        yield (
            _at("poisoning.studies.end_to_end.targets"),
            f"found {some}, allowed: at most craft.targets = {targets}",
        )
    number = get("poisoning.studies.feature_plane.target")
    if number >= targets:
        yield (
            _at("poisoning.studies.feature_plane.target"),
            f"found {number}, allowed: 0 to {targets - 1} (craft.targets - 1)",
        )


def _class_sizes(get: Get) -> Iterator[Conflict]:
    tune = get("poisoning.prepare.fine_tune_per_class")
    sizes = get("poisoning.studies.imbalance.class_sizes")
    for index, size in enumerate(sizes):
        if size > tune:
            yield (
                _at("poisoning.studies.imbalance.class_sizes", index),
                f"found {size}, allowed: at most fine_tune_per_class = {tune}",
            )
    points = tune * (CLASSES - 1) + min(sizes)
    most = points if get("poisoning.filter.deep_knn.include_self") else points - 1
    k = get("poisoning.studies.imbalance.k")
    if k > most:
        yield (
            _at("poisoning.studies.imbalance.k"),
            f"found {k}, allowed: at most {most} (images left when the target class has {min(sizes)})",
        )


def _test_images(get: Get) -> Iterator[Conflict]:
    """A number of test images that a run states is the number that it takes."""
    dataset = get("poisoning.prepare.dataset")
    used = get("poisoning.prepare.pretrain_per_class") + get("poisoning.prepare.pool_per_class")
    most = images_for_testing(dataset, CLASSES * used)
    for key in (
        "poisoning.train.end_to_end.test_images",
        "poisoning.evaluate.pgd.images",
        "poisoning.evaluate.corruptions.images",
    ):
        asked = get(key)
        if asked > most:
            yield _at(key), f"found {asked}, allowed: at most the {most} test images of {dataset}"


NEEDS = (
    *schema_rules_vision.NEEDS,
    *schema_rules_long_short.NEEDS,
)
"""Forecasts of memory. Poisoning and robustness have none: their single bounds keep them far below the limit."""


def needs(get: Get) -> Iterator[forecast_memory.Need]:
    """What the jobs behind the values need; forecasts that want for a value are passed over, as rules are."""
    for forecast in NEEDS:
        try:
            yield from forecast(get)
        except KeyError:
            continue


def _memory(get: Get) -> Iterator[Conflict]:
    yield from forecast_memory.refused(needs(get))


RULES = (
    *(_split, _images, _poisons, _targets, _classes, _neighbours, _milestones, _batches),
    *(_victims, _study_targets, _class_sizes, _test_images),
    *schema_rules_vision.RULES,
    *schema_rules_long_short.RULES,
    _memory,
)


def conflicts(get: Get) -> Iterator[Conflict]:
    """Rules between keys that the values break.

    ``get`` returns the value at a dotted key path and raises KeyError for one that is missing or already
    known to be wrong; the rules that need it are then passed over, the others still report.
    """
    for rule in RULES:
        try:
            yield from rule(get)
        except KeyError:
            continue
