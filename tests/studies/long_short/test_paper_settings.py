"""Scale paper states the published protocol: what a reader would find in the dissertation, setting by setting."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from relearn.data.lra import pathfinder
from relearn.studies import parameters
from relearn.studies.long_short import plan

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def families() -> dict[str, Any]:
    return plan.plan(parameters.load(ROOT / "params.yaml", "paper"), "paper")


def test_text8_has_its_own_rate_and_no_large_model(families: dict[str, Any]) -> None:
    """Section 5.3.2 and table 5.7."""
    family = families["train_long_char_lm"]
    models = {(run["dataset"], run["variant"]) for run in family.runs}
    assert ("enwik8", "large") in models and ("text8", "large") not in models
    for dataset, rate in (("enwik8", 2.5e-4), ("text8", 5e-4)):
        phases = family.settings_of(dataset=dataset, variant="dual_norm")["phases"]
        assert [phase["lr"] for phase in phases] == [rate] * 3
        assert [phase["steps"] for phase in phases] == [430_000, 50_000, 50_000]


def test_the_networks_of_table_5_8_have_their_own_recipes(families: dict[str, Any]) -> None:
    family = families["train_vision"]
    made = {run["network"]: family.settings_of(network=run["network"]) for run in family.runs}
    paths = {name: one["network"].get("drop_path_rate") for name, one in made.items()}
    assert (paths["ViL-Medium"], paths["ViL-LS-Base"], paths["DeiT-S"]) == (0.3, 0.5, 0.1)
    assert paths["ResNet-50"] is None and made["ResNet-50"]["optimizer"] == "sgd"
    assert made["ResNet-50"]["mixup"] is None and made["ViL-Medium"]["mixup"] == 0.8
    decays = {name: made[name]["weight_decay"] for name in ("CvT-LS-13", "CvT-LS-21", "ViL-LS-Medium")}
    assert decays == {"CvT-LS-13": 0.05, "CvT-LS-21": 0.1, "ViL-LS-Medium": 0.1}
    assert not any("own" in one or "networks" in one for one in made.values())


def test_every_attention_tries_the_same_rates_with_seeds_of_their_own() -> None:
    params = parameters.load(ROOT / "params.yaml", "mini")
    params["long_short"]["seeds"] = [0, 1]
    before = plan.plan(deepcopy(params), "mini")
    recipe = params["long_short"]["train_lra"]
    recipe["tasks"]["text"].update(rates=[1e-3, 2e-3], attentions=["full", "linformer"])
    made = plan.plan(params, "mini")
    assert not before["tune_lra"].runs and len(made["tune_lra"].runs) == 4
    for attention in ("full", "linformer"):
        cell = {"task": "text", "attention": attention, "seed": "1"}
        tried = made["train_lra"].inputs_of(**cell)["tried"]
        assert sorted(tried) == sorted(made["tune_lra"].paths(attention=attention)) and len(tried) == 2
        assert "tried" not in before["train_lra"].inputs_of(**cell)
        one = {"of": "text", "attention": attention, "tried": "lr0.002"}
        assert made["tune_lra"].settings_of(**one)["lr"] == 2e-3
        assert (
            made["tune_lra"].inputs_of(**one, seed="100")["data"]
            == before["train_lra"].inputs_of(**cell)["data"]
        )
    assert {run["seed"] for run in made["tune_lra"].runs} == {"100"}
    assert "task" not in made["tune_lra"].labels_of(of="text", attention="full", tried="lr0.002")


def test_listops_is_read_as_the_dissertation_did(families: dict[str, Any]) -> None:
    settings = families["prepare_lra"].settings_of(task="listops")
    assert settings["form"]["closing"] is False


def test_pathfinder_has_the_numbers_of_the_arenas_builder(families: dict[str, Any]) -> None:
    assert families["prepare_lra"].settings_of(task="pathfinder")["form"] == pathfinder.PUBLISHED_FORM
    form = pathfinder.PUBLISHED_FORM
    assert (form["dashes"], form["distractors"], form["distractor_dashes"]) == (14, 20 // (14 // 3), 14 // 3)


def test_every_attention_pools_the_class_token(families: dict[str, Any]) -> None:
    family = families["train_lra"]
    found = {
        run["attention"]: family.settings_of(task=run["task"], attention=run["attention"])["pooling"]
        for run in family.runs
    }
    assert {"performer", "reformer", "nystromformer", "long_short"} <= set(found)
    assert set(found.values()) == {"class"}


def test_the_cost_is_measured_with_every_cache_and_beyond_the_figure(families: dict[str, Any]) -> None:
    settings = families["benchmark_attention_curve"].settings_of(protocol="curve")
    assert {"long_short", "long_short_no_cache", "long_short_window_cache"} <= set(settings["attentions"])
    assert max(settings["lengths"]) == 65536 and settings["longest"] == {"full": 14336}


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_rivals_have_as_many_keys_as_a_query_of_long_short_sees(scale: str) -> None:
    """Where sizes are ours; at scale paper they are the published ones."""
    own = parameters.load(ROOT / "params.yaml", scale)["long_short"]["train_lra"]
    keys = 2 * own["window"] + own["rank"]
    rivals = own["baselines"]
    assert rivals["linformer"]["rank"] == rivals["nystromformer"]["landmarks"] == keys
    assert (
        rivals["performer"]["features"]
        == rivals["longformer"]["window"]
        == 2 * rivals["sinkhorn"]["block"]
        == keys
    )
    assert rivals["linformer_window"]["rank"] + 2 * rivals["linformer_window"]["window"] == keys
    for task in ("text", "retrieval"):
        assert own["tasks"][task]["dynamic_rank"] == keys


def test_released_trees_need_no_numbers_of_a_generator() -> None:
    changed = {"long_short": {"prepare_lra": {"listops": {"dataset": "lra_release"}}}}
    values = parameters.load(ROOT / "params.yaml", "paper", changed)
    settings = plan.plan(values, "paper")["prepare_lra"].settings_of(task="listops")
    assert settings["form"] == {"closing": False} and settings["dataset"] == "lra_release"
