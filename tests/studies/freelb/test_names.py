"""The names allowed in the section ``freelb`` of params.yaml are those that the data, models, methods and steps know."""

from typing import Any, get_args, get_type_hints

import pytest

from relearn import models
from relearn.data import facts, text_tasks
from relearn.data.sentence_tokens import FAMILIES as TOKENIZED
from relearn.methods import schedules
from relearn.methods.fit import plain_gradient
from relearn.methods.gradient_strategies import SPACES, STRATEGIES
from relearn.methods.pixel_space import PixelSpace
from relearn.models.sentence_encoder import FAMILIES
from relearn.runs.code_version import closure
from relearn.runs.settings import read
from relearn.studies.freelb import params, params_images, plan
from relearn.studies.freelb.plan import members, settings
from relearn.studies.freelb.steps import adversaries, max_loss_increase, pretrain_encoder

METHODS = get_args(params.Method)
RECIPE: dict[str, Any] = {"passes": 3, "step_size": 0.1, "start_norm": 0.2, "project": True, "eps": 0.3}
COMMON: dict[str, Any] = {"mask": "start", "clean_first": True, "wide": 3.0}


def values(model: Any, field: str) -> set[str]:
    """The words that a field allows, in a list or alone."""
    found = model.model_fields[field].annotation
    return set(get_args(get_args(found)[0] if str(found).startswith("list") else found))


def strategy(name: str) -> dict[str, Any]:
    return settings.strategy_settings(name, RECIPE, COMMON)


def module(registry: Any, name: str) -> str:
    return str(registry[name].partition(":")[0])


def test_tasks_and_families_are_known_to_the_data_and_models() -> None:
    # the diagnostic set ax has no training part
    assert set(get_args(params.Task)) == set(text_tasks.TASKS) - {"ax"}
    assert set(get_args(params.Encoder)) == set(FAMILIES) == set(TOKENIZED)
    assert set(params.Encoders.model_fields) == set(FAMILIES)
    regression = {task for task in get_args(params.Task) if text_tasks.metric_of(task)[0] == "regression"}
    assert regression == {"stsb"}  # which the checks of params.py name


def test_schedules_are_known_and_need_no_milestones() -> None:
    assert set(get_args(params.Schedule)) < set(schedules.SCHEDULES)
    for name in get_args(params.Schedule):
        assert schedules.learning_rate(0.1, name, 5, 10, (), 2) > 0


@pytest.mark.parametrize("name", METHODS)
def test_a_method_of_params_yaml_is_a_strategy_that_takes_its_settings(name: str) -> None:
    method = read(adversaries.Method, strategy(name))
    made, kind = adversaries.strategy_of(method), method.kind
    assert (made is plain_gradient) == name.startswith("vanilla")
    passes, replays = {"vanilla": (1, 1), "free_at": (1, 3)}.get(kind, (3, 1))
    assert (adversaries.passes_of(method), adversaries.replays_of(method)) == (passes, replays)
    if kind == "yopo":
        assert (made.inner, made.step) == (method.inner, method.inner_step)


def test_the_methods_of_params_yaml_differ_and_reach_every_strategy() -> None:
    methods = [strategy(name) for name in METHODS if name not in plan.CHOSEN_BY]
    assert {method["kind"] for method in methods} == set(STRATEGIES)
    assert all(method not in methods[:place] for place, method in enumerate(methods))
    kinds = {name: strategy(name) for name in METHODS}
    assert (kinds["freelb"]["reuse_masks"], kinds["freelb_fresh"]["reuse_masks"]) == (True, False)
    for inner in (2, 3):
        divided, whole = kinds[f"yopo_{inner}"], kinds[f"yopo_{inner}_whole"]
        assert (divided["inner"], divided["inner_step"]) == (inner, "divided")
        assert (whole["inner"], whole["inner_step"]) == (inner, "whole")


def test_wide_methods_have_a_larger_radius_and_steps_to_match() -> None:
    for name in ("freelb", "freelb_fresh"):
        own, wide = strategy(name), strategy(f"{name}_wide")
        assert {key for key in own if own[key] != wide[key]} == {"step_size", "start_norm", "eps"}
        assert all(wide[key] == pytest.approx(3 * own[key]) for key in ("step_size", "start_norm", "eps"))


def test_a_radius_counts_only_with_projection() -> None:
    assert strategy("freelb")["eps"] == 0.3
    assert settings.strategy_settings("freelb", {**RECIPE, "project": False}, COMMON)["eps"] is None


def test_the_comparison_of_table_3_5_has_known_names_and_all_settings() -> None:
    assert {*settings.REFERENCES} < {*plan.COMPARED} <= {*METHODS}
    assert members.COMPARED_ENCODER in FAMILIES
    section = dict.fromkeys(params.MaxLossIncrease.model_fields, 0)
    found = settings.increase_settings({"max_loss_increase": section}, {"task": "rte", "max_length": 8})
    assert read(max_loss_increase.Settings, found).references == list(settings.REFERENCES)


def test_an_ensemble_prefers_the_network_that_starts_from_another_task() -> None:
    def run(name: str, task: str, first: str = "", joint: tuple[str, ...] = ()) -> dict[str, Any]:
        own = {"encoder": "roberta", "methods": ["freelb"]}
        return {**own, "name": name, "task": task, "init_from": first, "joint_tasks": list(joint)}

    runs = [run("rte", "rte"), run("rte_from_mnli", "rte", "mnli"), run("arc", "arc")]
    runs += [run("arc_joint", "arc", "race", ("regents",)), run("only_joint", "csqa", "", ("arc",))]
    found = members.ensemble_runs(runs, "roberta", "freelb")
    assert found == {"rte": "rte_from_mnli", "arc": "arc", "csqa": "only_joint"}
    both = [run("qnli", "qnli_pairs"), run("qnli_ranking", "qnli")]
    assert members.ensemble_runs(both, "roberta", "freelb") == {"qnli": "qnli_ranking"}
    assert members.ensemble_runs(both[:1], "roberta", "freelb") == {"qnli_pairs": "qnli"}
    assert (
        members.ensemble_runs(runs, "roberta", "pgd") == members.ensemble_runs(runs, "bert", "freelb") == {}
    )


def test_methods_of_images_and_corpora_are_known_to_the_steps() -> None:
    kinds = {*get_args(get_type_hints(adversaries.OnPixels)["kind"]), "vanilla"}
    assert values(params.TrainImagesAdversarially, "methods") == kinds <= set(STRATEGIES)
    corpora = get_args(get_type_hints(pretrain_encoder.Corpus)["dataset"])
    assert values(params.TextCorpus, "dataset") == set(corpora)
    assert set(get_args(params_images.Network)) <= set(models.MODELS)
    assert values(params.Images, "dataset") == set(facts.MOST_FOR_TRAINING)


def test_a_perturbation_of_pixels_is_one_that_the_strategies_take() -> None:
    own = {"passes": 3, "norm": "l2", "eps": 0.1, "step_size": 0.1, "start_norm": 0.1, "project": True}
    assert set(own) == set(params_images.Perturbation.model_fields)
    sections: dict[str, Any] = {"network": {}, "train": {}, "attack": {}, "perturbation": own}
    for name in values(params.TrainImagesAdversarially, "methods") - {"vanilla"}:
        method = settings.image_settings(sections, name)["method"]
        made = adversaries.strategy_of(read(adversaries.ImageMethod, method))
        assert made.space == PixelSpace() and {key: getattr(made, key) for key in own} == own


@pytest.mark.parametrize("name", sorted(values(params.TrainImagesAdversarially, "methods")))
def test_the_code_version_of_a_run_on_images_covers_its_method_and_space(name: str) -> None:
    """A step takes both from registries, which its imports do not show; the plan names the modules."""
    step = "relearn.studies.freelb.steps.train_images_adversarially"
    found = closure([step, *settings.image_modules("ResNet18", name)])
    adversarial = name != "vanilla"
    assert (module(SPACES, "pixels") in found) is adversarial
    assert not adversarial or module(STRATEGIES, name) in found
