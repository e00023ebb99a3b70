"""Numbers that are none, and settings at the edge: a stated result or a refusal, no crash."""

import csv
import inspect
import shutil
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from relearn.methods import ATTACKS, load

TRIALS = {"poison_class": 8, "target_class": 6, "poisons": 2, "targets": 2}


def test_a_training_that_blows_up_is_a_result(desk: Any) -> None:
    job = desk.run(*desk.pretrain(lr=1.0e30))
    assert job.wait() == 0, job.said
    found = desk.record("net")
    assert (found["outcome"], found["outcome_reason"]) == ("diverged", "loss not finite")
    assert 1 <= found["outcome_step"] <= found["metrics"]["steps_count"]
    text = (desk.path("net") / "record.json").read_text() + desk.spool().read_text()
    assert "Infinity" not in text and "NaN" not in text and "e+30" not in text.replace("1e+30", "")


CHEAT = """
import sys, types, torch
import relearn.methods as methods
from relearn.methods.crafting import Crafted
module = types.ModuleType("cheat")
def cheat(substitutes, bases, targets, **_):
    centres = bases.expand(len(targets), *bases.shape).clone()
    poisons = centres.clone()
    poisons[0, 0, 0, 0, 0] = float("nan")
    return Crafted(poisons=poisons, bases=centres, final_loss=torch.zeros(len(targets)), coefficients=[None])
module.cheat = cheat
sys.modules["cheat"] = module
methods.ATTACKS["cheat"] = "cheat:cheat"
"""
# A victim that calls every image the class that the attacker wants: whatever is scored has succeeded.
FOOL = """
import relearn.models.files as files
load = files.load
def fooled(path, device="cpu"):
    net = load(path, device)
    net.head.weight.data.zero_()
    net.head.bias.data.zero_()
    net.head.bias.data[8] = 100.0
    return net
files.load = fooled
"""
TUNING = {
    "setting": "transfer",
    "epochs": 1,
    "batch_size": 64,
    "lr": 1.0e-9,
    "weight_decay": 0.0,
    "milestones": [],
}


@pytest.mark.parametrize("harm", ["nan", "far"])
def test_a_poison_that_is_none_is_a_failed_attack_and_says_why(desk: Any, reference: Any, harm: str) -> None:
    """The first target's poison holds NaN, or pixels outside its ball; the second's is one. Both fool the victim."""
    shutil.copytree(reference.path("net"), desk.path("net"))
    job = desk.run(
        *desk.craft(attack="cheat"), before=CHEAT if harm == "nan" else CHEAT.replace("nan", "0.0")
    )
    assert job.wait() == 0, job.said
    poisons = "craft/poisons.safetensors"
    if harm == "nan":
        found = desk.record("craft")
        assert found["metrics"]["rejected_count"] == 1 and found["metrics"]["targets_count"] == 2
        assert any("rejected" in note and "not finite" in note for note in found["notes"])
    else:  # from elsewhere, without a record
        tensors = load_file(desk.path("craft") / "poisons.safetensors")
        tensors["poisons"][0, 1] = 255 - tensors["poisons"][0, 1]
        poisons = "foreign/poisons.safetensors"
        desk.path("foreign").mkdir()
        save_file(tensors, desk.path(poisons))
    settings = {
        **TRIALS,
        **TUNING,
        "reset_head": False,
        "train_mode": False,
        "attack": "cheat",
        "eps": 0.2,
        "knowledge": "gray_box",
    }
    inputs = {"data": "prepare/data.safetensors", "victim": "net/weights.safetensors", "poisons": poisons}
    job = desk.run(*desk.words("train", "train", settings, **inputs), before=FOOL)
    assert job.wait() == 0, job.said
    rows = list(csv.DictReader((desk.path("train") / "trials.csv").read_text().splitlines()))
    assert [(row["predicted"], row["success"]) for row in rows] == [("8", "0"), ("8", "1")]
    (note,) = [note for note in desk.record("train")["notes"] if "rejected" in note]
    assert "counted as failed" in note and ("not finite" if harm == "nan" else "eps allows 51/255") in note


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"epochs": 0}, 0, ""),
        ({"batch_size": 10**6, "epochs": 1}, 0, ""),
        ({"lr": -1.0}, 2, "Invalid learning rate"),
        ({"schedule": "newton"}, 2, "newton"),
        ({"optimizer": "sgd"}, 2, "the key training.optimizer is unknown; allowed in training: epochs, lr"),
    ],
)
def test_settings_at_the_edge_are_defined_or_refused(desk: Any, changes: dict, code: int, says: str) -> None:
    job = desk.run(*desk.pretrain(**changes))
    assert job.wait() == code, job.said
    assert says in job.last and "Traceback" not in job.said
    if code == 0:
        found = desk.record("net")
        assert found["metrics"]["steps_count"] == changes["epochs"]
        assert (found["metrics"]["train_loss_nats"] is None) == (changes["epochs"] == 0)


@pytest.mark.parametrize("eps", [0.0, 1.5, -0.1])
def test_a_ball_without_room_is_refused(desk: Any, reference: Any, eps: float) -> None:
    shutil.copytree(reference.path("net"), desk.path("net"))
    job = desk.run(*desk.craft(eps=eps, iterations=2))
    assert job.wait() == 2 and job.last.startswith("relearn poisoning craft: eps is "), job.said


class Features(nn.Module):
    """Three classes of flattened pixels through one linear layer: enough of a network for every attack."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.body, self.head = nn.Linear(12, 8), nn.Linear(8, 10)

    def features(self, images: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.body(images.flatten(1)))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(images))


@pytest.mark.parametrize("attack", sorted(set(ATTACKS) - {"multi_layer"}))
@pytest.mark.parametrize("case", ["target is base", "equal bases"])
def test_equal_images_keep_every_attack_finite(attack: str, case: str) -> None:
    """A target that is its own base has loss 0 to begin with; bases that coincide have no unique coefficients."""
    torch.manual_seed(0)
    images = torch.rand(3, 3, 2, 2)
    bases = images[:1].expand(2, 3, 2, 2).clone() if case == "equal bases" else images[:2].clone()
    targets = bases[:1].clone() if case == "target is base" else images[2:]
    method = load(ATTACKS, attack)
    more: dict[str, Any] = {}
    for name, value in (("poison_class", 1), ("target_class", 2)):
        if name in inspect.signature(method).parameters:
            more[name] = value
    found = method(
        [Features(0).eval()], bases, targets, eps=0.1, lr=0.04, iterations=5, dropout=False, seed=0, **more
    )
    assert found.poisons.isfinite().all() and found.final_loss.isfinite().all()
    assert found.outcome == "ok"


class Mute(Features):
    """Every image has the features zero: no direction, no length to divide by."""

    def features(self, images: torch.Tensor) -> torch.Tensor:
        return super().features(images) * 0.0


@pytest.mark.parametrize("attack", sorted(set(ATTACKS) - {"multi_layer"}))
def test_features_of_length_zero_have_a_stated_result(attack: str) -> None:
    torch.manual_seed(0)
    images = torch.rand(3, 3, 2, 2)
    method = load(ATTACKS, attack)
    named = {"poison_class": 1, "target_class": 2}
    more = {name: value for name, value in named.items() if name in inspect.signature(method).parameters}
    ball = {"eps": 0.1, "lr": 0.04, "iterations": 3, "dropout": False, "seed": 0}
    found = method([Mute(0).eval()], images[:2], images[2:], **ball, **more)
    assert found.poisons.isfinite().all() and found.outcome in ("ok", "diverged")
    assert found.outcome == "ok" or ("not finite" in found.outcome_reason and found.outcome_step == 1)
