"""evaluate_networks: every number is that of the stored network, recomputed here by hand."""

import json

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from relearn.data.arrays import load_prepared
from relearn.data.corruptions import NAMES, corrupt
from relearn.models import files

PGD = {"eps": [0.02, 0.1], "steps": 3, "restarts": 2, "images": 30}
ROBUSTNESS = {"calibration_bins": 10, "pgd": PGD, "corruptions": {"images": 20}}
INPUTS = {"data": "prepare/data.safetensors", "network": "victim/weights.safetensors"}


@pytest.fixture(scope="module")
def evaluated(chain):
    return chain.step("evaluate_networks", "robustness", ROBUSTNESS, **INPUTS)


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


def test_the_record_states_how_was_measured(evaluated):
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
    record = chain.step("evaluate_networks", "fog", settings, **INPUTS)
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
        "evaluate_networks", "nan", ROBUSTNESS, data=INPUTS["data"], network="broken/weights.safetensors"
    )
    assert record["outcome"] == "diverged" and "not finite" in record["outcome_reason"]


def test_the_attack_raises_the_loss_of_the_stored_network(chain, evaluated):
    """Not only errors: the curve's end is above the clean loss."""
    net, images, labels = victim_and_test(chain)
    with torch.no_grad():
        clean = float(cross_entropy(net(images[:30].float() / 255), labels[:30]))
    last = chain.path("robustness/loss_curves.csv").read_text().splitlines()[-1]
    assert float(last.split(",")[-1]) > clean


def test_progress_counts_every_attack_and_corruption_once(chain, monkeypatch):
    from relearn.runs import console

    seen = []
    monkeypatch.setattr(console.Progress, "__call__", lambda self, done, total: seen.append((done, total)))
    few = {**ROBUSTNESS, "pgd": {**PGD, "images": 2}}
    few["corruptions"] = {"images": 2, "names": list(NAMES[:2])}
    chain.step("evaluate_networks", "progress", few, **INPUTS)
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
    assert {total for _, total in seen} == {len(seen)}
