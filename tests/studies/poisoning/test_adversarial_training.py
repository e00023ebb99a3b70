"""adversarial_training: it continues from the victim, makes it more robust, and a killed job ends in the same bits."""

import json

import pytest
import torch

from relearn.data.arrays import load_prepared
from relearn.methods.pgd import pgd
from relearn.models import files
from relearn.runs import checkpoint as checkpoints
from relearn.studies.poisoning.steps.adversarial_training import describe

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


def test_a_killed_job_resumes_and_ends_in_the_same_bits(chain, hardened, monkeypatch):
    """Killed behind the first checkpoint; the second attempt starts from it, not from the beginning."""
    whole = chain.path("robust/weights.safetensors").read_bytes()
    save, load, seen = checkpoints.Checkpoint.save, checkpoints.Checkpoint.load, []

    def dying(self, state):
        save(self, state)
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints.Checkpoint, "save", dying)
    with pytest.raises((AssertionError, KeyboardInterrupt)):
        chain.step("adversarial_training", "again", SETTINGS, LABELS, **INPUTS)
    assert not chain.path("again/record.json").exists()
    monkeypatch.setattr(checkpoints.Checkpoint, "save", save)
    monkeypatch.setattr(
        checkpoints.Checkpoint, "load", lambda self: seen.append(load(self)) or seen[-1], raising=True
    )
    record = chain.step("adversarial_training", "again", SETTINGS, LABELS, **INPUTS)
    assert seen[0] is not None and seen[0]["epoch"] == 1
    assert chain.path("again/weights.safetensors").read_bytes() == whole
    assert any("resumed" in note for note in record["notes"])


def test_the_wrong_architecture_and_files_without_one_are_named(chain, tmp_path):
    from safetensors.torch import save_file

    from relearn.studies.poisoning.steps import adversarial_training

    inputs = {"data": [chain.path(INPUTS["data"])], "start": [chain.path(INPUTS["start"])]}
    with pytest.raises(ValueError, match="holds a ResNet18; allowed: DPN92"):
        adversarial_training.run(None, {**SETTINGS, "architecture": "DPN92"}, inputs, "cpu", "fp32")
    save_file({"a": torch.zeros(1)}, tmp_path / "bare.safetensors")
    with pytest.raises(ValueError, match="no description of a network"):
        describe(tmp_path / "bare.safetensors")
    (tmp_path / "text.safetensors").write_text("hello")
    with pytest.raises(ValueError, match="not the weights of a network"):
        describe(tmp_path / "text.safetensors")
