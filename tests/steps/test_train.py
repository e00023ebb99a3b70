"""train: success is the predicate on the prediction, poisons outside the threat model are not scored, dropped poisons do nothing."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from relearn import cli
from relearn.data.arrays import load_prepared
from relearn.measures.embed import embed
from relearn.methods.transfer import fine_tune
from relearn.models import files

INPUTS = {"data": "prepare/data.safetensors", "victim": "victim/weights.safetensors"}


def test_one_target_by_hand_on_the_poisoned_images(chain, read_trials):
    data = load_prepared(chain.path("prepare/data.safetensors"))
    trials = data.trials(**chain.trials)
    victim = files.load(chain.path("victim/weights.safetensors"))
    poisons = load_file(chain.path("craft/poisons.safetensors"))["poisons"]
    images, labels = data.fine_tune()
    images[trials.base_positions_in_fine_tune] = poisons[1]
    recipe = {k: chain.fine_tuning[k] for k in ("epochs", "batch_size", "lr", "weight_decay")}
    keep = torch.ones(len(labels), 1, 1)
    heads, _, _ = fine_tune(
        embed(victim, images)[:, None], labels, keep, victim.head, milestones=(3,), **recipe
    )
    test_images, test_labels = data.test()
    logits = embed(victim, test_images) @ heads.weight[0, 0].T + heads.bias[0, 0]
    target = embed(victim, trials.target_images[1:2]) @ heads.weight[0, 0].T + heads.bias[0, 0]
    row = read_trials(chain.path("train"))[1]
    assert int(row["predicted"]) == int(target.argmax())
    assert float(row["test_accuracy_frac"]) == pytest.approx(
        float((logits.argmax(1) == test_labels).float().mean()), abs=1e-6
    )


def test_success_is_the_poison_class_and_nothing_else(chain, read_trials):
    for name in ("train", "filtered", "clean"):
        for row in read_trials(chain.path(name)):
            assert int(row["success"]) == int(int(row["predicted"]) == chain.trials["poison_class"])


def test_the_sweep_gives_a_row_for_each_k_and_the_chosen_first(chain, read_trials):
    rows = read_trials(chain.path("filtered"))
    assert [row["k"] for row in rows[:3]] == ["20", "3", "60"]
    assert [row["chosen"] for row in rows[:3]] == ["1", "0", "0"] and len(rows) == 9
    kept = load_file(chain.path("filter/kept.safetensors"))["keep"]
    assert [int(row["fine_tune_count"]) for row in rows[:3]] == kept[:, 0].sum(1).tolist()


def test_with_all_poisons_dropped_all_targets_see_the_same_training(chain, read_trials, tmp_path):
    data = load_prepared(chain.path("prepare/data.safetensors"))
    keep = torch.ones(1, 3, 200, dtype=torch.bool)
    keep[:, :, data.trials(**chain.trials).base_positions_in_fine_tune] = False
    save_file({"keep": keep, "k": torch.tensor([0])}, tmp_path / "kept.safetensors")
    inputs = {**INPUTS, "poisons": "craft/poisons.safetensors", "kept": str(tmp_path / "kept.safetensors")}
    chain.step("train", "dropped", chain.poisoned, **inputs)
    rows = read_trials(chain.path("dropped"))
    assert len({row["test_accuracy_frac"] for row in rows}) == 1
    assert {row["poisons_count"] for row in rows} == {"0"}


def test_a_poison_outside_its_ball_is_refused_before_scoring(chain, tmp_path, capsys):
    poisons = load_file(chain.path("craft/poisons.safetensors"))["poisons"]
    poisons[2, 1] = 255 - poisons[2, 1]
    save_file({"poisons": poisons}, tmp_path / "poisons.safetensors")
    words = [
        "train",
        "--settings",
        json.dumps(chain.poisoned),
        "--out",
        str(chain.path("refused")),
        "--device",
        "cpu",
    ]
    for name, file in INPUTS.items():
        words += ["--input", name, str(chain.path(file))]
    assert cli.main([*words, "--input", "poisons", str(tmp_path / "poisons.safetensors")]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("relearn train:") and "eps" in error
    assert not (chain.path("refused") / "record.json").exists()


def test_the_clean_run_has_no_threat_and_the_poisoned_ones_say_how_much_was_known(chain):
    clean, poisoned = (json.loads((chain.path(n) / "record.json").read_text()) for n in ("clean", "train"))
    assert clean["threat_model"] is None and poisoned["threat_model"]["knowledge"] == "gray_box"
