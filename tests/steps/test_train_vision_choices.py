"""train_vision: held-out images, a learning rate chosen on them, weights to start from, averaged weights, enlarged images."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from relearn.data.evenly_spaced import evenly_spaced
from relearn.models import vision
from relearn.steps import train_vision
from relearn.studies import parameters
from relearn.studies.layer_scale.plan import plan

from .recorded import made_by
from .vision_runs import NETWORKS, Runs

SHORT = {"epochs": 1, "batch_size": 50}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("choices"))


def test_held_out_images_are_tested_on_and_not_trained_on(runs: Runs) -> None:
    whole, split = runs.task(), runs.task(held_out=0.1)
    assert (len(split.images), len(split.test_images)) == (180, 20)
    together = torch.cat([split.images, split.test_images]).flatten(1)
    order = torch.cat([split.labels, split.test_labels])
    seen = sorted([*map(tuple, torch.cat([together, order[:, None]], 1).tolist())])
    expected = torch.cat([whole.images.flatten(1), whole.labels[:, None]], 1).tolist()
    assert seen == sorted(map(tuple, expected))
    assert torch.equal(split.test_images, whole.images[::10])  # evenly spaced, so of every class
    with pytest.raises(ValueError, match=r"held_out: found 0\.001 of 200 images"):
        runs.task(held_out=0.001)


def test_the_rate_of_the_best_accuracy_is_taken(tmp_path: Path) -> None:
    def written(name: str, lr: float, accuracy: float | None, outcome: str = "ok") -> Path:
        metrics = {"lr": lr} | ({} if accuracy is None else {"acc_frac": accuracy})
        (tmp_path / name).write_text(json.dumps({"outcome": outcome, "metrics": metrics}))
        return tmp_path / name

    low, high = written("low", 1e-3, 0.5), written("high", 4e-3, 0.7)
    lost = written("lost", 8e-3, 0.9, "diverged")
    assert train_vision.best_rate([low, high, lost]) == 4e-3
    assert train_vision.best_rate([written("same", 2e-3, 0.7), high]) == 2e-3
    worse = written("worse", 16e-3, None, "diverged")
    assert (
        train_vision.best_rate([worse, lost]) == 8e-3
    )  # all diverged: the training shows that no rate trains


def test_a_chosen_rate_is_what_the_training_uses(runs: Runs) -> None:
    runs.classify("rate_low", "vit", **SHORT, lr=1e-9, held_out=0.1)
    runs.classify("rate_high", "vit", **SHORT, lr=5e-3, held_out=0.1)
    tried = [runs.root / name / "record.json" for name in ("rate_low", "rate_high")]
    best = max(tried, key=lambda path: json.loads(path.read_text())["metrics"]["acc_frac"])
    settings = {"network": NETWORKS["vit"], **train_settings(), "lr": 0.123}
    given = {"data": [runs.data], "rates": tried}
    labels = {"suite": "test", "variant": "chosen"}
    done = made_by(train_vision, runs.root / "chosen", settings, labels, given, study="layer_scale")
    assert done["metrics"]["lr"] == json.loads(best.read_text())["metrics"]["lr"]
    assert done["metrics"]["rates_count"] == 2
    assert any("the best of 2 on held-out training images" in note for note in done["notes"])


def test_a_given_rate_changes_the_rate_alone() -> None:
    params = parameters.load(Path(__file__).parents[2] / "params.yaml", scale="small")
    params["layer_scale"]["grid"]["given_rates"][0]["lr"] = 0.00123456789
    family = plan(params, "small")
    given, chosen = family["train_at_given_rate"], family["train_vision"]
    assert len(given.runs) == 41 and set(given.inputs) == {"data"}
    for run in given.runs:
        cell = {"variant": run["variant"], "depth": run["depth"]}
        expected = {**chosen.settings_of(suite="residual", **cell), "lr": float(run["rate"])}
        assert given.settings_of(**cell, rate=run["rate"]) == expected
        assert {**cell, "suite": "residual", "seed": run["seed"]} in chosen.runs


def train_settings() -> dict:
    from .vision_runs import RECIPE

    return {**RECIPE, **SHORT}


def test_a_body_is_taken_over_and_its_last_layer_is_not() -> None:
    sizes = dict(size=8, in_channels=1, patch_size=2, embed_dim=16, num_heads=2, depth=2)
    torch.manual_seed(0)
    net, other = (
        vision.create("residual_deit_tiny", classes=count, mean=[mean], std=[1.0], **sizes)
        for count, mean in ((10, 0.1), (7, 0.9))
    )
    head = net.head.weight.clone()
    assert train_vision.begin(net, other).endswith("tensors from other weights")
    assert torch.equal(net.trunk.blocks[1].mlp.fc1.weight, other.trunk.blocks[1].mlp.fc1.weight)
    assert torch.equal(net.trunk.pos_embed, other.trunk.pos_embed)
    assert torch.equal(net.head.weight, head) and float(net.mean) == pytest.approx(0.1)
    with pytest.raises(
        ValueError, match=r"weights: trunk.pos_embed: found \(1, 17, 16\), allowed: \(1, 5, 16\)"
    ):
        train_vision.begin(
            vision.create("residual_deit_tiny", classes=10, **{**sizes, "patch_size": 4}), other
        )


def test_the_averaged_weights_are_written_in_addition_to_the_trained_ones(runs: Runs) -> None:
    done = runs.classify("averaged", "vit", **SHORT, ema=0.5, average_file=True)
    trained, averaged = (
        load_file(runs.root / "averaged" / name) for name in ("model.safetensors", "averaged.safetensors")
    )
    assert any(not torch.equal(trained[name], averaged[name]) for name in trained)
    net = vision.FILE.load(runs.root / "averaged/averaged.safetensors")
    task = runs.task()
    images, labels = (evenly_spaced(rows, 150) for rows in (task.test_images, task.test_labels))
    with torch.no_grad():
        right = (net(images.float() / 255).argmax(1) == labels).double()
    assert float(right.mean()) == pytest.approx(done["metrics"]["ema_acc_frac"])


def test_images_are_enlarged_inside_the_network(runs: Runs) -> None:
    done = runs.classify("large", "vit", **SHORT, size=16)
    net = runs.net("large")
    assert net.description["size"] == 16 and net.description["resize"]
    assert net.trunk.pos_embed.shape[1] == 8 * 8 + 1  # patches of 2 on 16 x 16
    small = runs.task().test_images[:3].float() / 255
    large = torch.nn.functional.interpolate(
        small, (16, 16), mode="bicubic", align_corners=False, antialias=True
    )
    with torch.no_grad():
        assert torch.allclose(net(small), net(large.clamp(0, 1)), atol=1e-6)
    assert done["outcome"] in ("ok", "not_converged")
