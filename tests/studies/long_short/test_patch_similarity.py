"""similarity: rows against the measure, the start against the one that classify trains from, networks that broke."""

from __future__ import annotations

import pytest
import torch

from relearn.data.evenly_spaced import evenly_spaced
from relearn.measures.patch_similarity import patch_similarity
from relearn.models import vision
from relearn.studies.long_short.steps import patch_similarity as similarity

from ...steps.vision_runs import NETWORKS, RECIPE, Runs

SETTINGS = {"task": "images", "images": 60, "batch_size": 32, "absolute": False}
NETWORK = {
    "name": "cvt_ls_13",
    "patch_size": 1,
    "embed_dim": 8,
    "depths": [1, 2],
    "num_heads": [1, 2],
    "window": 2,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Runs:
    runs = Runs(tmp_path_factory.mktemp("similarity"))
    small = {**RECIPE, "epochs": 1, "train_images": 100}
    for name, seed, settings in (
        ("still", 3, {**small, "network": NETWORKS["vit"], "lr": 0.0}),  # it stays where it started
        ("trained", 1, {**small, "network": NETWORK, "lr": 3e-2}),
    ):
        runs.step("classify", name, settings, {"suite": "test", "variant": name}, seed, data=runs.data)
    return runs


def look(runs: Runs, name: str, network: str, seed: int, **changes) -> dict:
    given = {"data": runs.data, "network": runs.root / network / "model.safetensors"}
    return runs.step("similarity", name, {**SETTINGS, **changes}, {"network": network}, seed, **given)


def test_rows_are_the_measure_of_the_file_and_of_its_start(runs):
    done = look(runs, "similarity/trained", "trained", 1)
    rows = runs.rows("similarity/trained", "similarity.csv")
    net = vision.FILE.load(runs.root / "trained/model.safetensors")
    images = evenly_spaced(runs.task().test_images, 60)
    expected = patch_similarity(net, images)
    assert [row["moment"] for row in rows] == ["start"] * 3 + ["end"] * 3
    assert [int(row["layer"]) for row in rows] == [1, 2, 3] * 2
    assert [float(row["cosine"]) for row in rows[3:]] == pytest.approx(expected, rel=1e-6)
    assert [float(row["cosine"]) for row in rows[:3]] != pytest.approx(expected, rel=1e-3)
    metrics = done["metrics"]
    assert metrics["deep_cosine"] == float(rows[5]["cosine"]) and metrics["layers_count"] == 3
    assert metrics["start_deep_cosine"] == float(rows[2]["cosine"]) and metrics["images_count"] == 60
    assert metrics["cosine_first"] == float(rows[3]["cosine"])
    assert metrics["cosine_last"] == float(rows[5]["cosine"])


def test_the_start_is_the_one_that_was_trained(runs):
    """A network whose training moved nothing is its start, with the same seed alone."""
    look(runs, "similarity/still", "still", 3)
    rows = [float(row["cosine"]) for row in runs.rows("similarity/still", "similarity.csv")]
    assert rows[: len(rows) // 2] == pytest.approx(rows[len(rows) // 2 :], rel=1e-6)
    look(runs, "similarity/other", "still", 4)
    other = [float(row["cosine"]) for row in runs.rows("similarity/other", "similarity.csv")]
    assert other[: len(rows) // 2] != pytest.approx(rows[: len(rows) // 2], rel=1e-6)


def test_the_deeper_half():
    found = {"start": [9.0, 9.0, 1.0, 2.0], "end": [9.0, 9.0, 9.0, 3.0, 5.0]}
    told = similarity.summary(found)
    assert (told["start_deep_cosine"], told["deep_cosine"]) == (1.5, 4.0)
    assert similarity.summary({"start": [1.0], "end": [2.0]})["deep_cosine"] == 2.0


def test_a_network_that_broke_ends_as_diverged(runs, tmp_path):
    net = vision.FILE.load(runs.root / "trained/model.safetensors")
    with torch.no_grad():
        net.trunk.stages[1].blocks[0].mlp.fc2.bias.fill_(float("nan"))
    (runs.root / "broken").mkdir()
    vision.FILE.save(net, runs.root / "broken/model.safetensors")
    done = look(runs, "similarity/broken", "broken", 1)
    rows = runs.rows("similarity/broken", "similarity.csv")
    assert done["outcome"] == "diverged" and [bool(row["cosine"]) for row in rows] == [True] * 4 + [False] * 2
    assert "deep_cosine" not in done["metrics"] and "start_deep_cosine" in done["metrics"]


@pytest.mark.parametrize(
    ("changes", "message"), [({"task": "translation"}, "task: found"), ({"odd": 1}, "odd: ")]
)
def test_what_is_refused(runs, changes, message):
    with pytest.raises(ValueError, match=message):
        look(runs, "similarity/refused", "trained", 1, **changes)
