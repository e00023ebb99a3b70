"""Types, ranges and rules of params.yaml, against hand-written tables and what the house really holds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, get_args

import jsonschema
import numpy as np
import pytest

from relearn import data, models, params, schema
from relearn.data import digits
from relearn.methods import ATTACKS, DEFENCES
from relearn.steps.validate import schema_text

ROOT = Path(__file__).resolve().parents[1]
P = "poisoning"
CIFAR = {f"{P}.prepare.dataset": "cifar10"}
TOO_MANY_SEEDS = 2**32

# key: (allowed, refused), every bound from both sides
RANGES: dict[str, tuple[list[Any], list[Any]]] = {
    "scale": (["mini"], ["Mini", "tiny", "", 1, None, True]),
    f"{P}.seeds": (
        [[0], [TOO_MANY_SEEDS - 1, 3]],
        [[], [-1], [TOO_MANY_SEEDS], [1, 1], [0.5], ["0"], [True], 0],
    ),
    f"{P}.prepare.dataset": (["digits"], ["mnist", "Digits", 8]),
    f"{P}.prepare.pretrain_per_class": ([7, 94], [0, -1, 70.0, "70", True]),
    f"{P}.pretrain.substitutes.architectures": ([["DPN92"]], [[], ["VGG"], ["DPN92", "DPN92"], "DPN92"]),
    f"{P}.pretrain.substitutes.dropout": ([[0], [0.0, 0.99]], [[], [1], [1.0], [-0.1], [0.2, 0.2], 0.2]),
    f"{P}.pretrain.network.width": ([0.01, 1, 4], [0, -1.0, 4.1, float("inf"), float("nan"), "1", False]),
    f"{P}.pretrain.training.epochs": ([1, 300], [0, -1, 1.5]),
    f"{P}.pretrain.training.lr": ([1.0e-9, 1], [0, 0.0, -0.1, float("inf"), float("nan"), "0.1"]),
    f"{P}.pretrain.training.momentum": ([0, 0.99], [1, -0.1]),
    f"{P}.pretrain.training.weight_decay": ([0, 0.0, 2], [-1.0e-9, float("inf"), float("nan")]),
    f"{P}.pretrain.training.schedule": (["step"], ["linear"]),
    f"{P}.pretrain.training.crop_padding": ([0, 8], [-1, 9, 1.0]),
    f"{P}.pretrain.training.flip": ([True, False], [0, 1, "true", None]),
    f"{P}.pretrain.training.label_smoothing": ([0, 0.5], [1, -0.1]),
    f"{P}.craft.poison_class": ([0, 9], [-1, 10, 1.0]),
    f"{P}.craft.poisons": ([1, 50], [0, -5]),
    f"{P}.craft.targets": ([1, 20], [0, -1]),
    f"{P}.craft.attacks.convex_polytope.eps": ([1.0e-6, 1, 1.0], [0, -0.1, 1.0001, float("nan")]),
    f"{P}.craft.attacks.feature_collision.lr": ([0.04], [0, -0.04, float("nan")]),
    f"{P}.craft.attacks.feature_collision.iterations": ([1], [0, 10.0]),
    f"{P}.filter.deep_knn.k": ([1, 499], [0, -1, 2.0]),
    f"{P}.filter.deep_knn.sweep": ([[2], [2, 499]], [[], [0], [5, 2], [2, 2]]),
    f"{P}.filter.l2_outliers.fraction": ([0, 0.99], [1, -0.1, float("nan")]),
    f"{P}.filter.one_class_svm.nu": ([0.01, 1], [0, 1.01, -0.1]),
    f"{P}.filter.random_eviction.convex_polytope_fraction": ([0, 0.99], [1, -0.1]),
    f"{P}.train.setting": (["transfer"], ["end-to-end"]),
    f"{P}.train.milestones": ([[], [1, 59]], [[0], [45, 30], [30, 30], 30]),
    f"{P}.evaluate.calibration_bins": ([2, 15], [1, 0]),
    f"{P}.evaluate.hull.problems": ([1], [0]),
}

# (values that are just allowed together, values that are not, the key that the message must name)
RULES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {f"{P}.prepare.fine_tune_per_class": 49},
        {f"{P}.prepare.fine_tune_per_class": 71},
        f"{P}.prepare.fine_tune_per_class",
    ),
    (
        {f"{P}.prepare.pretrain_per_class": 94},
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
    ({f"{P}.train.milestones": [30, 59]}, {f"{P}.train.milestones": [30, 60]}, f"{P}.train.milestones[1]"),
    (
        {f"{P}.pretrain.training.batch_size": 700},
        {f"{P}.pretrain.training.batch_size": 701},
        f"{P}.pretrain.training.batch_size",
    ),
    ({f"{P}.train.batch_size": 500}, {f"{P}.train.batch_size": 501}, f"{P}.train.batch_size"),
]


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
    return not isinstance(value, list) or value in ([], sorted(value, key=str)) or len(value) < 2


def problems(values: dict[str, Any]) -> list[str]:
    try:
        params.load(ROOT / "params.yaml", overrides=nested(values))
    except params.ParamsError as error:
        return error.problems
    return []


@pytest.mark.parametrize("key", RANGES)
def test_a_range_holds_on_both_sides(key: str) -> None:
    allowed, refused = RANGES[key]
    for value in allowed:
        assert problems({key: value}) == [], value
    if key == "scale":
        for value in refused[:3]:
            with pytest.raises(params.ParamsError, match="allowed: mini, small, medium, paper"):
                params.load(ROOT / "params.yaml", scale=value)
        return
    for value in refused:
        found = problems({key: value})
        assert found, value
        assert found[0].startswith((f"override: {key}: found ", f"override: {key}[")), found
        assert "allowed: " in found[0]


def test_the_tables_reach_every_kind_of_key() -> None:
    """What no table tries has the type of a key that one tries."""
    tried = {key.rpartition(".")[2].partition("[")[0] for key in [*RANGES, *(rule[2] for rule in RULES)]}
    keys = {key.rpartition(".")[2] for key in params.leaves(params.load(ROOT / "params.yaml"))}
    assert keys - tried == {
        "pool_per_class",  # in the rules, from the other side
        "depth",  # as width
        "feature_collision_fraction",  # as convex_polytope_fraction
        "include_self",
        "reset_head",
        "dimension",  # as problems
    }


@pytest.mark.parametrize(("within", "beyond", "key"), RULES, ids=[rule[2] for rule in RULES])
def test_a_rule_between_keys_holds_exactly_up_to_its_bound(
    within: dict[str, Any], beyond: dict[str, Any], key: str
) -> None:
    if key.endswith("fine_tune_per_class"):
        within = {**within, f"{P}.craft.targets": 1}
    assert problems(within) == []
    assert any(
        line.startswith(f"override: {key}: found ") and "allowed: " in line for line in problems(beyond)
    )


def test_the_pool_may_be_all_fine_tuning_images_but_for_the_targets() -> None:
    small = {f"{P}.prepare.pool_per_class": 51, f"{P}.craft.targets": 1}
    assert problems(small) == []
    found = problems({**small, f"{P}.prepare.pool_per_class": 50})
    assert len(found) == 1
    assert "at most pool_per_class - fine_tune_per_class = 0" in found[0]


def test_a_wrong_key_silences_only_the_rules_that_need_it() -> None:
    found = problems(
        {
            f"{P}.prepare.fine_tune_per_class": "fifty",
            f"{P}.train.milestones": [99],
            f"{P}.craft.target_class": 1,
        }
    )
    named = [line.split(": ")[1] for line in found]
    assert f"{P}.prepare.fine_tune_per_class" in " ".join(found)
    assert {f"{P}.train.milestones[0]", f"{P}.craft.target_class"} <= set(named)
    assert not any("craft.targets" in line or "deep_knn" in line for line in found)


def test_names_are_those_of_the_rooms() -> None:
    assert set(get_args(schema.Architecture)) == set(models.MODELS)
    assert set(schema.Attacks.model_fields) == set(ATTACKS)
    assert set(schema.Filter.model_fields) == set(DEFENCES)
    assert get_args(schema.Scale) == params.SCALES
    assert set(get_args(schema.Prepare.model_fields["dataset"].annotation)) == set(data.DATASETS)
    assert set(schema.SMALLEST_CLASS) == set(schema.LEFT_FOR_TEST) == set(data.DATASETS)


def test_the_smallest_class_of_the_digits_is_counted_right() -> None:
    counts = np.bincount(digits.load().train_labels)
    assert len(counts) == schema.CLASSES
    assert counts.min() == schema.SMALLEST_CLASS["digits"]


def test_no_key_has_a_default_and_every_section_is_closed() -> None:
    def sections(model: type[schema.Section]) -> list[type[schema.Section]]:
        below = [field.annotation for field in model.model_fields.values()]
        inner = [one for one in below if isinstance(one, type) and issubclass(one, schema.Section)]
        return [model, *(found for one in inner for found in sections(one))]

    for section in sections(schema.Params):
        assert section.model_config["extra"] == "forbid"
        assert section.model_config["strict"] is True
        assert all(field.is_required() for field in section.model_fields.values()), section


def test_the_exported_schema_is_current() -> None:
    """`relearn validate --schema > workflow/schemas/params.schema.json` writes it."""
    assert (ROOT / "workflow/schemas/params.schema.json").read_text() == schema_text()


def test_the_exported_schema_judges_as_the_models_do() -> None:
    """Another validator, the same verdicts; what JSON cannot say (order, NaN, the type of 1.0) left out."""
    tree = json.loads(schema_text())
    jsonschema.Draft202012Validator.check_schema(tree)
    validator = jsonschema.Draft202012Validator(tree)
    base = params.load(ROOT / "params.yaml")
    assert validator.is_valid(base)
    for key, (allowed, refused) in RANGES.items():
        for verdict, values in ((True, allowed), (False, refused)):
            for value in values:
                if not json_can_say(value):
                    continue
                tree_of = json.loads(json.dumps(base))
                *above, last = key.split(".")
                branch = tree_of
                for name in above:
                    branch = branch[name]
                branch[last] = value
                assert validator.is_valid(tree_of) is verdict, (key, value)
