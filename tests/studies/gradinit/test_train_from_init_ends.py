"""How `train_from_init` ends: divergence with its step, a killed run with the same bits, a wrong input in one line."""

from __future__ import annotations

import json

import pytest
import torch

from relearn import cli
from relearn.models import create, files

from ...steps.recorded import killed
from .runs import GRADINIT, NETWORK, RECIPE, Runs, Spy


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Runs:
    runs = Runs(tmp_path_factory.mktemp("train"))
    runs.initialise("kaiming", "kaiming")
    runs.initialise("gradinit", "gradinit", GRADINIT)
    return runs


# --- divergence ------------------------------------------------------------------------------------


def most_frequent(runs: Runs) -> float:
    labels = runs.task().test_labels[: RECIPE["test_images"]].tolist()
    return max(labels.count(label) for label in labels) / len(labels)


def test_a_divergence_is_a_result_with_its_step_and_no_accuracy(runs):
    done = runs.train("diverged", "kaiming", lr=1e36)
    metrics = done["metrics"]
    assert done["outcome"] == "diverged" and done["outcome_reason"] == "loss not finite"
    assert 1 < done["outcome_step"] <= 5 == metrics["steps_count"]
    assert metrics["accbest_frac"] == most_frequent(runs)
    assert not {"acc1_frac", "accfinal_frac", "epoch_s", "train_loss_nats"} & metrics.keys()
    assert runs.rows("diverged") == []


def test_a_network_that_the_last_step_broke_has_no_accuracy(runs):
    done = runs.train("broken", "kaiming", steps=1, epochs=None, lr=1e38)
    assert (done["outcome"], done["outcome_step"]) == ("diverged", 1)
    assert done["outcome_reason"] == "outputs not finite"
    assert "accfinal_frac" not in done["metrics"] and done["metrics"]["accbest_frac"] == most_frequent(runs)
    assert [row["step"] for row in runs.rows("broken")] == ["1.0"]


def test_what_was_measured_before_a_divergence_counts(runs, monkeypatch):
    spy = Spy(monkeypatch)
    step, calls = torch.optim.SGD.step, []

    def breaking(self, closure=None):
        calls.append(step(self, closure))
        if len(calls) == 7:  # in the second epoch of five steps
            with torch.no_grad():
                spy.model.head.weight.fill_(float("nan"))

    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.SGD, "step", breaking)
        done = runs.train("later", "kaiming")
    assert (done["outcome"], done["outcome_step"]) == ("diverged", 8)
    before = runs.train("run", "kaiming")["metrics"]["acc1_frac"]
    assert {done["metrics"][f"acc{when}_frac"] for when in ("1", "best", "final")} == {before}


# --- resuming --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes", [{}, {"scalars": True, "mixup": 1.0, "clip_norm": 1.0}], ids=["sgd", "scalars"]
)
def test_a_killed_run_ends_with_the_same_bits(runs, monkeypatch, changes):
    whole = Spy(monkeypatch)
    metrics = runs.train("whole", "gradinit", **changes)["metrics"]
    with killed(lambda _, state: state["epoch"] == 2), pytest.raises(KeyboardInterrupt):
        runs.train("killed", "gradinit", **changes)
    assert not (runs.root / "killed/record.json").exists()
    again = Spy(monkeypatch)
    done = runs.train("killed", "gradinit", **changes)
    assert any("resumed" in note for note in done["notes"])
    assert len(again.labels) == 5 < len(whole.labels)  # the last epoch alone
    seconds, whole_seconds = done["metrics"].pop("epoch_s"), metrics.pop("epoch_s")
    assert done["metrics"] == metrics and 0.2 * whole_seconds < seconds
    assert runs.rows("killed") == runs.rows("whole")
    for key, tensor in whole.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[key], tensor), key


# --- wrong starts ----------------------------------------------------------------------------------


def test_a_wrong_start_is_one_line(runs, tmp_path, capsys):
    task = runs.task()
    described = task.describe(NETWORK) | {"classes": 7}
    other = tmp_path / "other.safetensors"
    files.save(create(**described), other, described)
    words = ["gradinit", "train_from_init", "--settings", json.dumps(RECIPE), "--device", "cpu"]
    words += ["--input", "data", str(runs.data), "--out", str(runs.root / "wrong")]
    words += ["--label", "task=images", "--label", "network=x", "--label", "initialisation=y"]
    for path, told in (
        (other, "other.safetensors: a network with classes 7 (allowed: 10, as in the data)"),
        (
            runs.data,
            "data.safetensors: no description of a network in it (allowed: files written by relearn)",
        ),
    ):
        assert cli.main([*words, "--input", "start", str(path)]) != 0
        lines = capsys.readouterr().err.splitlines()
        assert (
            len(lines) == 1
            and lines[0].startswith("relearn gradinit train_from_init: ")
            and lines[0].endswith(told)
        ), lines
    assert not (runs.root / "wrong/record.json").exists()
