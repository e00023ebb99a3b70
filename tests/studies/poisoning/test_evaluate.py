"""evaluate: every number is that of the stored network, recomputed here by hand; the small protocols hold what they promise."""

import json

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from relearn.data.arrays import load_prepared
from relearn.data.corruptions import NAMES, corrupt
from relearn.models import files

PGD = {"eps": [0.02, 0.1], "steps": 3, "restarts": 2, "images": 30}
ROBUSTNESS = {"protocol": "robustness", "calibration_bins": 10, "pgd": PGD, "corruptions": {"images": 20}}
INPUTS = {"data": "prepare/data.safetensors", "network": "victim/weights.safetensors"}


@pytest.fixture(scope="module")
def evaluated(chain):
    return chain.step("evaluate", "robustness", ROBUSTNESS, {"protocol": "robustness"}, **INPUTS)


def victim_and_test(chain):
    net = files.load(chain.path("victim/weights.safetensors"))
    return net, *load_prepared(chain.path("prepare/data.safetensors")).test()


def test_clean_accuracy_agrees_with_pretraining_and_with_its_classes(chain, evaluated, read_trials):
    pretrained = json.loads((chain.path("victim") / "record.json").read_text())
    accuracy = evaluated["metrics"]["test_accuracy_frac"]
    assert accuracy == pretrained["metrics"]["test_accuracy_frac"]
    rows = read_trials(chain.path("robustness"))
    (clean,) = [row for row in rows if row["kind"] == "clean"]
    assert (
        float(clean["accuracy_frac"]) == accuracy
        and int(clean["count"]) == evaluated["metrics"]["test_count"]
    )
    classes = [row for row in rows if row["kind"] == "class"]
    right = sum(float(row["accuracy_frac"]) * int(row["count"]) for row in classes)
    assert len(classes) == 10 and right / int(clean["count"]) == pytest.approx(accuracy)
    assert 0 <= evaluated["metrics"]["ece_frac"] <= 1


def test_corruption_rows_are_the_networks_accuracy_on_the_corrupted_images(chain, evaluated, read_trials):
    net, images, labels = victim_and_test(chain)
    rows = [row for row in read_trials(chain.path("robustness")) if row["kind"] == "corruption"]
    assert [(row["name"], int(row["level"])) for row in rows] == [(n, s) for n in NAMES for s in range(1, 6)]
    for row in rows[::7]:
        changed = corrupt(images[:20].numpy(), row["name"], int(row["level"]), seed=0)
        with torch.no_grad():
            right = net(torch.from_numpy(changed).float() / 255).argmax(1) == labels[:20]
        assert float(row["accuracy_frac"]) == pytest.approx(float(right.double().mean()))
        assert int(row["count"]) == 20
    mean = np.mean([float(row["accuracy_frac"]) for row in rows])
    assert evaluated["metrics"]["corruption_accuracy_frac"] == pytest.approx(mean)
    assert evaluated["metrics"]["corruption_error_frac"] == pytest.approx(1 - mean)


def test_pgd_rows_and_curves_are_those_of_an_attack_on_the_stored_network(chain, evaluated, read_trials):
    from relearn.methods.pgd import pgd

    net, images, labels = victim_and_test(chain)
    rows = [row for row in read_trials(chain.path("robustness")) if row["kind"] == "pgd"]
    assert [float(row["level"]) for row in rows] == PGD["eps"]
    curves = np.genfromtxt(
        chain.path("robustness/loss_curves.csv"), delimiter=",", names=True, dtype=None, encoding="utf-8"
    )
    assert len(curves) == len(PGD["eps"]) * PGD["restarts"] * (PGD["steps"] + 1)
    for row in rows:
        eps = float(row["level"])
        found = pgd(
            net,
            images[:30].float() / 255,
            labels[:30],
            eps=eps,
            step_size=2.5 * eps / 3,
            steps=3,
            restarts=2,
            seed=0,
        )
        assert float(row["accuracy_frac"]) == pytest.approx(1 - float(found.fooled.double().mean()))
        assert float(row["error_frac"]) == pytest.approx(float(found.fooled.double().mean()))
        mine = curves["loss_nats"][curves["eps"] == eps].reshape(2, 4)
        assert mine == pytest.approx(found.loss_curves.numpy(), abs=1e-5)
    metrics = evaluated["metrics"]
    assert metrics["pgd_accuracy_eps_25.5_255_frac"] == float(rows[1]["accuracy_frac"])
    assert (
        float(rows[1]["accuracy_frac"])
        <= float(rows[0]["accuracy_frac"])
        <= metrics["pgd_clean_accuracy_frac"]
    )


def test_the_protocol_stands_in_the_record(evaluated):
    assert evaluated["settings"] == ROBUSTNESS
    notes = " ".join(evaluated["notes"])
    for words in (
        "l-infinity",
        "first 30 test images",
        "3 steps of 2.5 eps/steps",
        "2 random starts",
        "masked gradients, checked at",
        "first 20 test images",
        "frost is synthesised",
        "not mCE",
        "lengths are multiples of side/32",
    ):
        assert words in notes
    flags = evaluated["metrics"]["masked_gradient_flags_count"]
    assert ("NOT to be trusted" in notes) == (flags > 0)


def test_few_corruptions_can_be_named(chain, read_trials):
    settings = ROBUSTNESS | {"corruptions": {"images": 5, "names": ["fog"]}}
    record = chain.step("evaluate", "fog", settings, **INPUTS)
    rows = [row for row in read_trials(chain.path("fog")) if row["kind"] == "corruption"]
    assert {row["name"] for row in rows} == {"fog"} and len(rows) == 5
    assert not any("synthesised" in note for note in record["notes"])


def test_a_network_that_diverged_is_recorded_as_such(chain):
    net = files.load(chain.path("victim/weights.safetensors"))
    net.head.bias.data.fill_(float("nan"))
    from relearn.studies.poisoning.steps.adversarial_training import describe

    description = describe(chain.path("victim/weights.safetensors"))
    chain.path("broken").mkdir()
    files.save(net, chain.path("broken/weights.safetensors"), description)
    record = chain.step(
        "evaluate", "nan", ROBUSTNESS, data=INPUTS["data"], network="broken/weights.safetensors"
    )
    assert record["outcome"] == "diverged" and "not finite" in record["outcome_reason"]


def test_hull_protocol_finds_no_separator_inside_and_always_one_outside(chain):
    record = chain.step(
        "evaluate", "hull", {"protocol": "hull", "dimension": 2048, "poisons": 5, "problems": 4}
    )
    metrics = record["metrics"]
    assert metrics["inside_count"] == metrics["outside_count"] == 4
    assert metrics["inside_separators_count"] == 0 and metrics["outside_separators_count"] == 4


def test_toy_protocol_says_which_poisons_take_the_target_along(chain, read_trials):
    record = chain.step("evaluate", "toy", {"protocol": "toy"})
    rows = read_trials(chain.path("toy"))
    assert list(rows[0]) == ["panel", "kind", "x", "y"]
    for panel, taken in (("feature_collision", 0), ("convex_polytope", 1)):
        assert record["metrics"][f"{panel}_targets_taken_count"] == taken
        here = [row for row in rows if row["panel"] == panel]
        first, second = (
            np.array([float(r["x"]), float(r["y"])]) for r in here if r["kind"] == "boundary_after"
        )
        (target,) = (np.array([float(r["x"]), float(r["y"])]) for r in here if r["kind"] == "target")
        along, to = second - first, target - first
        assert (along[0] * to[1] - along[1] * to[0] < 0) == bool(taken)


def test_feature_plane_shows_the_fine_tuning_set_and_what_deep_knn_keeps(chain, read_trials):
    settings = {
        **chain.trials,
        "protocol": "feature_plane",
        "attack": "convex_polytope",
        "target": 1,
        "k": 20,
    }
    inputs = {
        "data": "prepare/data.safetensors",
        "victim": "victim/weights.safetensors",
        "poisons": "craft/poisons.safetensors",
    }
    record = chain.step("evaluate", "plane", settings, **inputs)
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


def test_unknown_protocols_and_targets_are_named(chain):
    from relearn.studies.poisoning.steps import evaluate

    with pytest.raises(
        ValueError, match="protocol is 'accuracy'; allowed: robustness, hull, toy, feature_plane"
    ):
        evaluate.run(None, {"protocol": "accuracy"}, {}, "cpu", "fp32")
    settings = {**chain.trials, "protocol": "feature_plane", "target": 3, "k": 20}
    with pytest.raises(ValueError, match="target is 3; allowed: 0 to 2"):
        evaluate.run(None, settings, {"data": [chain.path("prepare/data.safetensors")]}, "cpu", "fp32")


def test_the_attack_raises_the_loss_of_the_stored_network(chain, evaluated):
    """Not only errors: the curve's end is above the clean loss."""
    net, images, labels = victim_and_test(chain)
    with torch.no_grad():
        clean = float(cross_entropy(net(images[:30].float() / 255), labels[:30]))
    last = chain.path("robustness/loss_curves.csv").read_text().splitlines()[-1]
    assert float(last.split(",")[-1]) > clean
