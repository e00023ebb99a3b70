"""`train_from_init`: numbers against the files and the network, the same draws for every start, recipes, and how it ends."""

import json

import pytest
import torch
from torch import Tensor, nn

from relearn import cli
from relearn.data.evenly_spaced import evenly_spaced
from relearn.models import create, files
from relearn.runs import record
from relearn.studies.gradinit.steps.train_from_init import FIXUP_RATES

from ...steps.recorded import killed
from .runs import AUGMENTATION, COUNT, GRADINIT, NETWORK, RECIPE, Runs, Spy, planned
from .runs import settings as settings_of

FIXUP = NETWORK | {"name": "FixUpResNet-110"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Runs:
    runs = Runs(tmp_path_factory.mktemp("train"))
    runs.initialise("kaiming", "kaiming")
    runs.initialise("gradinit", "gradinit", GRADINIT)
    runs.initialise("fixup", "fixup", network=FIXUP)
    runs.train("run", "kaiming")
    return runs


@pytest.fixture
def spy(monkeypatch) -> Spy:
    return Spy(monkeypatch)


def accuracy_of(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    net = net.double().eval()
    with torch.no_grad():
        return float((net(images.double() / 255).argmax(1) == labels).double().mean())


# --- numbers ---------------------------------------------------------------------------------------


def test_the_record_says_what_the_history_holds(runs):
    done, rows = record.read(runs.root / "run"), runs.rows("run")
    tested = [float(row["test_accuracy_frac"]) for row in rows]
    metrics = done["metrics"]
    per_epoch = -(-COUNT // RECIPE["batch_size"])
    assert [(float(row["epoch"]), float(row["step"])) for row in rows] == [
        (epoch, epoch * per_epoch) for epoch in (1, 2, 3)
    ]
    assert metrics["acc1_frac"] == tested[0] and metrics["accfinal_frac"] == tested[-1]
    assert metrics["accbest_frac"] == max(tested)
    assert metrics["loss_first_nats"] == float(rows[0]["loss"])
    assert metrics["train_loss_nats"] == float(rows[-1]["loss"]) < metrics["loss_first_nats"]
    assert metrics["steps_count"] == 3 * per_epoch and metrics["epoch_s"] > 0
    assert done["outcome"] == "ok"
    assert float(rows[-1]["lr"]) < 0.05 * RECIPE["lr"]  # the cosine ends at nought


def test_the_best_is_the_best_and_not_the_last(runs, monkeypatch):
    values = iter([0.3, 0.8, 0.5])
    monkeypatch.setattr("relearn.measures.accuracy.accuracy", lambda logits, labels: next(values))
    metrics = runs.train("made_up", "kaiming")["metrics"]
    assert [metrics[f"acc{when}_frac"] for when in ("1", "best", "final")] == [0.3, 0.8, 0.5]


def test_the_last_accuracy_is_the_trained_networks_on_the_first_test_images(runs, spy):
    task = runs.task()
    for count in (0, 37):
        final = runs.train("counted", "kaiming", test_images=count)["metrics"]["accfinal_frac"]
        images, labels = task.test_images, task.test_labels
        assert final == accuracy_of(spy.model, images[: count or None], labels[: count or None])
    assert final != accuracy_of(spy.model, images, labels)


def test_held_out_images_judge_and_are_not_trained_on(runs, spy):
    done = runs.train("held_out", "kaiming", held_out=0.25, test_images=0, crop_padding=0, cutout=0)
    task = runs.task()
    held = evenly_spaced(torch.arange(COUNT), COUNT // 4)
    final = done["metrics"]["accfinal_frac"]
    assert final == accuracy_of(spy.model, task.images[held], task.labels[held])
    trained = {one.numpy().tobytes() for batch in spy.images for one in batch}
    hidden = {one.numpy().tobytes() for one in task.images[held]}
    assert len(trained) == COUNT - len(held) and not trained & hidden


def test_the_first_loss_is_the_starts_on_the_first_batch(runs, spy):
    done = runs.train("one_step", "gradinit", steps=1, epochs=None)
    net = runs.task().network(runs.weights("gradinit")).double().train()
    with torch.no_grad():
        logs = net(spy.images[0].double()).log_softmax(1)
    slow = -float(logs[torch.arange(len(logs)), spy.labels[0]].mean())
    assert done["metrics"]["loss_first_nats"] == pytest.approx(slow, rel=1e-5)
    assert all(torch.equal(spy.start[key], tensor) for key, tensor in runs.state("gradinit").items())


# --- pairing ---------------------------------------------------------------------------------------


def test_every_start_sees_the_same_images_in_the_same_order(runs, monkeypatch):
    drawn = {}
    for name, start, seed in (("a", "kaiming", 0), ("b", "gradinit", 0), ("c", "kaiming", 1)):
        with monkeypatch.context() as patch:
            one = Spy(patch)
            runs.train(f"paired_{name}", start, seed=seed, epochs=2)
            drawn[name] = one.drawn()
    assert len(drawn["a"]) == len(drawn["b"]) == len(drawn["c"]) == 2 * 2 * 5
    assert all(torch.equal(one, other) for one, other in zip(drawn["a"], drawn["b"]))
    assert not any(torch.equal(one, other) for one, other in zip(drawn["a"], drawn["c"]))
    final = {name: record.read(runs.root / f"paired_{name}")["metrics"]["train_loss_nats"] for name in drawn}
    assert len(set(final.values())) == 3


def test_training_images_are_augmented_as_configured(runs, spy):
    runs.train("plain", "kaiming", epochs=1, crop_padding=0, cutout=0)
    whole = {image.numpy().tobytes() for image in runs.task().images.float() / 255}
    assert {image.numpy().tobytes() for batch in spy.images for image in batch} == whole
    spy.images.clear()
    runs.train("cut", "kaiming", epochs=1, crop_padding=0, cutout=3)
    mean = torch.tensor(runs.task().mean)
    for batch in spy.images:
        assert ((batch == mean).sum((1, 2, 3)) >= 4).all()


# --- recipes ---------------------------------------------------------------------------------------


def test_the_recipe_reaches_the_loop(runs, spy):
    runs.train(
        "adamw",
        "kaiming",
        epochs=1,
        optimizer="adamw",
        momentum=None,
        lr=3e-3,
        weight_decay=0.2,
        clip_norm=0.5,
        mixup=1.0,
    )
    given = spy.given
    assert (given["optimizer"], given["lr"], given["weight_decay"]) == ("adamw", 3e-3, 0.2)
    assert given["clip_norm"] == 0.5 and given["decay"] == "no_norm" and given["schedule"] == "cosine"
    assert given["lr_scale"] is None
    for labels in spy.labels:  # two classes a row at most, one lambda a batch
        assert torch.allclose(labels.sum(1), torch.ones(len(labels)))
        shares = labels.max(1).values
        assert len(set(shares[shares < 1].tolist())) <= 2
    assert any((labels.max(1).values < 1).any() for labels in spy.labels)
    assert "gradient_norm" in runs.rows("adamw")[0] and "gradient_norm" not in runs.rows("run")[0]


def test_without_mixup_labels_are_classes(runs, spy):
    runs.train("sgd", "kaiming", epochs=1)
    assert {labels.dtype for labels in spy.labels} == {torch.int64}
    assert spy.given["mix"] is None and spy.given["clip_norm"] is None


def test_biases_of_a_resnet_without_normalisation_learn_at_a_tenth(runs, spy):
    plain = {**NETWORK, "name": "ResNet-110"}
    runs.initialise("plain", "kaiming", network=plain)
    runs.train("plain_run", "plain", network=plain["name"], epochs=1)
    assert spy.given["lr_scale"] == {"*bias": 0.1}


def test_biases_and_scalars_of_fixup_learn_at_a_tenth(runs, spy):
    runs.train("fixup_run", "fixup", network=FIXUP["name"], epochs=1, weight_decay=0.0, clip_norm=1.0)
    assert spy.given["lr_scale"] == FIXUP_RATES == {"*bias": 0.1, "*scale*": 0.1}
    from relearn.methods.optimisers import parameter_groups

    groups = {
        group["lr_scale"]: group["names"]
        for group in parameter_groups(spy.model, 0.0, "no_norm", FIXUP_RATES)
    }
    shapes = {name: parameter.dim() for name, parameter in spy.model.named_parameters()}
    assert {shapes[name] for name in groups[1.0]} == {2, 4} and {shapes[name] for name in groups[0.1]} == {1}


def test_learned_scalars_are_trained_and_folded_away(runs, spy):
    done = runs.train("scalars", "kaiming", epochs=2, scalars=True)
    scalars = [name for name in spy.names if name.endswith(".scale")]
    assert scalars and all(float(spy.start[name]) == 1.0 for name in scalars)
    assert done["outcome"] == "ok"
    assert list(spy.model.state_dict()) == list(runs.task().create(NETWORK).state_dict())
    task = runs.task()
    count = RECIPE["test_images"]
    assert done["metrics"]["accfinal_frac"] == accuracy_of(
        spy.model, task.test_images[:count], task.test_labels[:count]
    )
    without = runs.train("no_scalars", "kaiming", epochs=2)
    assert not any(name.endswith(".scale") for name in spy.names)
    assert without["metrics"]["train_loss_nats"] != done["metrics"]["train_loss_nats"]


@pytest.mark.parametrize(
    ("steps", "written"), [(3, [1, 2, 3]), (10, range(1, 11)), (25, [3, 6, 9, 12, 15, 18, 21, 24, 25])]
)
def test_a_run_of_steps_has_ten_rows_at_most_and_one_accuracy(runs, steps, written):
    metrics = runs.train("steps", "kaiming", steps=steps, epochs=None)["metrics"]
    rows = runs.rows("steps")
    assert [float(row["step"]) for row in rows] == list(written)
    assert [bool(row["test_accuracy_frac"]) for row in rows] == [False] * (len(rows) - 1) + [True]
    assert metrics["accbest_frac"] == metrics["accfinal_frac"] == float(rows[-1]["test_accuracy_frac"])
    assert metrics["steps_count"] == steps and metrics["loss_first_nats"] == float(rows[0]["loss"])
    assert not {"acc1_frac", "epoch_s"} & metrics.keys()


@pytest.mark.parametrize("scale", ["mini", "paper"])
def test_the_plan_gives_what_the_step_reads(scale):
    recipes = set()
    families = [planned(scale)[f"train_from_init{task}"] for task in ("", "_imagenet")]
    for family, one in ((each, cell) for each in families for cell in each.cells):
        settings = settings_of(family, one)
        network, recipe = one["network"], one["recipe"]
        recipes.add(recipe)
        assert (settings["steps"] is None) != (settings["epochs"] is None)
        assert settings["scalars"] == recipe.startswith("scalars")
        if one["suite"] == "grid":
            assert AUGMENTATION.keys() <= settings.keys()
            assert (settings["mixup"] is not None) == network.startswith("WRN")
        if one["suite"] == "grid":  # nothing is clipped on ImageNet
            layers = create(network, width=0.05, depth=0.01).modules()
            normalised = any(isinstance(layer, nn.BatchNorm2d) for layer in layers)
            assert (settings["clip_norm"] is None) == normalised
    assert {"sgd", "adamw", "scalars", "scalars_low_lr"} <= recipes


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
