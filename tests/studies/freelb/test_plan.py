"""Which runs chapter 3 has at scale paper: pairs and rankings of QNLI, ARC-Merge of two runs, ensembles of 7 and of 20."""

import copy
from pathlib import Path
from typing import Any

import pytest

from relearn.studies import parameters
from relearn.studies.freelb.plan import merged_cells, plan

ROOT = Path(__file__).parents[3]
PAPER = parameters.load(ROOT / "params.yaml", scale="paper")
FAMILIES = plan(PAPER, "paper")
RUNS = {(run["encoder"], run["name"]): run for run in PAPER["freelb"]["finetune"]["runs"]}
SEEDS = PAPER["freelb"]["seeds"]
SMALL = parameters.load(ROOT / "params.yaml", scale="small")


@pytest.mark.parametrize("encoder", ["roberta", "albert", "bert"])
def test_qnli_of_the_dev_tables_is_pairs(encoder: str) -> None:
    """The printed dev numbers are of pairs; on the test set, where sentences were ranked, the same system has 98.8."""
    cell = {"encoder": encoder, "task": "qnli", "method": "freelb"}
    assert FAMILIES["finetune"].settings_of(**cell)["task"] == "qnli_pairs"


def test_the_submission_ranks() -> None:
    members = FAMILIES["ensemble"].settings_of(encoder="roberta", method="freelb")["members"]
    assert {one["name"] for one in members if one["task"].startswith("qnli")} == {"qnli_ranking"}
    ranked, pairs = (RUNS["roberta", name] for name in ("qnli_ranking", "qnli"))
    assert ranked["task"] == "qnli"
    # a question has two sentences, so that both see as many pairs
    assert 2 * ranked["steps"] * ranked["batch_size"] == pairs["steps"] * pairs["batch_size"]


def test_ensembles_of_seven_and_of_twenty() -> None:
    for method in ("vanilla", "freelb"):
        members = FAMILIES["ensemble"].settings_of(encoder="roberta", method=method)["members"]
        counts = {name: sum(one["name"] == name for one in members) for name in {m["name"] for m in members}}
        assert counts["csqa"] == 20
        glue = {name: n for name, n in counts.items() if RUNS["roberta", name]["task"] not in ARC_LIKE}
        assert len(glue) == 9 and set(glue.values()) == {7}
        answers = FAMILIES["ensemble"].inputs_of(encoder="roberta", method=method, seed="0")["answers"]
        assert len(set(answers)) == len(members)


ARC_LIKE = {"csqa", "race", "arc", "arc_easy", "arc_challenge"}


def test_every_answer_of_an_ensemble_and_every_start_is_made_by_some_run() -> None:
    made = {path for family in FAMILIES.values() for path in family.everything()}
    for family in FAMILIES.values():
        for run in family.runs:
            assert {path for paths in family.inputs_of(**run).values() for path in paths} <= made


def test_further_members_enter_no_table_of_medians() -> None:
    """The tables select by the label task; those of further members differ from all of the tables' runs."""
    tables = {cell["task"] for cell in FAMILIES["finetune"].cells}
    for group, more in (("glue", 2), ("csqa", 15)):
        family = FAMILIES[f"finetune_{group}_members"]
        assert len(family.seeds or []) == more and not set(family.seeds or []) & set(SEEDS)
        assert family.cells and all(family.labels_of(**cell)["task"] not in tables for cell in family.cells)


def test_no_further_members_where_the_seeds_suffice() -> None:
    fewer: dict[str, Any] = copy.deepcopy(PAPER)
    fewer["freelb"]["ensemble"] |= {"members": 3, "csqa_members": 5}
    families = plan(fewer, "paper")
    assert not families["finetune_glue_members"].runs and not families["finetune_csqa_members"].runs
    members = families["ensemble"].settings_of(encoder="roberta", method="freelb")["members"]
    assert {one["seed"] for one in members if one["task"] == "cola"} == {0, 1, 2}
    assert {one["seed"] for one in members if one["task"] == "csqa"} == {*SEEDS}


def test_arc_merge_is_both_sets_of_one_method_and_seed_together() -> None:
    assert not [name for _, name in RUNS if name in ("arc", "arc_joint")]
    family = FAMILIES["merge_scores"]
    assert {(cell["task"], cell["method"]) for cell in family.cells} == {
        ("arc", "vanilla"),
        ("arc", "freelb"),
        ("arc_joint", "freelb"),
    }
    answers = family.inputs_of(encoder="roberta", task="arc_joint", method="freelb", seed="3")["answers"]
    assert [path.split("/")[-4] for path in answers] == ["arc_easy_joint", "arc_challenge_joint"]
    easy = {"encoder": "roberta", "name": "arc_easy", "methods": ["freelb"]}
    assert merged_cells([easy]) == []


def test_free_at_has_its_own_learning_rate() -> None:
    """It makes K times as many updates."""
    family = plan(SMALL, "small")["finetune"]
    rates = {
        method: family.settings_of(encoder="roberta", task="sst2", method=method)["lr"]
        for method in ("pgd", "free_at", "freelb")
    }
    assert rates["pgd"] == rates["freelb"] == pytest.approx(rates["free_at"] / 0.33)
    assert FAMILIES["finetune"].settings_of(encoder="roberta", task="cola", method="free_at")["lr"] == 1e-5


@pytest.mark.parametrize("task", ["sst2", "imdb"])
def test_small_trains_long_enough_to_overfit(task: str) -> None:
    """Ten epochs of few texts: where each text is seen once, a regulariser has nothing to gain."""
    (run,) = [
        one
        for one in SMALL["freelb"]["finetune"]["runs"]
        if (one["encoder"], one["name"]) == ("roberta", task)
    ]
    assert run["steps"] * run["batch_size"] >= 10 * run["train_samples"] > 0


def test_each_method_of_a_decisive_task_has_the_same_search() -> None:
    """At small every arm of SST-2 and IMDb tries all rates, and all radii if it has a ball, at seeds that decide nothing."""
    families, own = plan(SMALL, "small"), SMALL["freelb"]["finetune"]["decisive"]
    tune, finetune = families["tune_finetune"], families["finetune"]
    tried = {(run["task"], run["method"]): 0 for run in tune.runs}
    for run in tune.runs:
        tried[run["task"], run["method"]] += 1
        given = tune.settings_of(**{key: value for key, value in run.items() if key != "seed"})
        plain = finetune.settings_of(encoder="roberta", task=run["task"], method=run["method"])
        assert given["lr"] == float(run["rate"]) and given["samples"]["held_out"] == own["held_out"]
        for key in ("step_size", "start_norm", "eps") if run["method"] != "vanilla" else ():
            assert given["method"][key] == pytest.approx(float(run["radius"]) * plain["method"][key])
    rates, radii, seeds = (len(own[key]) for key in ("rates", "radii", "tuning_seeds"))
    assert {task for task, _ in tried} == {*own["tasks"]}
    for (_, method), count in tried.items():
        assert count == rates * seeds * (1 if method == "vanilla" else radii)
    assert not {*own["tuning_seeds"]} & {*SMALL["freelb"]["seeds"]}
    labels = tune.labels_of(**tune.cells[0])
    assert labels["task"] not in own["tasks"] and labels["rate"]  # no table and no claim takes them
    for task in own["tasks"]:
        inputs = finetune.inputs_of(encoder="roberta", task=task, method="pgd", seed="7")
        assert set(inputs["tried"]) == {*tune.paths(task=task, method="pgd")}
    assert "tried" not in finetune.inputs_of(encoder="albert", task="sst2", method="freelb", seed="0")


def test_the_control_of_the_masks_has_the_rate_and_radius_of_freelb() -> None:
    """It reads FreeLB's search, has none of its own, and differs from FreeLB in the masks only."""
    families = plan(SMALL, "small")
    tune, finetune = families["tune_finetune"], families["finetune"]
    where = {"encoder": "roberta", "task": "sst2"}
    control, ours = {**where, "method": "freelb_fresh_as_freelb"}, {**where, "method": "freelb"}
    assert set(finetune.inputs_of(**control, seed="3")["tried"]) == {
        *tune.paths(task="sst2", method="freelb")
    }
    assert not tune.paths(method="freelb_fresh_as_freelb")
    one, other = finetune.settings_of(**control), finetune.settings_of(**ours)
    assert one.pop("method") == {**other.pop("method"), "reuse_masks": False} and one == other


def test_the_controls_of_the_updates_differ_in_their_number_only() -> None:
    """FreeAT replays every minibatch, so a third of the minibatches gives FreeLB's number of updates."""
    families = plan(SMALL, "small")
    tune, finetune = families["tune_finetune"], families["finetune"]
    where = {"encoder": "roberta", "task": "sst2"}
    for control, base, minibatches in (
        ("vanilla_as_often_as_free_at", "vanilla", 1920),
        ("free_at_as_often_as_freelb", "free_at", 213),
    ):
        run = {**where, "method": control}
        assert set(finetune.inputs_of(**run, seed="3")["tried"]) == {*tune.paths(task="sst2", method=base)}
        assert not tune.paths(method=control)
        assert finetune.modules_of(**run) == finetune.modules_of(**where, method=base)
        one, other = finetune.settings_of(**run), finetune.settings_of(**where, method=base)
        assert (one.pop("steps"), other.pop("steps")) == (minibatches, 640)
        assert (
            one.pop("warmup_steps") == round(other.pop("warmup_steps") * minibatches / 640) and one == other
        )


def test_the_second_encoder_repeats_a_task_with_the_same_search_for_every_method_and_control() -> None:
    """Its runs read its own encoder and search; PGD as FreeLB reads FreeLB's search and differs from PGD in nothing else."""
    families, own = plan(SMALL, "small"), SMALL["freelb"]["finetune"]
    second, seeds = own["second_encoder"], {str(seed) for seed in own["decisive"]["tuning_seeds"]}
    pretrain = families["pretrain_encoder"]
    tune, trained, probed = (
        families[f"{step}_second_encoder"] for step in ("tune", "finetune", "max_loss_increase")
    )
    encoder = pretrain.path("encoder", encoder="roberta", seed=second["pretrain_seed"])
    assert encoder in pretrain.everything() and second["pretrain_seed"] != SMALL["freelb"]["seeds"][0]
    where = {"encoder": "roberta", "task": "sst2"}
    for method in second["methods"]:
        run = {**where, "method": method}
        inputs = trained.inputs_of(**run, seed="3")
        chosen_by = {"pgd_as_freelb": "freelb", "freelb_as_pgd": "pgd"}.get(method, method)
        searched = tune.paths(**{**run, "method": chosen_by})
        assert inputs["encoder"] == [encoder] and set(inputs["tried"]) == {*searched}
        radii = 1 if method.startswith("vanilla") else len(own["decisive"]["radii"])
        assert len(searched) == len(second["rates"]) * radii * len(seeds)
        assert trained.labels_of(**run)["task"] == "sst2_second_encoder"  # no table takes it
    for run in tune.runs:
        assert run["seed"] in seeds and tune.inputs_of(**run) == {"encoder": [encoder]}
        assert "rate" in tune.labels_of(**run)
    for base, control in (("pgd", "pgd_as_freelb"), ("freelb", "freelb_as_pgd")):
        one, other = (trained.settings_of(**where, method=method) for method in (base, control))
        assert one == other and not tune.paths(method=control)
    assert {len({run["seed"] for run in family.runs}) for family in (trained, probed)} == {second["seeds"]}
    for rival, ours, theirs in (
        ("pgd", "freelb", "pgd"),
        ("pgd_as_freelb", "freelb", "pgd_as_freelb"),
        ("freelb_as_pgd", "freelb_as_pgd", "pgd"),
    ):
        inputs = probed.inputs_of(**where, rival=rival, seed="3")
        assert inputs["pgd"] == [trained.path("network", **where, method=theirs, seed=3)]
        assert inputs["freelb"] == [trained.path("network", **where, method=ours, seed=3)]


def test_only_decisive_tasks_have_all_seeds() -> None:
    families, own = plan(SMALL, "small"), SMALL["freelb"]
    few = own["finetune"]["decisive"]["other_seeds"]
    counts: dict[tuple[str, str], set[str]] = {}
    for run in families["finetune"].runs:
        counts.setdefault((run["encoder"], run["task"]), set()).add(run["seed"])
    for (encoder, task), seeds in counts.items():
        decisive = encoder == "roberta" and task in own["finetune"]["decisive"]["tasks"]
        assert len(seeds) == (len(own["seeds"]) if decisive else few)
    made = {path for family in families.values() for path in family.everything()}
    for family in families.values():
        for run in family.runs:
            assert {path for paths in family.inputs_of(**run).values() for path in paths} <= made
