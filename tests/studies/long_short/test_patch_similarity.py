"""patch_similarity: rows against the measure, the start against the one that train_vision starts from, broken networks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from relearn.data.evenly_spaced import evenly_spaced
from relearn.layers.long_short_attention_2d import LongShortAttention2d
from relearn.measures.patch_similarity import patch_similarity
from relearn.models import vision
from relearn.runs import exit_codes
from relearn.runs.settings import read
from relearn.steps import train_vision
from relearn.steps.tasks import vision_recipe
from relearn.studies.long_short.networks import scaled
from relearn.studies.long_short.steps.patch_similarity import summary

from ...steps.recorded import by_command, rows_of
from ...steps.vision_runs import NETWORKS, RECIPE, SPLIT

SETTINGS = {"task": "images", "images": 60, "batch_size": 32, "absolute": False}
NETWORK = {
    "name": "cvt_ls_13",
    "patch_size": 1,
    "embed_dim": 8,
    "depths": [1, 2],
    "num_heads": [1, 2],
    "window": 2,
}


class Bench:
    """Runs of the study on the same 200 digits, in one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root / "results/mini/runs/long_short"
        self.data = self.root / "images/data.safetensors"
        self.step("prepare_images", "images", SPLIT)

    def step(self, step: str, name: str, settings: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        return by_command("long_short", step, self.root / name, settings, {"network": name}, **more)

    def rows(self, name: str) -> list[dict[str, str]]:
        return rows_of(self.root / name / "similarity.csv")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    bench = Bench(tmp_path_factory.mktemp("patch_similarity"))
    small = {**RECIPE, "epochs": 1, "train_images": 100}
    still = {**small, "network": NETWORKS["vit"], "lr": 0.0}  # ends where it started
    bench.step("train_vision", "still", still, seed=3, data=bench.data)
    trained = {**small, "network": NETWORK, "lr": 3e-2}
    bench.step("train_vision", "trained", trained, seed=1, data=bench.data)
    return bench


def measure(
    bench: Bench, name: str, network: str, seed: int, *, code: int = 0, **changes: Any
) -> dict[str, Any]:
    """The record of `patch_similarity` of a trained network; {} if it ends with another ``code``."""
    given = {"data": bench.data, "network": bench.root / network / "model.safetensors"}
    settings = {**SETTINGS, **changes}
    return bench.step("patch_similarity", name, settings, seed=seed, code=code, **given)


def test_rows_are_the_measure_of_the_file_and_of_its_start(bench: Bench) -> None:
    done = measure(bench, "of_trained", "trained", 1)
    rows = bench.rows("of_trained")
    net = vision.FILE.load(bench.root / "trained/model.safetensors")
    task: Any = vision_recipe.open_images(
        read(train_vision.Settings, {**RECIPE, "network": NETWORK}), {"data": [bench.data]}, "cpu"
    )
    images = evenly_spaced(task.test_images, 60)
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


def test_the_start_is_the_one_that_was_trained(bench: Bench) -> None:
    """A network trained at rate 0 equals its start, and only for the seed of its training."""
    measure(bench, "of_still", "still", 3)
    rows = [float(row["cosine"]) for row in bench.rows("of_still")]
    assert rows[: len(rows) // 2] == pytest.approx(rows[len(rows) // 2 :], rel=1e-6)
    measure(bench, "of_another_seed", "still", 4)
    other = [float(row["cosine"]) for row in bench.rows("of_another_seed")]
    assert other[: len(rows) // 2] != pytest.approx(rows[: len(rows) // 2], rel=1e-6)


def test_the_deeper_half() -> None:
    found = summary({"start": [9.0, 9.0, 1.0, 2.0], "end": [9.0, 9.0, 9.0, 3.0, 5.0]})
    assert (found["start_deep_cosine"], found["deep_cosine"]) == (1.5, 4.0)
    assert summary({"start": [1.0], "end": [2.0]})["deep_cosine"] == 2.0


def test_a_network_with_non_finite_patches_ends_as_diverged(bench: Bench) -> None:
    net: Any = vision.FILE.load(bench.root / "trained/model.safetensors")
    with torch.no_grad():
        net.trunk.stages[1].blocks[0].mlp.fc2.bias.fill_(float("nan"))
    (bench.root / "broken").mkdir()
    vision.FILE.save(net, bench.root / "broken/model.safetensors")
    done = measure(bench, "of_broken", "broken", 1)
    rows = bench.rows("of_broken")
    assert done["outcome"] == "diverged" and [bool(row["cosine"]) for row in rows] == [True] * 4 + [False] * 2
    assert "deep_cosine" not in done["metrics"] and "start_deep_cosine" in done["metrics"]


@pytest.mark.parametrize(
    ("changes", "message"), [({"task": "translation"}, "task: found"), ({"odd": 1}, "the key odd is unknown")]
)
def test_wrong_arguments_are_refused(
    bench: Bench, changes: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(bench, "refused", "trained", 1, code=exit_codes.USE, **changes)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("network", "has"),
    [
        ("CvT-LS-13", {"windows", "summaries", "norms"}),
        ("CvT-LS-13-windows", {"windows", "norms"}),
        ("CvT-LS-13-summaries", {"summaries", "norms"}),
        ("CvT-LS-13-one-norm", {"windows", "summaries"}),
    ],
)
def test_each_control_lacks_one_part_in_every_layer(network: str, has: set[str]) -> None:
    sizes = {"width": 0.25, "depth": 0.34, "patch_size": 1, "window": 2}
    built = vision.create(classes=10, size=32, **scaled(network, sizes, published_windows=False))
    layers = [layer for layer in built.modules() if isinstance(layer, LongShortAttention2d)]
    assert len(layers) == 5  # blocks in three stages
    for layer in layers:
        parts = {"windows": layer.window > 0, "summaries": layer.rank > 0}
        parts["norms"] = not isinstance(layer.local_norm, torch.nn.Identity)
        assert {name for name, there in parts.items() if there} == has
