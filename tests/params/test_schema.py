"""Types, ranges and rules of params.yaml, against hand-written tables and what the house really holds."""

import functools
import inspect
import json
import math
from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
from pydantic import ValidationError

from relearn import cli, data, models
from relearn.params import conflicts
from relearn.params import reading as params
from relearn.params.strict_yaml import dotted
from relearn.report import scoreboard
from relearn.runs import settings as settings_of_step
from relearn.studies import parameters
from relearn.studies.gradinit import params as schema_gradinit
from relearn.studies.poisoning import params as schema
from relearn.studies.poisoning import params_studies
from relearn.studies.study import all_studies

from ..studies.freelb import ranges as ranges_freelb
from ..studies.gradinit import ranges as ranges_gradinit
from ..studies.l2_attention import ranges as ranges_l2_attention
from ..studies.long_short import ranges as ranges_long_short
from ..studies.poisoning import ranges as ranges_poisoning
from . import ranges_vision
from .rules import Range, Rule, laid_over

ROOT = Path(__file__).resolve().parents[2]
P = "poisoning"

TABLES = (
    *(ranges_poisoning, ranges_gradinit, ranges_l2_attention, ranges_vision, ranges_long_short),
    ranges_freelb,
)
RANGES: dict[str, Range] = {"scale": (["mini"], ["Mini", "tiny", "", 1, None, True])}
for table in TABLES:
    RANGES |= table.RANGES
RULES: list[Rule] = [
    *chain.from_iterable(table.RULES for table in TABLES),
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
        parameters.load(ROOT / "params.yaml", overrides=laid_over({}, values))
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


def test_every_check_of_a_section_is_tried() -> None:
    """Without a check, the refused values of some line of the table would pass."""
    base = parameters.load(ROOT / "params.yaml")
    alone = set()
    for _, beyond, key in RULES:
        broken = [name for name, keys in checked(laid_over(base, beyond)).items() if key in keys]
        alone |= set(broken) if len(broken) == 1 else set()
    of_plugins = (
        "relearn.studies.poisoning.params.Poisoning._plugins"  # tests/workflow/test_plugins.py tries it
    )
    assert set(checked(base)) - alone == {of_plugins}


def checked(values: dict[str, Any]) -> dict[str, set[str]]:
    """Every check by name, and the keys that it alone finds fault with; none where a value is out of its range."""
    try:
        root = parameters.schema().model_validate(values)
    except ValidationError:
        return {}
    found: dict[str, set[str]] = {}
    for above, section in conflicts._sections(root):
        for base in type(section).__mro__:
            for name, method in vars(base).items():
                if getattr(method, "__conflicts__", False):
                    arguments = (root,) if len(inspect.signature(method).parameters) > 1 else ()
                    keys = {
                        dotted((*above, *conflicts._parts(key))) for key, _ in method(section, *arguments)
                    }
                    found.setdefault(f"{base.__module__}.{base.__name__}.{name}", set()).update(keys)
    return found


@pytest.mark.parametrize(("within", "beyond", "key"), RULES, ids=[rule[2] for rule in RULES])
def test_a_rule_between_keys_holds_exactly_up_to_its_bound(
    within: dict[str, Any], beyond: dict[str, Any], key: str
) -> None:
    assert problems(within) == []
    found = problems(beyond)
    assert named(found, key)
    assert all("\n" not in line for line in found)


def test_a_wrong_key_silences_only_the_rules_that_need_it() -> None:
    found = problems(
        {
            f"{P}.prepare.fine_tune_per_class": "fifty",
            f"{P}.train.transfer.milestones": [999],
            f"{P}.craft.target_class": 1,
        }
    )
    named = [line.split(": ")[1] for line in found]
    assert f"{P}.prepare.fine_tune_per_class" in " ".join(found)
    assert {f"{P}.train.transfer.milestones[0]", f"{P}.craft.target_class"} <= set(named)
    needed_it = ("craft.targets", "deep_knn", "imbalance", "transfer.batch_size")
    assert not any(key in line for key in needed_it for line in found)


def test_names_are_those_of_the_rooms() -> None:
    assert get_args(parameters.schema().model_fields["scale"].annotation) == params.SCALES
    assert cli.SCALES is params.SCALES and scoreboard.SCALES == params.SCALES
    assert {*params_studies.PUBLISHED, *get_args(schema_gradinit.NetworkName)} == set(models.MODELS)
    assert set(get_args(schema_gradinit.CorpusOf.model_fields["dataset"].annotation)) == set(data.CORPORA)


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
    tree = parameters.json_schema()
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


@pytest.mark.parametrize("study", all_studies(), ids=lambda one: one.name)
@pytest.mark.parametrize("scale", ["mini", "small", "medium", "paper"])
def test_the_settings_of_every_job_are_those_of_its_step(study, scale):
    """No key is missing, none is unknown, and each has its type."""
    params = parameters.load(Path(__file__).parents[2] / "params.yaml", scale)
    wrong = {}
    for family in study.part("plan").plan(params, scale).values():
        kind = import_module(study.steps[family.step]).Settings
        seen = set()
        for run in family.runs:
            settings = family.settings_of(**{key: value for key, value in run.items() if key != "seed"})
            if repr(settings) in seen:
                continue
            seen.add(repr(settings))
            try:
                settings_of_step.read(kind, settings)
            except ValueError as error:
                wrong[family.step] = str(error)
    assert not wrong
