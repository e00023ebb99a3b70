"""Types, ranges and rules of params.yaml, against hand-written tables and what the house really holds."""

from __future__ import annotations

import ast
import functools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import jsonschema
import pytest

from relearn import data, models
from relearn.methods import ATTACKS, DEFENCES
from relearn.params import reading as params
from relearn.params import rules as schema_rules
from relearn.params.strict_yaml import dotted
from relearn.studies import parameters
from relearn.studies.gradinit import params as schema_gradinit
from relearn.studies.poisoning import params as schema

from ..studies.freelb import ranges as ranges_freelb
from ..studies.gradinit import ranges as ranges_gradinit
from ..studies.l2_attention import ranges as ranges_l2_attention
from ..studies.lipsformer import ranges as ranges_lipsformer
from ..studies.long_short import ranges as ranges_long_short
from . import ranges_vision

ROOT = Path(__file__).resolve().parents[2]
P = "poisoning"
CIFAR = {f"{P}.prepare.dataset": "cifar10"}
TOO_MANY_SEEDS = 2**32

ATTACKS_OF = f"{P}.craft.attacks"
STUDIES = f"{P}.studies"
PAIR = ["SENet18", "ResNet18"]

# key: (allowed, refused), every bound from both sides
RANGES: dict[str, tuple[list[Any], list[Any]]] = {
    "scale": (["mini"], ["Mini", "tiny", "", 1, None, True]),
    f"{P}.seeds": (
        [[0], [TOO_MANY_SEEDS - 1, 3]],
        [[], [-1], [TOO_MANY_SEEDS], [1, 1], [0.5], ["0"], [True], 0],
    ),
    f"{P}.prepare.dataset": (["digits"], ["mnist", "Digits", 8]),
    f"{P}.prepare.pretrain_per_class": ([7, 79], [0, -1, 70.0, "70", True]),
    f"{P}.pretrain.substitutes.architectures": ([["DPN92"]], [[], ["VGG"], ["DPN92", "DPN92"], "DPN92"]),
    f"{P}.pretrain.substitutes.dropout": ([[0], [0.0, 0.99]], [[], [1], [1.0], [-0.1], [0.2, 0.2], 0.2]),
    f"{P}.pretrain.network.width": ([0.01, 1, 4], [0, -1.0, 4.1, float("inf"), float("nan"), "1", False]),
    f"{P}.pretrain.training.epochs": ([1, 300], [0, -1, 1.5]),
    f"{P}.pretrain.training.lr": ([1.0e-9, 1], [0, 0.0, -0.1, float("inf"), float("nan"), "0.1"]),
    f"{P}.pretrain.training.momentum": ([0, 0.99], [1, -0.1]),
    f"{P}.pretrain.training.weight_decay": ([0, 0.0, 2], [-1.0e-9, float("inf"), float("nan")]),
    f"{P}.pretrain.training.schedule": (["step"], ["linear"]),
    f"{P}.pretrain.training.crop_padding": ([0, 16], [-1, 17, 1.0]),
    f"{P}.pretrain.training.flip": ([True, False], [0, 1, "true", None]),
    f"{P}.pretrain.training.label_smoothing": ([0, 0.5], [1, -0.1]),
    f"{P}.adversarial_training.adversarial.eps": ([1.0e-6, 1], [0, -0.1, 1.0001, float("nan")]),
    f"{P}.adversarial_training.adversarial.steps": ([1, 40], [0, -1, 3.0]),
    f"{P}.adversarial_training.adversarial.step_size": ([1.0e-6, 2], [0, -0.1, float("inf"), float("nan")]),
    f"{P}.adversarial_training.training.epochs": ([1], [0, 1.5]),
    f"{P}.adversarial_training.training.schedule": (["step", "cosine"], ["linear", None]),
    f"{P}.craft.poison_class": ([0, 9], [-1, 10, 1.0]),
    f"{P}.craft.poisons": ([1, 50], [0, -5]),
    f"{P}.craft.targets": ([5, 20], [0, -1]),
    f"{ATTACKS_OF}.convex_polytope.eps": ([1.0e-6, 1, 1.0], [0, -0.1, 1.0001, float("nan")]),
    f"{ATTACKS_OF}.feature_collision.lr": ([0.04], [0, -0.04, float("nan")]),
    f"{ATTACKS_OF}.multi_layer.iterations": ([1], [0, 10.0]),
    f"{ATTACKS_OF}.bullseye_polytope.dropout": ([True, False], [0, 0.2, "true"]),
    f"{ATTACKS_OF}.gradient_matching.parameters": (["head", "all"], ["heads", "", 1, None]),
    f"{ATTACKS_OF}.white_box_collision.mu": ([1.0e-6, 100], [0, -1, float("inf"), float("nan")]),
    f"{ATTACKS_OF}.white_box_watermark.watermark": ([0, 0.99], [1, 1.0, -0.1, float("nan")]),
    f"{P}.filter.deep_knn.k": ([1, 499], [0, -1, 2.0]),
    f"{P}.filter.deep_knn.sweep": ([[2], [2, 499]], [[], [0], [5, 2], [2, 2]]),
    f"{P}.filter.deep_knn.include_self": ([True, False], [0, "no"]),
    f"{P}.filter.l2_outliers.fraction": ([0, 0.99], [1, -0.1, float("nan")]),
    f"{P}.filter.one_class_svm.nu": ([0.01, 1], [0, 1.01, -0.1]),
    f"{P}.filter.random_eviction.feature_collision_fraction": ([0, 0.99], [1, -0.1]),
    f"{P}.train.transfer.milestones": ([[], [1, 59]], [[0], [45, 30], [30, 30], 30]),
    f"{P}.train.transfer.reset_head": ([True, False], [1, None]),
    f"{P}.train.end_to_end.milestones": ([[], [1, 11]], [[0], [9, 6], [6, 6], 6]),
    f"{P}.train.end_to_end.test_images": ([1, 397], [0, 3.0]),
    f"{STUDIES}.transfer.feature_collision": (
        [[], ["deep_knn"], ["adversarial_training", "l2_outliers"]],
        [["none"], ["deep_knn", "deep_knn"], "deep_knn", [1]],
    ),
    f"{STUDIES}.transfer.convex_polytope": ([[]], [["knn"]]),
    f"{STUDIES}.transfer.bullseye_polytope": ([[], ["one_class_svm"]], [["knn"]]),
    f"{STUDIES}.transfer.gradient_matching": ([[], ["random_eviction"]], [["knn"]]),
    f"{STUDIES}.dropout.attacks": (
        [[], ["convex_polytope"], ["convex_polytope", "feature_collision"]],
        [["multi_layer"], ["convex_polytope", "convex_polytope"], "convex_polytope"],
    ),
    f"{STUDIES}.dropout.watch_every": ([1, 1000], [0, 10.0]),
    f"{STUDIES}.dropout.victims": ([[], PAIR], [["VGG"], ["ResNet18", "ResNet18"], "ResNet18"]),
    f"{STUDIES}.overlap.attack": (["convex_polytope"], ["feature_collision", ["convex_polytope"]]),
    f"{STUDIES}.overlap.substitutes.dropout": ([[0.0, 0.99]], [[], [1.0], [0.2, 0.2]]),
    f"{STUDIES}.overlap.victims": ([[], PAIR], [["VGG"]]),
    f"{STUDIES}.end_to_end.attacks": (
        [[], ["multi_layer"], ["multi_layer_as_released", "convex_polytope"]],
        [["feature_collision"], ["multi_layer", "multi_layer"]],
    ),
    f"{STUDIES}.end_to_end.substitutes.architectures": ([["DPN92", "GoogLeNet"]], [[], ["VGG"]]),
    f"{STUDIES}.end_to_end.victims": ([[], PAIR], [["VGG"]]),
    f"{STUDIES}.end_to_end.targets": ([1, 20], [0, 5.0]),
    f"{STUDIES}.imbalance.attacks": ([[], ["feature_collision"]], [["multi_layer"], "convex_polytope"]),
    f"{STUDIES}.imbalance.victims": ([[], PAIR], [["VGG"]]),
    f"{STUDIES}.imbalance.k": ([1, 451], [0, 2.0]),
    f"{STUDIES}.imbalance.class_sizes": ([[1], [2, 50]], [[], [0], [5, 2], [2, 2], 2]),
    f"{STUDIES}.white_box.attacks": (
        [[], ["white_box_watermark", "white_box_collision"]],
        [["convex_polytope"], ["white_box_watermark", "white_box_watermark"]],
    ),
    f"{STUDIES}.white_box.victim": (["SENet18"], ["VGG", PAIR, None]),
    f"{STUDIES}.feature_plane.attack": (["feature_collision"], ["bullseye_polytope", ["convex_polytope"]]),
    f"{STUDIES}.feature_plane.victim": (["DPN92", "SENet18"], ["VGG", PAIR]),
    f"{STUDIES}.feature_plane.target": ([0, 19], [-1, 1.0]),
    f"{P}.evaluate.calibration_bins": ([2, 15], [1, 0]),
    f"{P}.evaluate.pgd.eps": (
        [[1.0e-6, 1], [0.5]],
        [[], [0], [0.0, 0.1], [1.01], [0.1, 0.05], [0.1, 0.1], [float("nan")], 0.1],
    ),
    f"{P}.evaluate.pgd.restarts": ([1, 5], [0, 1.5]),
    f"{P}.evaluate.pgd.images": ([1, 397], [0]),
    f"{P}.evaluate.corruptions.images": ([1, 397], [0, 100.0]),
    f"{P}.evaluate.hull.problems": ([1], [0]),
}

for ranges in (
    *(ranges_gradinit, ranges_l2_attention, ranges_lipsformer, ranges_vision, ranges_long_short),
    ranges_freelb,
):
    RANGES |= ranges.RANGES

# (values that are just allowed together, values that are not, the key that the message must name)
RULES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {f"{P}.prepare.fine_tune_per_class": 50},
        {f"{P}.prepare.fine_tune_per_class": 71},
        f"{P}.prepare.fine_tune_per_class",
    ),
    (
        {f"{P}.prepare.pretrain_per_class": 94, f"{P}.train.end_to_end.test_images": 100},
        {f"{P}.prepare.pretrain_per_class": 95},
        f"{P}.prepare.pretrain_per_class",
    ),
    (
        {**CIFAR, f"{P}.prepare.pretrain_per_class": 4930},
        {**CIFAR, f"{P}.prepare.pretrain_per_class": 4931},
        f"{P}.prepare.pretrain_per_class",
    ),
    ({f"{P}.craft.poisons": 50}, {f"{P}.craft.poisons": 51}, f"{P}.craft.poisons"),
    ({f"{P}.craft.targets": 20}, {f"{P}.craft.targets": 21}, f"{P}.craft.targets"),
    ({f"{P}.craft.target_class": 2}, {f"{P}.craft.target_class": 1}, f"{P}.craft.target_class"),
    ({f"{P}.filter.deep_knn.k": 499}, {f"{P}.filter.deep_knn.k": 500}, f"{P}.filter.deep_knn.k"),
    (
        {f"{P}.filter.deep_knn.k": 500, f"{P}.filter.deep_knn.include_self": True},
        {f"{P}.filter.deep_knn.k": 501, f"{P}.filter.deep_knn.include_self": True},
        f"{P}.filter.deep_knn.k",
    ),
    (
        {f"{P}.filter.deep_knn.sweep": [2, 499]},
        {f"{P}.filter.deep_knn.sweep": [2, 500]},
        f"{P}.filter.deep_knn.sweep[1]",
    ),
    *(
        (
            {f"{P}.train.{recipe}.epochs": 7, f"{P}.train.{recipe}.milestones": [3, 6]},
            {f"{P}.train.{recipe}.epochs": 7, f"{P}.train.{recipe}.milestones": [3, 7]},
            f"{P}.train.{recipe}.milestones[1]",
        )
        for recipe in ("transfer", "end_to_end")
    ),
    *(
        (
            {f"{P}.{section}.batch_size": most},
            {f"{P}.{section}.batch_size": most + 1},
            f"{P}.{section}.batch_size",
        )
        for section, most in (
            ("pretrain.training", 700),
            ("adversarial_training.training", 700),
            ("train.transfer", 500),
            ("train.end_to_end", 500),
        )
    ),
    # who is attacked is there
    *(
        (
            {f"{STUDIES}.{study}.victims": ["DenseNet121", "SENet18"]},
            {f"{STUDIES}.{study}.victims": ["DenseNet121", "GoogLeNet"]},
            f"{STUDIES}.{study}.victims[1]",
        )
        for study in ("dropout", "overlap", "end_to_end", "imbalance")
    ),
    (
        {f"{STUDIES}.white_box.victim": "DenseNet121"},
        {f"{STUDIES}.white_box.victim": "GoogLeNet"},
        f"{STUDIES}.white_box.victim",
    ),
    # targets of a study are among all targets
    (
        {f"{P}.craft.targets": 7, f"{STUDIES}.end_to_end.targets": 7},
        {f"{P}.craft.targets": 7, f"{STUDIES}.end_to_end.targets": 8},
        f"{STUDIES}.end_to_end.targets",
    ),
    (
        {f"{P}.craft.targets": 7, f"{STUDIES}.feature_plane.target": 6},
        {f"{P}.craft.targets": 7, f"{STUDIES}.feature_plane.target": 7},
        f"{STUDIES}.feature_plane.target",
    ),
    # a class is cut, and neighbours are among what is left: 9 classes of 50 and the smallest size, less the image itself
    (
        {f"{STUDIES}.imbalance.class_sizes": [2, 50]},
        {f"{STUDIES}.imbalance.class_sizes": [2, 51]},
        f"{STUDIES}.imbalance.class_sizes[1]",
    ),
    (
        {f"{STUDIES}.imbalance.class_sizes": [3, 50], f"{STUDIES}.imbalance.k": 452},
        {f"{STUDIES}.imbalance.class_sizes": [3, 50], f"{STUDIES}.imbalance.k": 453},
        f"{STUDIES}.imbalance.k",
    ),
    (
        {f"{STUDIES}.imbalance.k": 452, f"{P}.filter.deep_knn.include_self": True},
        {f"{STUDIES}.imbalance.k": 453, f"{P}.filter.deep_knn.include_self": True},
        f"{STUDIES}.imbalance.k",
    ),
    # test images: of the digits what the two parts leave of 1797, of CIFAR-10 its own 10,000
    *(
        ({f"{P}.{key}": 397}, {f"{P}.{key}": 398}, f"{P}.{key}")
        for key in ("train.end_to_end.test_images", "evaluate.pgd.images", "evaluate.corruptions.images")
    ),
    (
        {**CIFAR, f"{P}.evaluate.corruptions.images": 10_000},
        {**CIFAR, f"{P}.evaluate.corruptions.images": 10_001},
        f"{P}.evaluate.corruptions.images",
    ),
    *ranges_gradinit.RULES,
    *ranges_l2_attention.RULES,
    *ranges_lipsformer.RULES,
    *ranges_vision.RULES,
    *ranges_long_short.RULES,
    *ranges_freelb.RULES,
    # two keys that are each in their range, and together more than fits into memory
    (
        {"l2_attention.inversion.batch": 2**14, "l2_attention.inversion.dims": [64, 128]},
        {"l2_attention.inversion.batch": 2**14, "l2_attention.inversion.lengths": [16, 2**16]},
        "l2_attention.inversion.batch",
    ),
]


@pytest.fixture(scope="module", autouse=True)
def one_reading() -> Iterator[None]:
    """Files are read once for all values that are tried over them: reading takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(params, "read", functools.cache(params.read))
        yield


def nested(values: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *above, last = key.split(".")
        branch = tree
        for name in above:
            branch = branch.setdefault(name, {})
        branch[last] = value
    return tree


def json_can_say(value: Any) -> bool:
    """JSON Schema knows no order of a list, no NaN, and takes 1.0 for a whole number."""
    if isinstance(value, float):
        return math.isfinite(value) and not value.is_integer()
    if isinstance(value, list) and any(one != one for one in value):
        return False
    sections = [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
    if not all(json_can_say(part) for one in sections for part in one.values()):
        return False
    return not isinstance(value, list) or value in ([], sorted(value, key=str)) or len(value) < 2


def problems(values: dict[str, Any]) -> list[str]:
    try:
        parameters.load(ROOT / "params.yaml", overrides=nested(values))
    except params.ParamsError as error:
        return error.problems
    return []


def named(found: list[str], key: str) -> bool:
    return any(line.startswith(f"override: {key}: found ") and "allowed: " in line for line in found)


def section_of(key: str) -> str:
    return ".".join(key.split(".")[:2])


@pytest.mark.parametrize("section", dict.fromkeys(map(section_of, RANGES)))
def test_a_range_holds_on_both_sides(section: str) -> None:
    for key, (allowed, refused) in RANGES.items():
        if section_of(key) != section:
            continue
        for value in allowed:
            assert problems({key: value}) == [], (key, value)
        if key == "scale":
            for value in refused[:3]:
                with pytest.raises(params.ParamsError, match="allowed: mini, small, medium, paper"):
                    parameters.load(ROOT / "params.yaml", scale=value)
            continue
        for value in refused:
            found = problems({key: value})
            assert found, (key, value)
            assert found[0].startswith((f"override: {key}: found ", f"override: {key}[")), found
            assert "allowed: " in found[0]


def test_the_tables_reach_every_kind_of_key() -> None:
    """What no table tries has the type of a key that one tries."""
    tried = {key.rpartition(".")[2].partition("[")[0] for key in [*RANGES, *(rule[2] for rule in RULES)]}
    keys = {key.rpartition(".")[2] for key in params.leaves(parameters.load(ROOT / "params.yaml"))}
    assert keys - tried == {
        "pool_per_class",  # in the rules, from the other side
        "dimension",  # as problems
    }


def test_every_rule_between_keys_is_tried() -> None:
    """Without a rule, the refused values of some line of the table would pass."""
    alone = set()
    for _, beyond, key in RULES:
        values = laid_over(parameters.load(ROOT / "params.yaml"), beyond)
        broken = [rule for rule in schema_rules.RULES if key in broken_by(rule, values)]
        alone |= set(broken) if len(broken) == 1 else set()
    assert [rule.__name__ for rule in schema_rules.RULES if rule not in alone] == []


def laid_over(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The values with changes at dotted keys: a copy down to what is changed."""
    tree = dict(values)
    for key, value in changes.items():
        *above, last = key.split(".")
        branch = tree
        for name in above:
            branch[name] = dict(branch[name])
            branch = branch[name]
        branch[last] = value
    return tree


def broken_by(rule: Any, values: dict[str, Any]) -> list[str]:
    """The keys that a rule alone finds fault with."""
    return [dotted(path) for path, _ in rule(functools.partial(params.section, values))]


@pytest.mark.parametrize(("within", "beyond", "key"), RULES, ids=[rule[2] for rule in RULES])
def test_a_rule_between_keys_holds_exactly_up_to_its_bound(
    within: dict[str, Any], beyond: dict[str, Any], key: str
) -> None:
    assert problems(within) == []
    found = problems(beyond)
    assert named(found, key)
    assert all("\n" not in line for line in found)


def test_the_pool_may_be_all_fine_tuning_images_but_for_the_targets() -> None:
    small = {f"{P}.prepare.pool_per_class": 51, f"{P}.craft.targets": 1, f"{STUDIES}.end_to_end.targets": 1}
    assert problems(small) == []
    found = problems({**small, f"{P}.prepare.pool_per_class": 50})
    assert len(found) == 1
    assert "at most pool_per_class - fine_tune_per_class = 0" in found[0]


def test_a_wrong_key_silences_only_the_rules_that_need_it() -> None:
    found = problems(
        {
            f"{P}.prepare.fine_tune_per_class": "fifty",
            f"{P}.train.transfer.milestones": [99],
            f"{P}.craft.target_class": 1,
        }
    )
    named = [line.split(": ")[1] for line in found]
    assert f"{P}.prepare.fine_tune_per_class" in " ".join(found)
    assert {f"{P}.train.transfer.milestones[0]", f"{P}.craft.target_class"} <= set(named)
    needed_it = ("craft.targets", "deep_knn", "imbalance", "transfer.batch_size")
    assert not any(key in line for key in needed_it for line in found)


def test_names_are_those_of_the_rooms() -> None:
    assert set(get_args(schema.Architecture)) <= set(models.MODELS)
    assert set(schema.Filter.model_fields) == set(DEFENCES)
    assert set(get_args(schema.Defence)) == {*DEFENCES, "adversarial_training"}
    assert get_args(parameters.schema().model_fields["scale"].annotation) == params.SCALES
    assert set(get_args(schema.Prepare.model_fields["dataset"].annotation)) == set(data.DATASETS)
    assert {*get_args(schema.Architecture), *get_args(schema_gradinit.NetworkName)} == set(models.MODELS)
    assert set(get_args(schema_gradinit.CorpusOf.model_fields["dataset"].annotation)) == set(data.CORPORA)


def test_the_attacks_of_the_parameters_are_runs_with_a_method_each() -> None:
    """Several runs may share a method: the workflow says which (METHOD_OF), and every method has a run."""
    rules = (ROOT / "workflow/settings/poisoning.smk").read_text()
    tree = ast.parse(rules)
    (method_of,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "METHOD_OF"
    )
    runs = set(schema.Attacks.model_fields)
    assert set(method_of) <= runs
    assert {method_of.get(run, run) for run in runs} == set(ATTACKS)


def test_every_attack_of_a_study_has_its_section() -> None:
    named_in_studies: set[str] = set(schema.TransferStudy.model_fields)
    for study in schema.Studies.model_fields.values():
        for name in ("attacks", "attack"):
            if field := study.annotation.model_fields.get(name):  # type: ignore[union-attr]
                node = field.annotation
                while get_origin(node) is not Literal:
                    node = get_args(node)[0]
                named_in_studies |= set(get_args(node))
    assert named_in_studies == set(schema.Attacks.model_fields)


def test_no_key_has_a_default_and_every_section_is_closed() -> None:
    def sections(model: type[schema.Section]) -> list[type[schema.Section]]:
        below = [field.annotation for field in model.model_fields.values()]
        inner = [one for one in below if isinstance(one, type) and issubclass(one, schema.Section)]
        return [model, *(found for one in inner for found in sections(one))]

    for section in sections(parameters.schema()):
        assert section.model_config["extra"] == "forbid"
        assert section.model_config["strict"] is True
        assert all(field.is_required() for field in section.model_fields.values()), section


def test_the_exported_schema_judges_as_the_models_do() -> None:
    """Another validator, the same verdicts; what JSON cannot say (order, NaN, the type of 1.0) left out."""
    tree = schema.json_schema()
    jsonschema.Draft202012Validator.check_schema(tree)
    whole = jsonschema.Draft202012Validator(tree)
    base = parameters.load(ROOT / "params.yaml")
    assert whole.is_valid(base)
    # a key is judged with its study: the top of the tree knows no more than which studies there are
    assert (
        not set(tree)
        - {"$schema", "$defs", "title", "description", "type", "properties"}
        - {
            *("required", "additionalProperties"),
        }
    )
    studies = {
        name: whole.evolve(schema={"$defs": tree["$defs"], **own}) for name, own in tree["properties"].items()
    }
    for key, (allowed, refused) in RANGES.items():
        study = key.partition(".")[0]
        for verdict, values in ((True, allowed), (False, refused)):
            for value in filter(json_can_say, values):
                found = json.loads(json.dumps(laid_over(base, {key: value})[study]))
                assert studies[study].is_valid(found) is verdict, (key, value)
