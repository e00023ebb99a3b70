"""Images in folders: the listing, the task's batches, a start and a training of ResNet-50 from them; real images where they are."""

import json
import os
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import relearn.methods.fit as fitting
from relearn.data.class_folders import sha256_of
from relearn.data.imagenet_folder import central, decode_rgb
from relearn.measures import accuracy
from relearn.report.artefacts import load, matches
from relearn.runs import record
from relearn.steps.tasks import OnFolder, open_task
from relearn.studies.study import load as load_study
from relearn.studies.vision import listing_path

from ..studies.gradinit.runs import Runs, planned, settings
from .recorded import killed

SIDE, CLASSES, EACH = 32, 3, 4
NET = {"name": "timm-ResNet-50-BN", "width": 0.0625, "depth": 0.01}
GRADINIT = {"optimizer": "sgd", "tau": 3e-3, "eta": 0.1, "gamma": 3.0, "overlap": 0.5, "normalised": True}
START = {"task": "folder", "size": SIDE, "batch_size": 6, "iterations": 2, "network": NET}
RECIPE: dict[str, Any] = {
    "task": "folder",
    "size": SIDE,
    "batch_size": 6,
    "optimizer": "sgd",
    "lr": 0.1,
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "schedule": "step",
    "milestones": [1, 2],
    "epochs": 3,
    "steps": None,
    "clip_norm": None,
    "mixup": None,
    "scalars": False,
    "test_images": 0,
}
LABELS = {"task": "images", "suite": "imagenet", "network": NET["name"], "initialisation": "gradinit"}


def fill(root: Path, side: int = 40) -> None:
    """Every class has its own colour, with noise."""
    draw = np.random.default_rng(0)
    for part, count in (("train", EACH), ("val", 2)):
        for label in range(CLASSES):
            place = root / part / f"n{label:08d}"
            place.mkdir(parents=True)
            for number in range(count):
                noise = draw.integers(0, 120, (side, side + 4 * number, 3), np.uint8)
                noise[..., label] += 120
                Image.fromarray(noise).save(place / f"{part}_{number}.JPEG", quality=90)


class House(Runs):
    """Runs on a folder instead of the digits."""

    def __init__(self, root: Path) -> None:
        self.root = root / "results/mini/runs"
        self.data = self.root / "listing/listing.json"

    def list(self, name: str = "listing", sha256: str | None = None) -> dict:
        return self.step(
            "list_imagenet", name, {"dataset": "imagenet", "sha256": sha256}, {"dataset": "imagenet"}
        )

    def start(self, name: str = "gradinit", method: str | None = "gradinit", **changes: Any) -> dict:
        settings = {**START, "method": method, "arguments": GRADINIT if method else {}, **changes}
        network = settings["network"]["name"]
        return self.step(
            "initialise",
            name,
            settings,
            {**LABELS, "network": network, "initialisation": name},
            data=self.data,
        )

    def train(self, name: str, start: str = "gradinit", **changes: Any) -> dict:
        labels = {**LABELS, "recipe": "imagenet", "initialisation": start}
        return self.step(
            "train_from_init", name, {**RECIPE, **changes}, labels, data=self.data, start=self.weights(start)
        )

    def task(self) -> Any:  # type: ignore[override]
        return open_task(OnFolder(task="folder", size=SIDE), {"data": [self.data]}, "cpu")


@pytest.fixture
def mirror(tmp_path, monkeypatch) -> Path:
    fill(tmp_path / "mirror/imagenet")
    monkeypatch.setenv("RELEARN_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("RELEARN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "mirror/imagenet"


@pytest.fixture
def house(mirror, tmp_path) -> House:
    house = House(tmp_path)
    house.list()
    return house


# --- the listing ---------------------------------------------------------------------------------


def test_the_listing_says_what_the_folder_holds(house, mirror):
    told = json.loads(house.data.read_text())
    assert told["classes"] == [f"n{label:08d}" for label in range(CLASSES)]
    assert (told["train"], told["val"]) == (CLASSES * EACH, CLASSES * 2)
    metrics = record.read(house.root / "listing")["metrics"]
    assert metrics == {"classes_count": CLASSES, "train_count": CLASSES * EACH, "test_count": CLASSES * 2}


@pytest.mark.parametrize("part", ["train", "val"])
def test_a_file_more_less_or_under_another_name_is_another_folder(mirror, part):
    first, place = sha256_of(mirror), mirror / part / "n00000001"
    one = place / f"{part}_0.JPEG"
    hashes = [first]
    shutil.copy(one, place / "more.JPEG")
    hashes.append(sha256_of(mirror))
    one.unlink()
    hashes.append(sha256_of(mirror))
    (place / "more.JPEG").rename(place.parent / "n00000002/more.JPEG")
    hashes.append(sha256_of(mirror))
    (place.parent / "n00000002/more.JPEG").rename(one)
    (place / ".hidden").touch()
    assert len(set(hashes)) == 4 and sha256_of(mirror) == first


def test_a_changed_folder_is_refused_until_it_is_listed_again(house, mirror):
    before = json.loads(house.data.read_text())["sha256"]
    (mirror / "train/n00000000/train_0.JPEG").unlink()
    with pytest.raises(
        ValueError, match=r"imagenet: found other files than in .*listing.json, allowed: "
    ) as caught:
        house.task()
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=r"imagenet: found other files than when the workflow was planned"):
        house.list("planned", before)
    assert house.list("listing", sha256_of(mirror))["metrics"]["train_count"] == CLASSES * EACH - 1
    assert len(house.task().train) == CLASSES * EACH - 1


@pytest.mark.parametrize("missing", ["imagenet", "imagenet/val"])
def test_missing_images_are_one_line(house, mirror, missing):
    shutil.rmtree(mirror.parent / missing)
    for call in (house.task, lambda: house.list("again")):
        with pytest.raises(
            ValueError, match=r"imagenet: no such images here; allowed: RELEARN_MIRROR"
        ) as caught:
            call()
        assert "\n" not in str(caught.value)


# --- the task ------------------------------------------------------------------------------------


def test_batches_are_whole_decoded_and_from_their_seed(house):
    task = house.task()
    one, again, other = (list(islice(task.batches(seed, 5), 4)) for seed in (3, 3, 4))
    for images, labels in one:
        assert images.shape == (5, 3, SIDE, SIDE) and images.dtype == torch.float32
        assert 0 <= float(images.min()) < float(images.max()) <= 1
        assert torch.equal(images.mean((2, 3)).argmax(1), labels)  # each class has its colour
    assert all(torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) for a, b in zip(one, again))
    assert not any(torch.equal(a[0], b[0]) for a, b in zip(one, other))
    assert task.steps_per_epoch(5) == 3
    assert len(next(task.batches(0, 100))[1]) == CLASSES * EACH


@pytest.mark.parametrize(("size", "overlap", "drawn"), [(4, 0.5, 6), (5, 0.9, 6), (4, 0.0, 8), (4, 1.0, 4)])
def test_a_pool_holds_both_batches(house, size, overlap, drawn):
    assert len(next(house.task().pools(1, size, overlap))[1]) == drawn


def test_the_test_images_are_the_middle_of_the_validation_images_with_the_training_classes(house, mirror):
    task = house.task()
    paths = sorted((mirror / "val").rglob("*.JPEG"))
    assert task.test_labels.tolist() == [int(path.parent.name[1:]) for path in paths]
    for found, path in zip(task.test_images, paths, strict=True):
        image = central(decode_rgb(path), size=SIDE, resize=round(SIDE * 256 / 224))
        assert np.array_equal(found.numpy(), np.asarray(image).transpose(2, 0, 1))


def test_a_network_sees_the_usual_mean_as_nought(house, tmp_path):
    task = house.task()
    net = task.create(NET)
    assert net.mean.flatten().tolist() == pytest.approx([0.485, 0.456, 0.406])
    assert net.std.flatten().tolist() == pytest.approx([0.229, 0.224, 0.225])
    task.save(net, tmp_path / "net.safetensors")
    assert task.network(tmp_path / "net.safetensors").head.out_features == CLASSES


# --- start and training --------------------------------------------------------------------------


def test_a_start_and_its_training(house, monkeypatch):
    done = house.start()
    assert done["outcome"] == "ok" and done["metrics"]["iterations_count"] == 2
    house.start("kaiming", None)
    assert any(
        not torch.equal(a, b)
        for a, b in zip(house.state("gradinit").values(), house.state("kaiming").values())
    )

    given: dict[str, Any] = {}
    real, net = fitting.fit, []

    def spy(model: Any, data: Any, **more: Any) -> Any:
        given.update(more, data=data)
        net.append(model)
        return real(model, data, **more)

    monkeypatch.setattr(fitting, "fit", spy)
    metrics = house.train("run")["metrics"]
    rows = house.rows("run")
    assert metrics["steps_count"] == 6 and [float(row["step"]) for row in rows] == [2, 4, 6]
    # Down by ten after each milestone, both in epochs.
    assert [float(row["lr"]) for row in rows] == pytest.approx([0.1, 0.01, 0.001])
    assert given["mix"] is None and given["augment"] is None and given["batch_size"] is None
    task = house.task()
    with torch.no_grad():
        guess = net[0].eval()(task.test_images.float() / 255).argmax(1)
    assert metrics["accfinal_frac"] == pytest.approx(float((guess == task.test_labels).double().mean()))


def test_the_network_without_normalisation_is_trained_with_mixup(house, monkeypatch):
    network = NET | {"name": "timm-ResNet-50-FixUp"}
    house.start("fixup", "fixup", network=network, arguments={}, iterations=None)
    labels: list[torch.Tensor] = []
    real = fitting.fit

    def spy(model: Any, data: Any, **more: Any) -> Any:
        def lost(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            labels.append(target)
            return more["loss"](logits, target)

        return real(model, data, **{**more, "loss": lost})

    monkeypatch.setattr(fitting, "fit", spy)
    assert house.train("mixed", "fixup", mixup=0.7)["outcome"] == "ok"
    assert all(torch.allclose(each.sum(1), torch.ones(len(each))) for each in labels)
    assert any((each.max(1).values < 1).any() for each in labels)


def test_a_killed_training_ends_with_the_same_bits(house):
    house.start()
    whole = house.train("whole")["metrics"]
    with killed(lambda _, state: state["epoch"] == 2), pytest.raises(KeyboardInterrupt):
        house.train("killed")
    again = house.train("killed")["metrics"]
    assert whole.pop("epoch_s") > 0 < again.pop("epoch_s")
    assert again == whole and house.rows("killed") == house.rows("whole")


# --- what the plan asks for ----------------------------------------------------------------------


def test_the_plan_gives_what_the_text_says_and_the_steps_read():
    families = planned("paper")
    starts, trained = families["initialise_imagenet"], families["train_from_init_imagenet"]
    (cells,) = load({"gradinit": load_study("gradinit").reported})["zhu2022.table4.8"].where
    seen = set()
    for cell in starts.cells:
        start = settings(starts, cell)
        recipe = settings(trained, {**cell, "recipe": "imagenet"})
        assert start.keys() == {*START, "method", "arguments"} and recipe.keys() == RECIPE.keys()
        assert start["task"] == recipe["task"] == "folder" and start["size"] == recipe["size"] == 224
        assert start["batch_size"] == 128 and start["iterations"] in (2000, None)
        assert (recipe["epochs"], recipe["batch_size"], recipe["lr"]) == (90, 256, 0.1)
        assert (recipe["schedule"], recipe["milestones"]) == ("step", [30, 60])
        network, name = cell["network"], cell["initialisation"]
        assert recipe["mixup"] == {"timm-ResNet-50-BN": None, "timm-ResNet-50-FixUp": 0.7}[network]
        if name == "gradinit":
            arguments = start["arguments"]
            assert (arguments["gamma"], arguments["tau"], arguments["eta"]) == (3.0, 3e-3, 0.1)
        assert {**cell, "recipe": "imagenet"} in trained.cells
        assert matches(cells, "gradinit", "train_from_init", trained.labels_of(**cell, recipe="imagenet"))
        seen.add((network.rpartition("-")[2], name))
    # The cells of table 4.8 that the paper fills.
    assert seen == {(n, s) for n, s in (("BN", "kaiming"), ("BN", "gradinit"))} | {
        ("FixUp", name) for name in ("fixup", "metainit", "gradinit")
    }
    networks = {cell["network"] for cell in starts.cells}
    assert not networks & {cell["network"] for cell in families["initialise"].cells}
    measured = {"suite": "imagenet", "network": "timm-ResNet-50-BN", "initialisation": "gradinit"}
    assert measured in families["gradient_statistics_imagenet"].cells


@pytest.mark.parametrize("scale", ["mini", "small", "medium"])
def test_imagenet_is_off_below_paper(scale):
    names = ("initialise_imagenet", "train_from_init_imagenet", "gradient_statistics_imagenet")
    assert [planned(scale)[name].runs for name in ("list_imagenet", *names)] == [[], [], [], []]


def test_the_plan_knows_the_folder_by_its_names(mirror, tmp_path, monkeypatch):
    family = planned("paper")["list_imagenet"]
    assert family.path("listing", dataset="imagenet") == listing_path("paper")
    (cell,) = family.cells
    monkeypatch.chdir(tmp_path)
    found = settings(family, cell)
    assert found == {"dataset": "imagenet", "sha256": sha256_of(mirror)}
    record_of = tmp_path / family.path(dataset="imagenet")
    record_of.parent.mkdir(parents=True)
    (mirror / "val").rename(mirror / "elsewhere")  # not at hand: the last listing still counts
    assert settings(family, cell)["sha256"] is None
    record_of.write_text(json.dumps({"settings": found}))
    assert settings(family, cell) == found


def test_some_test_images_are_of_all_classes(house, monkeypatch):
    seen = []
    monkeypatch.setattr(accuracy, "accuracy", lambda _, labels: seen.append(labels.tolist()) or 0.5)
    house.start()
    house.train("some", epochs=1, test_images=CLASSES)
    assert seen == [[*range(CLASSES)]]


@pytest.mark.skipif(
    not (Path(os.environ.get("RELEARN_MIRROR", "")) / "imagenet_sample_derived").is_dir()
    or "RELEARN_MIRROR" not in os.environ,
    reason="RELEARN_MIRROR with imagenet_sample_derived is not set",
)
def test_real_images_start_and_train(tmp_path, monkeypatch):
    given = sorted((Path(os.environ["RELEARN_MIRROR"]) / "imagenet_sample_derived").iterdir())[:6]
    for part in ("train", "val"):
        for place in given:
            shutil.copytree(place, tmp_path / "mirror/imagenet" / part / place.name)
    monkeypatch.setenv("RELEARN_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("RELEARN_CACHE", str(tmp_path / "cache"))
    house = House(tmp_path)
    assert house.list()["metrics"]["classes_count"] == len(given)
    assert house.start(batch_size=4)["outcome"] == "ok"
    metrics = house.train("real", epochs=None, steps=2, batch_size=4)["metrics"]
    assert metrics["steps_count"] == 2 and 0 <= metrics["accfinal_frac"] <= 1
