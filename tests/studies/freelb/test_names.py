"""The words that params.yaml may say of chapter 3 are those of the rooms, and what the rules count is what they hold."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from relearn import models
from relearn.data import facts, text_tasks
from relearn.data.sentence_tokens import FAMILIES as TOKENIZED
from relearn.methods import load
from relearn.methods.fit import plain_gradient
from relearn.methods.gradient_strategies import SPACES, STRATEGIES
from relearn.models.sentence_encoder import FAMILIES
from relearn.runs.code_version import closure
from relearn.steps import count_families
from relearn.studies.freelb import params as words
from relearn.studies.freelb import params_rules as schema_rules_freelb
from relearn.studies.freelb.steps import finetune_start
from relearn.studies.freelb.steps import max_loss_increase as provoke
from relearn.studies.freelb.steps import pretrain_encoder as acquire
from relearn.studies.freelb.steps import train_images_adversarially as contrast

ROOT = Path(__file__).resolve().parents[3]
TACTICS = get_args(words.Tactic)


def values(model: Any, field: str) -> set[str]:
    """The words that a field allows, in a list or alone."""
    found = model.model_fields[field].annotation
    return set(get_args(get_args(found)[0] if str(found).startswith("list") else found))


def of_rules(name: str, **known: Any) -> Any:
    """A function of the study's rules."""
    tree = ast.parse((ROOT / "workflow/settings/freelb.smk").read_text())
    (found,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    exec(compile(ast.Module([found], []), name, "exec"), known)
    return known[name]


def method_of(tactic: str) -> dict[str, Any]:
    """Settings of a run by one of the names of params.yaml."""
    own = {"passes": 3, "step_size": 0.1, "start_norm": 0.2, "project": True, "eps": 0.3}
    found: dict[str, Any] = of_rules("strategy_settings")(tactic, own, {"mask": "start", "clean_first": True})
    return found


def test_tasks_and_families_are_those_of_the_rooms() -> None:
    assert set(get_args(words.Exam)) == set(text_tasks.TASKS) - {
        "ax"
    }  # the diagnostics have nothing to train on
    assert set(get_args(words.Family)) == set(FAMILIES) == set(TOKENIZED)
    assert set(words.Encoders.model_fields) == set(FAMILIES)
    values_asked = {task for task in get_args(words.Exam) if text_tasks.metric_of(task)[0] == "regression"}
    assert values_asked == {"stsb"}  # which the rules name: nothing of it is right or wrong


@pytest.mark.parametrize("tactic", TACTICS)
def test_a_method_of_params_yaml_is_a_strategy_that_takes_its_settings(tactic: str) -> None:
    method = method_of(tactic)
    made = load(STRATEGIES, method.pop("kind"))
    assert set(method) <= set(finetune_start.WORDS)
    if tactic == "vanilla":
        assert made is plain_gradient and not method
    else:
        made(**{finetune_start.NAMES.get(word, word): value for word, value in method.items()})


def test_the_methods_of_params_yaml_differ_and_reach_every_strategy() -> None:
    methods = [method_of(tactic) for tactic in TACTICS]
    assert {method["kind"] for method in methods} == set(STRATEGIES) == set(finetune_start.METHODS)
    assert all(method not in methods[:place] for place, method in enumerate(methods))
    kinds = {tactic: method_of(tactic) for tactic in TACTICS}
    assert (kinds["freelb"]["reuse_masks"], kinds["freelb_fresh"]["reuse_masks"]) == (True, False)
    for inner in (2, 3):
        divided, whole = kinds[f"yopo_{inner}"], kinds[f"yopo_{inner}_whole"]
        assert (divided["inner"], divided["inner_step"]) == (inner, "divided")
        assert (whole["inner"], whole["inner_step"]) == (inner, "whole")


def test_what_is_said_of_a_radius_and_of_a_probe() -> None:
    own = {"passes": 3, "step_size": 0.1, "start_norm": 0.2, "project": False, "eps": 0.3}
    common = {"mask": "always", "clean_first": False}
    assert of_rules("strategy_settings")("freelb", own, common)["eps"] is None  # counts with project alone
    assert set(schema_rules_freelb.PROVOKED) <= set(TACTICS)
    assert schema_rules_freelb.PROVOKED_ENCODER in FAMILIES
    said = {*words.Provoke.model_fields} - {"tasks"} | {"task", "max_length", "references"}
    assert said == set(provoke.KEYS)


def test_what_runs_without_a_choice_is_known_to_the_steps() -> None:
    assert values(words.Contrast, "methods") == set(contrast.KINDS) <= set(STRATEGIES)
    assert values(words.GradientFamilies, "families") <= set(count_families.FAMILIES)
    assert values(words.TextCorpus, "dataset") == set(acquire.CORPORA)


def test_images_are_those_of_the_other_studies() -> None:
    assert set(get_args(words.Network)) <= set(models.MODELS)
    assert values(words.ContrastImages, "dataset") == set(facts.MOST_FOR_TRAINING)


def test_a_perturbation_of_pixels_is_one_that_the_strategies_take() -> None:
    said = set(words.Perturbation.model_fields)
    for name in values(words.Contrast, "methods") - {"vanilla"}:
        assert said <= set(inspect.signature(load(STRATEGIES, name)).parameters), name


@pytest.mark.parametrize("tactic", sorted(values(words.Contrast, "methods")))
def test_a_run_of_images_depends_on_where_they_are_perturbed(tactic: str) -> None:
    """A registry's modules are in no step's closure: the rule names those that a run takes from one."""

    def module(registry: Any, name: str) -> str:
        return str(registry[name].partition(":")[0])

    modules = of_rules("strategy_modules", method_module=module, STRATEGIES=STRATEGIES)
    known = {"network_module": models.module_of, "strategy_modules": modules}
    known |= {"method_module": module, "SPACES": SPACES}
    asked = of_rules("contrast_modules", FB={"contrast": {"network": {"name": "ResNet18"}}}, **known)
    found = closure(
        ["relearn.studies.freelb.steps.train_images_adversarially", *asked(SimpleNamespace(method=tactic))]
    )
    adversarial = tactic != "vanilla"
    assert (module(SPACES, "pixels") in found) is adversarial
    assert not adversarial or module(STRATEGIES, tactic) in found
