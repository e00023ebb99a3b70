"""feature_plane: the points are the fine-tuning set, and the crosses are what Deep k-NN removes."""

import numpy as np
import pytest

from relearn.data.arrays import load_prepared


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

    settings = {**chain.trials, "target": 3, "k": 20}
    with pytest.raises(ValueError, match="target is 3; allowed: 0 to 2"):
        feature_plane.run(None, settings, {"data": [chain.path("prepare/data.safetensors")]}, "cpu", "fp32")
