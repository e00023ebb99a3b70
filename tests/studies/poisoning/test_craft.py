"""craft: stored poisons stay inside the stated ball after quantisation, and the record contains the threat model.

feature_plane: the points are the fine-tuning set, and the crosses are what Deep k-NN removes.
"""

import json
import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from relearn.data.arrays import load_prepared
from relearn.methods import ATTACKS
from relearn.methods.crafting import Crafted

from ...steps.recorded import by_command


def crafted(chain):
    data = load_prepared(chain.path("prepare/data.safetensors"))
    trials = data.trials(
        **{k: chain.craft[k] for k in ("poison_class", "target_class", "poisons", "targets")}
    )
    return load_file(chain.path("craft/poisons.safetensors"))["poisons"], trials


def test_poisons_are_eight_bit_images_inside_the_ball(chain):
    poisons, trials = crafted(chain)
    assert poisons.dtype == torch.uint8 and poisons.shape == (3, 2, 1, 8, 8)
    change = (poisons.int() - trials.base_images.int()).abs()
    assert 0 < int(change.max()) <= chain.craft["eps"] * 255


def test_record_states_the_threat_model_with_units_and_both_ratios(chain):
    record = json.loads((chain.path("craft") / "record.json").read_text())
    threat = record["threat_model"]
    assert threat["eps"] == 0.2 and abs(threat["eps_255"] - 51.0) < 1e-9
    assert threat["poisons_count"] == 2
    assert abs(threat["poisons_of_class_frac"] - 2 / 20) < 1e-12
    assert abs(threat["poisons_of_set_frac"] - 2 / 200) < 1e-12


def test_trials_hold_the_change_that_the_images_show(chain, read_trials):
    poisons, trials = crafted(chain)
    for row, images in zip(read_trials(chain.path("craft")), poisons, strict=True):
        change = (images.float() - trials.base_images.float()).abs()
        assert float(row["linf_255"]) == float(change.max())
        assert abs(float(row["l1_mean_255"]) - float(change.mean())) < 1e-4


def test_every_iteration_is_in_the_spool(chain):
    record = json.loads((chain.path("craft") / "record.json").read_text())
    spool = chain.runs.parent / "spool" / f"{record['run']}.jsonl"
    lines = [json.loads(line) for line in spool.read_text().splitlines()]
    assert sum("loss_sum" in json.dumps(line) for line in lines) == chain.craft["iterations"]


def test_feature_plane_shows_the_fine_tuning_set_and_what_deep_knn_keeps(chain, read_trials):
    settings = {
        **chain.trials,
        "attack": "convex_polytope",
        "target": 1,
        "k": 20,
    }
    inputs = {
        "data": "prepare/data.safetensors",
        "victim": "victim/weights.safetensors",
        "poisons": "craft/poisons.safetensors",
    }
    record = chain.step("feature_plane", "plane", settings, **inputs)
    rows = read_trials(chain.path("plane"))
    data = load_prepared(chain.path("prepare/data.safetensors"))
    _, labels = data.fine_tune()
    trials = data.trials(**chain.trials)
    assert len(rows) == len(labels) + 1 == record["metrics"]["points_count"]
    assert {row["target"] for row in rows} == {str(int(trials.target_index[1]))}
    assert [i for i, row in enumerate(rows) if row["kind"] == "poison"] == (
        trials.base_positions_in_fine_tune.tolist()
    )
    assert rows[-1]["kind"] == "target" and rows[-1]["kept"] == ""
    for name in ("target_class", "poison_class"):
        wanted = int((labels == chain.trials[name]).sum()) - (2 if name == "poison_class" else 0)
        assert sum(row["kind"] == name for row in rows) == wanted
    means = {
        kind: np.mean([float(row["x"]) for row in rows if row["kind"] == kind])
        for kind in ("target_class", "poison_class")
    }
    assert (
        means["poison_class"] == pytest.approx(-means["target_class"], abs=1e-6) and means["poison_class"] > 0
    )
    filtered = [
        row
        for row in read_trials(chain.path("filter"))
        if row["k"] == "20" and row["target"] == rows[0]["target"]
    ]
    removed = sum(row["kind"] == "poison" and row["kept"] == "0" for row in rows)
    assert removed == int(filtered[0]["poisons_removed"])


def test_a_target_outside_the_trials_is_refused(chain):
    from relearn.studies.poisoning.steps import feature_plane

    settings = feature_plane.Settings(**chain.trials, attack="convex_polytope", target=3, k=20)
    with pytest.raises(ValueError, match="target is 3; allowed: 0 to 2"):
        feature_plane.run(None, settings, {"data": [chain.path("prepare/data.safetensors")]}, "cpu", "fp32")


def test_gradient_matching_from_several_starts_with_augmented_poisons(chain, read_trials):
    """One start is no better than two of the same seed, and the record has the iterations of both."""
    data, nets = {"data": "prepare/data.safetensors"}, ["substitute/weights.safetensors"]
    own = {
        "attack": "gradient_matching",
        "parameters": "head",
        "target_dropout": "resampled",
        "dropout": False,
    }
    losses = []
    for restarts in (1, 2):
        augment = {"crop_padding": 1, "flip": False}
        settings = {**chain.craft, **own, "restarts": restarts, "augment": augment}
        chain.step("craft", f"starts_{restarts}", settings, **data, substitutes=nets)
        losses.append([float(row["loss"]) for row in read_trials(chain.path(f"starts_{restarts}"))])
        history = (chain.path(f"starts_{restarts}") / "history.csv").read_text().splitlines()
        assert [line.split(",")[0] for line in history[1:]] == [
            str(step) for step in range(1, restarts * chain.craft["iterations"] + 1)
        ]
    assert all(two <= one for one, two in zip(*losses, strict=True))


def test_an_attack_keeps_to_the_bases_and_loses_only_the_targets_that_are_not_finite(
    chain, read_trials, monkeypatch, capsys
):
    def answer(poisons, bases):
        made = SimpleNamespace(attack=lambda *_, **__: Crafted(poisons, bases, torch.zeros(3)))
        monkeypatch.setitem(sys.modules, "own_attack", made)

    monkeypatch.setitem(ATTACKS, "convex_polytope", "own_attack:attack")
    inputs = {"data": "prepare/data.safetensors", "substitutes": "substitute/weights.safetensors"}
    refused = {key: chain.path(file) for key, file in inputs.items()}
    trials = load_prepared(chain.path("prepare/data.safetensors")).trials(**chain.trials)
    bases = (trials.base_images.float() / 255).expand(3, *trials.base_images.shape)
    others = (trials.target_images.float() / 255)[:, None].expand_as(bases)
    for poisons, centres, words in (
        (others, others, "other bases than the given ones"),
        (bases[:2], bases, "found poisons of shape"),
    ):
        answer(poisons, centres)
        by_command("poisoning", "craft", chain.path("refused"), chain.craft, code=2, **refused)
        assert words in capsys.readouterr().err
    bad = bases.clone()
    bad[1, 0, 0, 0, 0] = math.nan
    answer(bad, bases)
    assert chain.step("craft", "own", chain.craft, **inputs)["metrics"]["rejected_count"] == 1
    assert [row["rejected"] for row in read_trials(chain.path("own"))] == ["", "not finite", ""]
