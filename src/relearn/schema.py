"""What params.yaml may say: names, types, ranges, and the rules that tie several keys together.

The models are strict: text is never read as a number, a truth value never as an integer; an integer may
stand where a number is asked. No key has a default here, so that a run states every value. ``json_schema``
gives the same rules to other tools; ``conflicts`` holds what a schema of single keys cannot say.

Pydantic is imported here, and therefore only inside ``relearn.params.load`` and the tools around it: a
machine that only runs steps does not need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Scale = Literal["mini", "small", "medium", "paper"]
Architecture = Literal[
    "SENet18", "ResNet50", "ResNeXt29-2x64d", "DPN92", "MobileNetV2", "GoogLeNet", "ResNet18", "DenseNet121"
]

Defence = Literal["deep_knn", "l2_outliers", "one_class_svm", "random_eviction", "adversarial_training"]

CLASSES = 10
SMALLEST_CLASS = {"digits": 174, "cifar10": 5000}
"""Images of the smallest class: all of scikit-learn's digits, the training part of CIFAR-10."""
LEFT_FOR_TEST = {"digits": 10, "cifar10": 0}
"""Images a class that must stay over for the test set; CIFAR-10 brings a test set of its own."""


def _unique(items: list[Any]) -> list[Any]:
    if len(set(items)) != len(items):
        raise ValueError("values that differ from each other")
    return items


def _ascending(items: list[Any]) -> list[Any]:
    if any(low >= high for low, high in pairwise(items)):
        raise ValueError("ascending values without repetition")
    return items


Count = Annotated[int, Field(ge=1)]
Class = Annotated[int, Field(ge=0, lt=CLASSES)]
Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Multiple = Annotated[float, Field(gt=0, le=4)]
Unique = Field(min_length=1, json_schema_extra={"uniqueItems": True})
Unique0 = Field(json_schema_extra={"uniqueItems": True})
Ascending = Field(json_schema_extra={"uniqueItems": True})
Milestones = Annotated[list[Count], Ascending, AfterValidator(_ascending)]
Architectures = Annotated[list[Architecture], Unique, AfterValidator(_unique)]


class Section(BaseModel):
    """A mapping whose keys are all known and all present."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Prepare(Section):
    dataset: Literal["digits", "cifar10"]
    pretrain_per_class: Count
    fine_tune_per_class: Count
    pool_per_class: Count


class Substitutes(Section):
    architectures: Architectures
    dropout: Annotated[list[Share], Unique, AfterValidator(_unique)]


class Victims(Section):
    architectures: Architectures


class Network(Section):
    width: Multiple
    depth: Multiple


class Training(Section):
    epochs: Count
    batch_size: Count
    lr: Positive
    momentum: Share
    weight_decay: NotNegative
    schedule: Literal["cosine", "step"]
    crop_padding: Annotated[int, Field(ge=0, le=8)]
    flip: bool
    label_smoothing: Share


class Pretrain(Section):
    substitutes: Substitutes
    victims: Victims
    network: Network
    training: Training


class Adversarial(Section):
    eps: Annotated[float, Field(gt=0, le=1)]
    steps: Count
    step_size: Positive


class HardenTraining(Section):
    epochs: Count
    batch_size: Count
    lr: Positive
    momentum: Share
    weight_decay: NotNegative
    schedule: Literal["cosine", "step"]
    crop_padding: Annotated[int, Field(ge=0, le=8)]
    flip: bool


class Harden(Section):
    adversarial: Adversarial
    training: HardenTraining


class Attack(Section):
    eps: Annotated[float, Field(gt=0, le=1)]
    lr: Positive
    iterations: Count
    dropout: bool


class GradientMatching(Attack):
    parameters: Literal["head", "all"]


class WhiteBox(Section):
    eps: Annotated[float, Field(gt=0, le=1)]
    lr: Positive
    iterations: Count
    mu: Positive


class Watermark(WhiteBox):
    watermark: Annotated[float, Field(ge=0, lt=1)]


class Attacks(Section):
    feature_collision: Attack
    convex_polytope: Attack
    multi_layer: Attack
    multi_layer_as_released: Attack
    bullseye_polytope: Attack
    gradient_matching: GradientMatching
    white_box_collision: WhiteBox
    white_box_watermark: Watermark


class Craft(Section):
    poison_class: Class
    target_class: Class
    poisons: Count
    targets: Count
    attacks: Attacks


class DeepKNN(Section):
    k: Count
    sweep: Annotated[list[Count], Unique, AfterValidator(_ascending)]
    include_self: bool


class L2Outliers(Section):
    fraction: Share


class OneClassSVM(Section):
    nu: Annotated[float, Field(gt=0, le=1)]


class RandomEviction(Section):
    fraction: Share
    feature_collision_fraction: Share


class Filter(Section):
    deep_knn: DeepKNN
    l2_outliers: L2Outliers
    one_class_svm: OneClassSVM
    random_eviction: RandomEviction


class Transfer(Section):
    epochs: Count
    batch_size: Count
    lr: Positive
    weight_decay: NotNegative
    milestones: Milestones
    reset_head: bool


class EndToEnd(Section):
    epochs: Count
    batch_size: Count
    lr: Positive
    weight_decay: NotNegative
    milestones: Milestones
    test_images: Count


class Train(Section):
    transfer: Transfer
    end_to_end: EndToEnd


Names = Annotated[list[Architecture], Unique0, AfterValidator(_unique)]
Defences = Annotated[list[Defence], Unique0, AfterValidator(_unique)]


class TransferStudy(Section):
    feature_collision: Defences
    convex_polytope: Defences
    bullseye_polytope: Defences
    gradient_matching: Defences


class DropoutStudy(Section):
    attacks: Annotated[
        list[Literal["feature_collision", "convex_polytope"]], Unique0, AfterValidator(_unique)
    ]
    watch_every: Count
    victims: Names


class OverlapStudy(Section):
    attack: Literal["convex_polytope"]
    substitutes: Substitutes
    victims: Names


class EndToEndStudy(Section):
    attacks: Annotated[
        list[Literal["convex_polytope", "multi_layer", "multi_layer_as_released"]],
        Unique0,
        AfterValidator(_unique),
    ]
    substitutes: Substitutes
    victims: Names
    targets: Count


class ImbalanceStudy(Section):
    attacks: Annotated[
        list[Literal["feature_collision", "convex_polytope"]], Unique0, AfterValidator(_unique)
    ]
    victims: Names
    k: Count
    class_sizes: Annotated[list[Count], Unique, AfterValidator(_ascending)]


class WhiteBoxStudy(Section):
    attacks: Annotated[
        list[Literal["white_box_collision", "white_box_watermark"]], Unique0, AfterValidator(_unique)
    ]
    victim: Architecture


class FeaturePlane(Section):
    attack: Literal["feature_collision", "convex_polytope"]
    victim: Architecture
    target: Annotated[int, Field(ge=0)]


class Studies(Section):
    transfer: TransferStudy
    dropout: DropoutStudy
    overlap: OverlapStudy
    end_to_end: EndToEndStudy
    imbalance: ImbalanceStudy
    white_box: WhiteBoxStudy
    feature_plane: FeaturePlane


class Pgd(Section):
    eps: Annotated[list[Annotated[float, Field(gt=0, le=1)]], Unique, AfterValidator(_ascending)]
    steps: Count
    restarts: Count
    images: Count


class Corruptions(Section):
    images: Count


class Hull(Section):
    dimension: Count
    poisons: Count
    problems: Count


class Evaluate(Section):
    calibration_bins: Annotated[int, Field(ge=2)]
    pgd: Pgd
    corruptions: Corruptions
    hull: Hull


class Poisoning(Section):
    seeds: Annotated[list[Annotated[int, Field(ge=0, lt=2**32)]], Unique, AfterValidator(_unique)]
    prepare: Prepare
    pretrain: Pretrain
    harden: Harden
    craft: Craft
    filter: Filter
    train: Train
    studies: Studies
    evaluate: Evaluate


class Params(Section):
    """The whole of params.yaml."""

    scale: Scale
    poisoning: Poisoning


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
    most = SMALLEST_CLASS[dataset] - LEFT_FOR_TEST[dataset]
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
        ("poisoning.harden.training.batch_size", "poisoning.prepare.pretrain_per_class"),
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
    for study in ("dropout", "overlap", "end_to_end", "imbalance"):
        key = f"poisoning.studies.{study}.victims"
        for index, victim in enumerate(get(key)):
            if victim not in known:
                allowed = f"one of pretrain.victims.architectures: {', '.join(known)}"
                yield _at(key, index), f"found {victim}, allowed: {allowed}"
    victim = get("poisoning.studies.white_box.victim")
    if victim not in known:
        allowed = f"one of pretrain.victims.architectures: {', '.join(known)}"
        yield _at("poisoning.studies.white_box.victim"), f"found {victim}, allowed: {allowed}"


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


RULES = (
    *(_split, _images, _poisons, _targets, _classes, _neighbours, _milestones, _batches),
    *(_victims, _study_targets, _class_sizes),
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


def json_schema() -> dict[str, Any]:
    """The rules of single keys as JSON Schema (draft 2020-12), for editors and other tools."""
    schema = Params.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "params.yaml"}
