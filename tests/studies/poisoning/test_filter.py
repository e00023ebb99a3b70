"""filter: the counts in the trials are those of the stored masks; the masks are those of the method on the victim's features."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from safetensors.torch import load_file

from relearn.data.arrays import load_prepared
from relearn.measures.embed import embed
from relearn.methods import DEFENCES, load
from relearn.methods.deep_knn import DeepKNN
from relearn.models import files


def test_masks_equal_the_method_by_hand(chain):
    data = load_prepared(chain.path("prepare/data.safetensors"))
    trials = data.trials(**chain.trials)
    victim = files.load(chain.path("victim/weights.safetensors"))
    kept = load_file(chain.path("filter/kept.safetensors"))
    poisons = load_file(chain.path("craft/poisons.safetensors"))["poisons"]
    images, labels = data.fine_tune()
    assert kept["k"].tolist() == [20, 3, 60] and kept["keep"].shape == (3, 3, 200)
    for t in range(len(poisons)):
        replaced = images.clone()
        replaced[trials.base_positions_in_fine_tune] = poisons[t]
        features = embed(victim, replaced)
        for variant, k in enumerate(kept["k"].tolist()):
            by_hand = torch.as_tensor(DeepKNN(k=k).fit_predict(features, labels)) == 1
            assert torch.equal(kept["keep"][variant, t], by_hand)


def test_counts_in_the_trials_are_those_of_the_masks(chain, read_trials):
    kept = load_file(chain.path("filter/kept.safetensors"))
    data = load_prepared(chain.path("prepare/data.safetensors"))
    bases = data.trials(**chain.trials).base_positions_in_fine_tune
    rows = read_trials(chain.path("filter"))
    assert len(rows) == 9 and [row["chosen"] for row in rows] == ["1"] * 3 + ["0"] * 6
    for number, row in enumerate(rows):
        dropped = ~kept["keep"][number // 3, number % 3]
        assert int(row["poisons_removed"]) == int(dropped[bases].sum())
        assert int(row["clean_removed"]) == int(dropped.sum()) - int(dropped[bases].sum())
        assert float(row["normalised_k"]) == int(row["k"]) / 20


def test_a_random_defence_draws_independently_for_each_target(chain):
    settings = {**chain.trials, "defence": "random_eviction", "fraction": 0.1}
    inputs = {"data": "prepare/data.safetensors", "victim": "victim/weights.safetensors"}
    chain.step("filter", "evicted", settings, **inputs, poisons="craft/poisons.safetensors")
    keep = load_file(chain.path("evicted/kept.safetensors"))["keep"][0]
    assert (~keep).sum(1).tolist() == [20, 20, 20] and not torch.equal(keep[0], keep[1])
    control = load_file(chain.path("evicted/kept.safetensors"))["control"][0]
    assert torch.equal(control, keep)  # the same draws, target by target
    poisons = "craft/poisons.safetensors"
    chain.step("filter", "evicted_other", settings, {"victim": "other"}, **inputs, poisons=poisons)
    assert not torch.equal(load_file(chain.path("evicted_other/kept.safetensors"))["keep"][0], keep)


@pytest.mark.parametrize("name", ["spectral_signatures", "activation_clustering", "epic"])
def test_a_filter_with_the_arguments_of_params_and_the_victim_behind_it(chain, read_trials, name):
    params = yaml.safe_load((Path(__file__).parents[3] / "params.yaml").read_text())
    arguments = params["poisoning"]["filter"][name]
    inputs = {"data": "prepare/data.safetensors", "victim": "victim/weights.safetensors"}
    inputs["poisons"] = "craft/poisons.safetensors"
    chain.step("filter", f"by_{name}", {**chain.trials, **arguments, "defence": name}, **inputs)
    chain.step("train", f"behind_{name}", chain.poisoned, **inputs, kept=f"by_{name}/kept.safetensors")
    data, kept = (
        load_prepared(chain.path("prepare/data.safetensors")),
        load_file(chain.path(f"by_{name}/kept.safetensors")),
    )
    victim, (images, labels) = files.load(chain.path("victim/weights.safetensors")), data.fine_tune()
    by_hand = load(DEFENCES, name)(**arguments).fit_predict(embed(victim, images), labels) == 1
    assert torch.equal(kept["control"][0, 0], torch.as_tensor(by_hand)) and 100 < by_hand.sum() < 200
    counts = [int(row["fine_tune_count"]) for row in read_trials(chain.path(f"behind_{name}"))]
    assert counts == kept["keep"][0].sum(1).tolist()


def test_a_single_row_has_the_columns_of_many(chain, read_trials):
    """One target behind a defence without a sweep."""
    one = {**chain.trials, "targets": 1}
    data = {"data": "prepare/data.safetensors"}
    nets = ["substitute/weights.safetensors"]
    chain.step("craft", "one_target", {**chain.craft, "targets": 1}, **data, substitutes=nets)
    inputs = {**data, "victim": "victim/weights.safetensors", "poisons": "one_target/poisons.safetensors"}
    settings = {**one, "defence": "random_eviction", "fraction": 0.1}
    chain.step("filter", "one_row", settings, **inputs)
    (row,) = read_trials(chain.path("one_row"))
    (other, *_) = read_trials(chain.path("filter"))
    assert list(row) == list(other) and row["chosen"] == "1" and row["k"] == ""


def test_the_control_is_the_clean_set_behind_the_same_filter(chain):
    data = load_prepared(chain.path("prepare/data.safetensors"))
    images, labels = data.fine_tune()
    features = embed(files.load(chain.path("victim/weights.safetensors")), images)
    kept = load_file(chain.path("filter/kept.safetensors"))
    assert kept["control"].shape == (3, 1, 200)
    for variant, k in enumerate(kept["k"].tolist()):
        by_hand = torch.as_tensor(DeepKNN(k=k).fit_predict(features, labels)) == 1
        assert torch.equal(kept["control"][variant, 0], by_hand)


def test_the_tie_rule_of_the_public_code_can_be_set(chain):
    settings = {**chain.trials, **chain.knn, "k": 20, "sweep": [3, 60], "include_self": True}
    inputs = {"data": "prepare/data.safetensors", "victim": "victim/weights.safetensors"}
    found = []
    for ties in ("keep", "smallest"):
        own = settings | {"label_ties": ties}
        chain.step("filter", f"ties_{ties}", own, **inputs, poisons="craft/poisons.safetensors")
        found.append(load_file(chain.path(f"ties_{ties}/kept.safetensors"))["keep"])
    assert not (found[1] & ~found[0]).any() and (found[0] & ~found[1]).any()  # it only drops more


def test_imbalance_by_hand_and_copies_are_counted(chain, read_trials):
    """The target class cut to its first n images; with replication every class is as large as the largest again."""
    settings = {**chain.trials, **chain.knn, "k": 30, "class_sizes": [2, 7]}
    inputs = {
        "data": "prepare/data.safetensors",
        "victim": "victim/weights.safetensors",
        "poisons": "craft/poisons.safetensors",
    }
    chain.step("filter", "imbalance", settings, {"setting": "imbalance"}, **inputs)
    kept = load_file(chain.path("imbalance/kept.safetensors"))
    assert kept["control"].shape == (6, 1, 200)
    assert kept["class_size"].tolist() == [20, 20, 7, 7, 2, 2] and kept["replicated"].tolist() == [0, 1] * 3
    data = load_prepared(chain.path("prepare/data.safetensors"))
    images, labels = data.fine_tune()
    frogs = (labels == chain.trials["target_class"]).nonzero().flatten()
    trials = data.trials(**chain.trials)
    victim = files.load(chain.path("victim/weights.safetensors"))
    images[trials.base_positions_in_fine_tune] = load_file(chain.path("craft/poisons.safetensors"))[
        "poisons"
    ][1]
    points = torch.tensor([i for i in range(len(labels)) if i not in frogs[2:].tolist()])
    features = embed(victim, images)[points]
    copies = torch.cat([torch.arange(len(points)), *([(labels[points] == 6).nonzero().flatten()] * 9)])
    for variant, rows in ((4, torch.arange(len(points))), (5, copies)):
        answer = DeepKNN(k=30).fit_predict(features[rows], labels[points][rows])
        by_hand = torch.zeros(len(labels), dtype=torch.int64)
        by_hand.index_add_(0, points[rows], torch.from_numpy((answer == 1).astype("int64")))
        assert torch.equal(kept["keep"][variant, 1], by_hand)
    rows = read_trials(chain.path("imbalance"))
    assert {row["class_size_frac"] for row in rows} == {"1.0", "0.35", "0.1"}
    absent = kept["keep"][4][:, frogs[2:]]
    assert int(absent.sum()) == 0
    assert all(
        int(row["poisons"]) + int(row["clean"]) == len(points) for row in rows if row["class_size"] == "2"
    )
    chain.step("train", "imbalanced", chain.poisoned, **inputs, kept="imbalance/kept.safetensors")
    trained = read_trials(chain.path("imbalanced"))
    assert [row["class_size"] for row in trained[:6]] == ["20", "20", "7", "7", "2", "2"]
    assert [row["chosen"] for row in trained[:6]] == ["1", "0", "0", "0", "0", "0"]


def test_a_filter_that_changes_what_it_is_given_changes_nothing_else(chain, monkeypatch):
    kept = {}
    for name, writes in (("reads", False), ("writes", True)):

        class Mine:
            def __init__(self, writes=writes, seed=0):
                self.writes = writes

            def fit_predict(self, X, y):
                found = torch.where((y == 6) & (X.mean(1) < X.mean()), -1, 1)
                if self.writes:
                    X.neg_()
                    y += 1
                return found

        monkeypatch.setitem(sys.modules, f"filter_{name}", SimpleNamespace(Mine=Mine))
        monkeypatch.setitem(DEFENCES, "random_eviction", f"filter_{name}:Mine")
        inputs = {"data": "prepare/data.safetensors", "victim": "victim/weights.safetensors"}
        settings = {**chain.trials, "defence": "random_eviction"}
        chain.step("filter", name, settings, **inputs, poisons="craft/poisons.safetensors")
        kept[name] = load_file(chain.path(f"{name}/kept.safetensors"))
    assert all(torch.equal(kept["reads"][key], kept["writes"][key]) for key in ("keep", "control"))
    assert not kept["reads"]["control"].all()
