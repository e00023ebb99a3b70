"""How `train_vision` ends and what it starts from: divergence with its step, a killed run with the same bits, images in folders."""

import math

import pytest
import torch
from safetensors.torch import load_file

from relearn.data.evenly_spaced import evenly_spaced
from relearn.models import vision
from relearn.steps.tasks import OnFolder, vision_recipe

from .recorded import killed
from .test_task_folder import CLASSES, EACH, House, fill
from .vision_runs import COUNT, RECIPE, VIT, Runs, Spy

PER_EPOCH = math.ceil(COUNT / RECIPE["batch_size"])


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Runs:
    return Runs(tmp_path_factory.mktemp("train_vision"))


# --- divergence ------------------------------------------------------------------------------------


def most_frequent(runs: Runs) -> float:
    labels = evenly_spaced(runs.task().test_labels, RECIPE["test_images"]).tolist()
    return max(labels.count(label) for label in labels) / len(labels)


def test_a_divergence_is_a_result_with_its_step_and_all_its_files(runs):
    done = runs.classify("diverged", "gp", lr=1e30, optimizer="sgd")
    metrics = done["metrics"]
    assert done["outcome"] == "diverged" and done["outcome_reason"] == "loss not finite, or beyond 10 ln C"
    assert 1 < done["outcome_step"] <= PER_EPOCH == metrics["steps_count"]
    assert metrics["accbest_frac"] == most_frequent(runs)
    assert not {"acc_frac", "train_loss_nats", "branch_cv_ratio", "epoch_s"} & metrics.keys()
    assert metrics["branch_cv_start_ratio"] > 0
    assert runs.rows("diverged") == runs.rows("diverged", "alphas.csv") == []
    layers = runs.rows("diverged", "layers.csv")
    assert all(row["ratio"] for row in layers if row["moment"] == "start")
    assert not all(row["ratio"] for row in layers if row["moment"] == "end")  # not finite: an empty cell
    assert int(runs.net("diverged").head.seen) == 0


def test_a_network_that_the_last_step_broke_has_no_accuracy(runs):
    done = runs.classify("broken", "vit", epochs=1, batch_size=COUNT, lr=1e38, optimizer="sgd")
    assert (done["outcome"], done["outcome_step"]) == ("diverged", 1)
    assert done["outcome_reason"] == "outputs not finite"
    assert "acc_frac" not in done["metrics"] and done["metrics"]["accbest_frac"] == most_frequent(runs)
    assert [(row["step"], row["test_accuracy_frac"]) for row in runs.rows("broken")] == [("1.0", "")]


# --- resuming --------------------------------------------------------------------------------------

EVERYTHING = {
    "ema": 0.9,
    "clip_norm": 1.0,
    "mixup": 0.8,
    "cutmix": 1.0,
    "warmup_epochs": 1,
    "randaugment": {"magnitude": 9, "spread": 0.5, "operations": 2},
    "flip": True,
    "label_smoothing": 0.1,
}


@pytest.mark.parametrize(
    ("network", "changes"), [("lipsformer", EVERYTHING), ("gp", {})], ids=["lipsformer", "gp"]
)
def test_a_killed_run_ends_with_the_same_bits(runs, monkeypatch, network, changes):
    whole = Spy(monkeypatch)
    metrics = runs.classify("whole", network, **changes)["metrics"]
    with killed(lambda _, state: state["epoch"] == 2), pytest.raises(KeyboardInterrupt):
        runs.classify("killed", network, **changes)
    assert not (runs.root / "killed/record.json").exists()
    torch.manual_seed(123)  # another process has drawn something else
    again = Spy(monkeypatch)
    done = runs.classify("killed", network, **changes)
    assert any("resumed" in note for note in done["notes"])
    assert len(again.labels) == PER_EPOCH < len(whole.labels)  # the last epoch alone
    assert done["metrics"].pop("epoch_s") > 0 < metrics.pop("epoch_s")
    assert done["metrics"] == metrics
    for file in ("history.csv", "layers.csv", "alphas.csv"):
        assert (runs.root / "killed" / file).read_bytes() == (runs.root / "whole" / file).read_bytes()
    before, after = (load_file(runs.root / name / "model.safetensors") for name in ("whole", "killed"))
    assert before.keys() == after.keys() and all(torch.equal(before[key], after[key]) for key in before)


# --- images in folders -----------------------------------------------------------------------------

SIDE = 32
FOLDER = {key: value for key, value in RECIPE.items() if key not in ("crop_padding", "flip")}
FOLDER |= {"task": "folder", "size": SIDE, "batch_size": 6, "test_images": 0, "epochs": 2}


@pytest.fixture
def house(tmp_path, monkeypatch) -> House:
    fill(tmp_path / "mirror/imagenet")
    monkeypatch.setenv("RELEARN_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("RELEARN_CACHE", str(tmp_path / "cache"))
    house = House(tmp_path)
    house.list()
    return house


def test_images_of_folders_are_trained_on_as_they_are_read(house):
    network = {"name": "lrformer_depth6", **VIT, "patch_size": 8, "gp": {"features": 16}}
    settings = {
        **FOLDER,
        "network": network,
        "mixup": 0.8,
        "warmup_epochs": 1,
        "randaugment": EVERYTHING["randaugment"],
    }
    done = house.step("train_vision", "run", settings, {"variant": "folder"}, data=house.data)
    assert done["metrics"]["steps_count"] == 2 * CLASSES * EACH / 6
    net = vision.FILE.load(house.root / "run/model.safetensors")
    assert net.description["size"] == SIDE and net.description["classes"] == CLASSES
    task = vision_recipe.open_images(OnFolder(task="folder", size=SIDE), {"data": [house.data]}, "cpu")
    with torch.no_grad():
        guess = net(task.test_images.float() / 255).argmax(1)
    assert done["metrics"]["acc_frac"] == pytest.approx(float((guess == task.test_labels).double().mean()))
    assert int(net.head.seen) == CLASSES * EACH


def test_plain_images_of_folders_are_their_middles(house):
    own = OnFolder(task="folder", size=SIDE)
    task = vision_recipe.open_images(own, {"data": [house.data]}, "cpu", count=6)
    assert len(task.train) == 6 and task.steps_per_epoch(6) == 1
    assert torch.bincount(task.train.labels).tolist() == [2, 2, 2]  # of every class
    (images,) = vision_recipe.plain_images(task)
    assert images.shape == (6, 3, SIDE, SIDE) and images.dtype == torch.uint8
    from relearn.data.imagenet_folder import validation

    assert torch.equal(images, validation(task.train, size=SIDE, resize=round(SIDE * 256 / 224)))
