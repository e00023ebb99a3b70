"""pretrain: the recorded accuracy is the stored network's; roles and seeds start apart; a resumed job ends the same.

adversarial_training: it continues from the victim, makes it more robust, and a killed job ends in the same bits.
"""

import json

import numpy as np
import pytest
import torch

from relearn.data.arrays import load_prepared
from relearn.methods.pgd import pgd
from relearn.models import files
from relearn.runs.settings import read
from relearn.studies.poisoning.steps.adversarial_training import describe

from ...steps.recorded import killed, loaded


def test_recorded_accuracy_is_that_of_the_stored_weights(chain):
    record = json.loads((chain.path("victim") / "record.json").read_text())
    net = files.load(chain.path("victim/weights.safetensors"))
    images, labels = load_prepared(chain.path("prepare/data.safetensors")).test()
    with torch.no_grad():
        right = (net(images.float() / 255).argmax(1) == labels).double().mean()
    assert abs(record["metrics"]["test_accuracy_frac"] - float(right)) < 1e-12
    assert record["metrics"]["parameters_count"] == sum(p.numel() for p in net.parameters())


def test_networks_normalise_with_the_pretraining_images(chain):
    net = files.load(chain.path("victim/weights.safetensors"))
    images, _ = load_prepared(chain.path("prepare/data.safetensors")).pretrain()
    pixels = images.double() / 255
    assert abs(float(net.mean) - float(pixels.mean())) < 1e-6
    assert abs(float(net.std) - float(pixels.std(unbiased=False))) < 1e-6


def test_substitute_and_victim_of_one_architecture_differ(chain):
    one, other = (files.load(chain.path(f"{role}/weights.safetensors")) for role in ("substitute", "victim"))
    assert not torch.equal(one.head.weight, other.head.weight)


def test_same_settings_and_seed_give_the_same_bits(chain):
    before = chain.path("victim/weights.safetensors").read_bytes()
    record = json.loads((chain.path("victim") / "record.json").read_text())
    chain.step("pretrain", "again", record["settings"], record["labels"], data="prepare/data.safetensors")
    assert chain.path("again/weights.safetensors").read_bytes() == before


# split_overlap: a range of each class's pre-training images, everything else untouched, statistics of what is left.


@pytest.mark.parametrize(("start", "stop"), [(0.0, 0.5), (0.25, 0.75), (0.29, 1.0)])
def test_the_range_of_each_class_by_hand(chain, start, stop):
    """Of 40 images; 0.29 of them are 11.6, rounded to the nearest number."""
    name = f"subset-{start}"
    chain.step("split_overlap", name, {"start": start, "stop": stop}, data="prepare/data.safetensors")
    whole = load_prepared(chain.path("prepare/data.safetensors"))
    part = load_prepared(chain.path(f"{name}/data.safetensors"))
    images, labels = whole.pretrain()
    for label in range(10):
        own = images[labels == label]
        wanted = own[round(40 * start) : round(40 * stop)]
        assert torch.equal(part.pretrain()[0][part.pretrain()[1] == label], wanted)
    kept = part.pretrain()[0].double() / 255
    assert torch.allclose(part.mean.double(), kept.mean((0, 2, 3)), atol=1e-6)
    assert torch.allclose(part.std.double(), kept.std((0, 2, 3), correction=0), atol=1e-6)
    for get in ("fine_tune", "pool", "test"):
        assert all(
            torch.equal(a, b) for a, b in zip(getattr(part, get)(), getattr(whole, get)(), strict=True)
        )
    assert part.classes == whole.classes


def test_two_halves_share_nothing_and_the_middle_shares_half(chain):
    parts = {}
    for name, start, stop in (("a", 0.0, 0.5), ("b", 0.5, 1.0), ("c", 0.25, 0.75)):
        chain.step(
            "split_overlap", f"part-{name}", {"start": start, "stop": stop}, data="prepare/data.safetensors"
        )
        parts[name] = set(
            load_prepared(chain.path(f"part-{name}/data.safetensors")).tensors["pretrain"].tolist()
        )
    assert not parts["a"] & parts["b"] and len(parts["a"] & parts["c"]) == len(parts["a"]) / 2


# hull_proposition and toy_example: the counts of the proposition, and the side of the target in the plane.


def test_hull_proposition_finds_no_separator_inside_and_always_one_outside(chain):
    record = chain.step("hull_proposition", "hull", {"dimension": 2048, "poisons": 5, "problems": 4})
    metrics = record["metrics"]
    assert metrics["inside_count"] == metrics["outside_count"] == 4
    assert metrics["inside_separators_count"] == 0 and metrics["outside_separators_count"] == 4


def test_toy_example_reports_which_poisons_mislead_the_svm(chain, read_trials):
    record = chain.step("toy_example", "toy", {})
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


SETTINGS = {
    "architecture": "ResNet18",
    "training": {
        "epochs": 2,
        "batch_size": 64,
        "lr": 0.02,
        "momentum": 0.9,
        "weight_decay": 5.0e-4,
        "schedule": "cosine",
        "crop_padding": 1,
        "flip": False,
    },
    "adversarial": {"eps": 0.1, "steps": 2, "step_size": 0.08},
}
INPUTS = {"data": "prepare/data.safetensors", "start": "victim/weights.safetensors"}
LABELS = {"role": "robust", "network": "ResNet18-drop0", "architecture": "ResNet18"}


@pytest.fixture(scope="module")
def hardened(chain):
    return chain.step("adversarial_training", "robust", SETTINGS, LABELS, **INPUTS)


def test_the_hardened_network_loses_less_to_pgd_than_the_one_it_started_from(chain, hardened):
    images, labels = load_prepared(chain.path("prepare/data.safetensors")).test()
    loss = {}
    for name in ("victim", "robust"):
        net = files.load(chain.path(f"{name}/weights.safetensors"))
        found = pgd(net, images[:150], labels[:150], eps=0.1, step_size=0.05, steps=4)
        loss[name] = float(found.loss_curves[0, -1])
    assert loss["robust"] < loss["victim"]


def test_the_recorded_accuracies_are_those_of_the_stored_networks(chain, hardened):
    victim = json.loads((chain.path("victim") / "record.json").read_text())
    metrics = hardened["metrics"]
    assert metrics["start_test_accuracy_frac"] == victim["metrics"]["test_accuracy_frac"]
    images, labels = load_prepared(chain.path("prepare/data.safetensors")).test()
    net = files.load(chain.path("robust/weights.safetensors"))
    with torch.no_grad():
        right = (net(images.float() / 255).argmax(1) == labels).double().mean()
    assert metrics["test_accuracy_frac"] == pytest.approx(float(right))
    assert metrics["steps_count"] == 2 * (400 // 64 + 1)
    assert describe(chain.path("robust/weights.safetensors")) == describe(
        chain.path("victim/weights.safetensors")
    )


def test_a_killed_job_resumes_and_ends_in_the_same_bits(chain, hardened):
    """Killed behind the first checkpoint; the second attempt starts from it, not from the beginning."""
    whole = chain.path("robust/weights.safetensors").read_bytes()
    with killed(), pytest.raises((AssertionError, KeyboardInterrupt)):
        chain.step("adversarial_training", "again", SETTINGS, LABELS, **INPUTS)
    assert not chain.path("again/record.json").exists()
    with loaded() as seen:
        record = chain.step("adversarial_training", "again", SETTINGS, LABELS, **INPUTS)
    assert seen[0] is not None and seen[0]["epoch"] == 1
    assert chain.path("again/weights.safetensors").read_bytes() == whole
    assert any("resumed" in note for note in record["notes"])


def test_the_wrong_architecture_and_files_without_one_are_named(chain, tmp_path):
    from safetensors.torch import save_file

    from relearn.studies.poisoning.steps import adversarial_training

    inputs = {"data": [chain.path(INPUTS["data"])], "start": [chain.path(INPUTS["start"])]}
    other = read(adversarial_training.Settings, {**SETTINGS, "architecture": "DPN92"})
    with pytest.raises(ValueError, match="holds a ResNet18; allowed: DPN92"):
        adversarial_training.run(None, other, inputs, "cpu", "fp32")
    save_file({"a": torch.zeros(1)}, tmp_path / "bare.safetensors")
    with pytest.raises(ValueError, match="no description of a network"):
        describe(tmp_path / "bare.safetensors")
    (tmp_path / "text.safetensors").write_text("hello")
    with pytest.raises(ValueError, match="not the weights of a network"):
        describe(tmp_path / "text.safetensors")
