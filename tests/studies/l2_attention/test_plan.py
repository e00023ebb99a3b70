"""Two stages: every recipe with one seed, the chosen one with all; where there is one recipe, there is nothing to choose."""

from pathlib import Path

import pytest

from relearn.studies import parameters
from relearn.studies.l2_attention.plan import plan

ROOT = Path(__file__).parents[3]
PAPER = plan(parameters.load(ROOT / "params.yaml", scale="paper"), "paper")


def test_every_recipe_is_tried_once_and_the_best_is_trained_with_every_seed() -> None:
    tuning, models = PAPER["tune_char_lm"], PAPER["train_char_lm"]
    own = {"attention": "dp", "layers": "3"}
    assert len(tuning.paths(**own)) == 7 * 4 * 3  # gamma, warm-up, dropout
    found = [run for run in models.runs if run["attention"] == "dp" and run["layers"] == "3"]
    assert found == [{**own, "recipe": "warmup_chosen", "seed": seed} for seed in "012"]
    for seed in "012":
        given = models.inputs_of(**own, recipe="warmup_chosen", seed=seed)
        assert given["tuning"] == tuning.paths(**own)  # all at the first seed
    assert len(models.inputs_of(**own | {"layers": "10"}, recipe="fixed_chosen", seed="0")["tuning"]) == 9


def test_a_tried_recipe_and_the_chosen_one_differ_in_the_recipe_alone() -> None:
    tried = {"attention": "dp_l2_start", "layers": "8", "tried": "fixed_lr0.0002_d0.1"}
    chosen = {"attention": "dp_l2_start", "layers": "8", "recipe": "fixed_chosen"}
    own = {"schedule": "constant", "lr": 2.0e-4, "warmup_steps": 0, "dropout": 0.1}
    models = PAPER["train_char_lm"].settings_of(**chosen)
    assert PAPER["tune_char_lm"].settings_of(**tried) == {**models, **own}
    assert (
        PAPER["tune_char_lm"].labels_of(**tried)["recipe"] == "tuning"
    )  # which no table and no claim selects


def test_figures_5_8_and_10_look_at_the_chosen_model() -> None:
    given = PAPER["attention_outputs"].inputs_of(attention="dp", weights="trained", seed="0")
    assert given["network"] == PAPER["train_char_lm"].paths(
        "weights", attention="dp", layers="1", recipe="warmup_chosen", seed="0"
    )


def test_models_of_another_width_are_trained_to_be_shown_and_for_nothing_else() -> None:
    values = parameters.load(ROOT / "params.yaml", scale="small")
    same = {**values, "l2_attention": {**values["l2_attention"], "shown_dim": 0}}
    assert not plan(same, "small")["show_char_lm"].runs
    families = plan(values, "small")
    shown, models = families["show_char_lm"], families["train_char_lm"]
    sizes = {"dim": 512, "ffn": 2048}
    for kind in ("dp", "l2_tied"):
        usual = {"attention": kind, "layers": "1", "recipe": "warmup_g0.2_w100_d0"}
        assert shown.settings_of(attention=kind) == {**models.settings_of(**usual), **sizes}
        assert shown.inputs_of(attention=kind, seed="0") == models.inputs_of(**usual, seed="0")
        weights = shown.paths("weights", attention=kind, seed="0")
        for step, name in (
            ("attention_outputs", {}),
            ("lipschitz_lower_bound", {"suite": "fig8", "length": "64"}),
        ):
            cell = {"attention": kind, "weights": "trained", **name}
            assert families[step].inputs_of(**cell, seed="0")["network"] == weights
            assert families[step].settings_of(**cell)["dim"] == 512
    assert {cell["dim"] for cell in families["invert_residual"].cells if cell["weights"] == "trained"} == {
        "512"
    }
    assert shown.labels_of(attention="dp")["recipe"] == "shown"  # which no table and no claim selects
    assert not PAPER["show_char_lm"].runs  # figure 4's models have this width there


def test_small_tunes_the_fixed_rate_for_each_attention_and_depth() -> None:
    families = plan(parameters.load(ROOT / "params.yaml", scale="small"), "small")
    tried = {(cell["attention"], cell["layers"]) for cell in families["tune_char_lm"].cells}
    fixed = {
        (cell["attention"], cell["layers"])
        for cell in families["train_char_lm"].cells
        if cell["recipe"].startswith("fixed")
    }
    assert tried == fixed and {("dp", "12"), ("dp_l2_start", "12"), ("l2_tied", "18")} <= fixed


@pytest.mark.parametrize("scale", ["mini", "medium"])
def test_one_recipe_is_not_tuned(scale: str) -> None:
    families = plan(parameters.load(ROOT / "params.yaml", scale=scale), scale)
    assert not families["tune_char_lm"].runs
    for cell in families["train_char_lm"].cells:
        assert "tuning" not in families["train_char_lm"].inputs_of(**cell, seed="0")
        assert "dropout" in families["train_char_lm"].settings_of(**cell)
