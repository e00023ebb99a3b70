"""uncertainty: every table recomputed by hand from the network, the same images for every network, both kinds of head."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from relearn.data.arrays import load_prepared
from relearn.data.outliers import outliers
from relearn.layers.random_feature_gp import RandomFeatureGP
from relearn.measures.calibration import calibration
from relearn.measures.ood import separation
from relearn.models import vision
from relearn.models.files import ModelFile
from relearn.steps import prepare_images as prepare
from relearn.studies.lrformer.steps import evaluate_uncertainty as uncertainty

from ...steps.recorded import made_by, rows_of

SETS = ["uniform_noise", "natural_patches", "corrupted"]
DISTANCES = [0.0, 1.0, 4.0, 40.0]
SETTINGS = {"sets": SETS, "bins": 5, "test_images": 60, "distances": DISTANCES}
SPLIT = {"dataset": "digits", "pretrain_per_class": 60, "fine_tune_per_class": 1, "pool_per_class": 1}


class Small(nn.Module):
    """A stand-in with the interface of a VisionClassifier: features are a random map of the pixels."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.map = nn.Linear(64, 6)
        self.head = head

    def features(self, x: torch.Tensor) -> torch.Tensor:
        assert x.is_floating_point() and x.shape[1:] == (1, 8, 8)
        return self.map(x.flatten(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x))


def trained(head: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> Small:
    net = Small(head)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.03)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(images), labels).backward()
        optimiser.step()
    if isinstance(head, RandomFeatureGP):
        with torch.no_grad():
            head.fit([net.features(images)])
    return net.eval()


class Runs:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.step(prepare, "data", SPLIT, {})
        self.data_file = root / "data/data.safetensors"
        self.data = load_prepared(self.data_file)
        images, labels = self.data.pretrain()
        torch.manual_seed(1)
        pixels = images.float() / 255
        self.nets = {
            "dense": trained(nn.Linear(6, 10), pixels, labels),
            "gp": trained(RandomFeatureGP(6, 10, 64, 2.0), pixels, labels),
        }

    def step(self, module, name, settings, inputs, seed=0) -> dict:
        out, labels = self.root / name, {"variant": name}
        return made_by(module, out, settings, labels, inputs, study="lrformer", seed=seed)

    def of(self, kind: str, name: str, seed: int = 0, **changes) -> dict:
        """The step on one of the stand-ins."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(ModelFile, "load", lambda file, path, device: self.nets[kind])
            inputs = {"data": [self.data_file], "network": [self.data_file]}
            return self.step(uncertainty, name, SETTINGS | changes, inputs, seed)

    def rows(self, name: str, file: str) -> list[dict[str, str]]:
        return rows_of(self.root / name / file)

    def answers(self, kind: str, pixels: torch.Tensor):
        """Logits that count and variance, without the step."""
        net = self.nets[kind]
        with torch.no_grad():
            if kind == "dense":
                return net(pixels), None
            features = net.features(pixels)
            return net.head.mean_field_logits(features), net.head.variance(features)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("uncertainty"))


@pytest.fixture(scope="module", params=["dense", "gp"])
def done(request, runs):
    return request.param, runs.of(request.param, request.param)


def test_calibration_is_that_of_the_first_test_images(runs, done):
    kind, made = done
    images, labels = (tensor[:60] for tensor in runs.data.test())
    logits, _ = runs.answers(kind, images.float() / 255)
    wanted = calibration(logits, labels, bins=5) | {
        "acc_frac": float((logits.argmax(1) == labels).double().mean())
    }
    assert made["metrics"] | wanted == pytest.approx(made["metrics"])
    assert made["metrics"]["test_count"] == 60 and made["outcome"] == "ok"
    rows = runs.rows(kind, "calibration.csv")
    assert [int(row["bin"]) for row in rows] == list(range(5))
    assert sum(int(row["samples"]) for row in rows) == 60
    gap = sum(
        int(r["samples"]) * abs(float(r["confidence"]) - float(r["accuracy"])) for r in rows if r["accuracy"]
    )
    assert gap / 60 == pytest.approx(made["metrics"]["ece_frac"])


def test_detection_is_that_of_the_outliers_of_this_seed(runs, done):
    kind, made = done
    rows = {(row["set"], row["score"]): row for row in runs.rows(kind, "ood.csv")}
    names = ["max_softmax", "entropy", "dempster_shafer"] + ["gp_variance"] * (kind == "gp")
    assert list(rows) == [(one, score) for one in SETS for score in names]
    inside = runs.data.test()[0][:60].float() / 255
    for one in SETS:
        foreign = outliers(one, size=8, channels=1, count=60, seed=0, prepared=runs.data)
        pixels = torch.from_numpy(foreign.images).float() / 255
        values = []
        for part in (inside, pixels):
            logits, variance = runs.answers(kind, part)
            p = logits.double().softmax(1)
            values.append(
                (-(p * p.log()).sum(1).numpy(), None if variance is None else variance.mean(1).numpy())
            )
        wanted = separation(values[0][0], values[1][0])
        row = rows[one, "entropy"]
        found = [float(row[name]) for name in ("auroc_frac", "aupr_frac", "fpr95_frac")]
        assert found == pytest.approx(wanted) and int(row["samples"]) == 60
        assert [made["metrics"][f"{one}_{name}"] for name in uncertainty.MEASURES] == pytest.approx(wanted)
        if kind == "gp":
            by_variance = separation(values[0][1], values[1][1])
            assert float(rows[one, "gp_variance"]["auroc_frac"]) == pytest.approx(by_variance.auroc)
            assert made["metrics"][f"{one}_variance_auroc_frac"] == pytest.approx(by_variance.auroc)
        assert any(foreign.words in note for note in made["notes"])
    for name in uncertainty.MEASURES:
        mean = np.mean([made["metrics"][f"{one}_{name}"] for one in SETS])
        assert made["metrics"][name] == pytest.approx(mean)
    assert ("variance_auroc_frac" in made["metrics"]) == (kind == "gp")
    if kind == "gp":
        mean = np.mean([made["metrics"][f"{one}_variance_auroc_frac"] for one in SETS])
        assert made["metrics"]["variance_auroc_frac"] == pytest.approx(mean)


def test_histograms_hold_every_image_of_every_set(runs, done):
    kind, _ = done
    rows = runs.rows(kind, "scores.csv")
    assert list(dict.fromkeys(row["set"] for row in rows)) == ["test", *SETS]
    logits, _ = runs.answers(kind, runs.data.test()[0][:60].float() / 255)
    p = logits.double().softmax(1)
    nats = -(p * p.log()).sum(1).numpy()
    for one in ("test", *SETS):
        mine = [row for row in rows if row["set"] == one]
        assert len(mine) == uncertainty.HISTOGRAM_BINS and sum(int(row["count"]) for row in mine) == 60
        assert float(mine[0]["low"]) == 0 and float(mine[-1]["high"]) == pytest.approx(math.log(10))
        if one == "test":
            counts = [((nats >= float(r["low"])) & (nats < float(r["high"]))).sum() for r in mine]
            assert [int(row["count"]) for row in mine] == counts


def test_rays_start_at_the_test_images(runs, done):
    kind, made = done
    rows = runs.rows(kind, "distance.csv")
    assert [(row["space"], float(row["distance"])) for row in rows] == [
        (space, distance) for space in ("pixels", "features") for distance in DISTANCES
    ]
    logits, variance = runs.answers(kind, runs.data.test()[0][:60].float() / 255)
    p = logits.double().softmax(1)
    for start in (rows[0], rows[len(DISTANCES)]):
        assert float(start["entropy_nats"]) == pytest.approx(float(-(p * p.log()).sum(1).mean()), rel=1e-5)
        assert float(start["entropy_max_share"]) == pytest.approx(float(start["entropy_nats"]) / math.log(10))
        if variance is not None:
            assert float(start["variance"]) == pytest.approx(float(variance.mean()), rel=1e-4)
        else:
            assert start["variance"] == ""
    for space, prefix in ((0, ""), (1, "feature_")):
        path = [float(row["entropy_nats"]) for row in rows[space * 4 : space * 4 + 4]]
        assert made["metrics"][f"{prefix}entropy_rise_nats"] == pytest.approx(path[-1] - path[0])
        grows = np.mean([b >= a for a, b in pairwise(path)])
        assert made["metrics"][f"{prefix}entropy_monotone_frac"] == pytest.approx(grows)


def test_far_out_the_dense_head_is_sure_and_the_gaussian_process_is_not(runs, done):
    kind, made = done
    rise = made["metrics"]["feature_entropy_rise_nats"]
    assert rise > 0 if kind == "gp" else rise < 0
    if kind == "gp":
        spread = [float(row["variance"]) for row in runs.rows(kind, "distance.csv")]
        assert spread[3] > 1.5 * spread[0] and spread[7] > 1.5 * spread[4]


def test_one_seed_shows_one_set_of_images_and_another_seed_others(runs, monkeypatch):
    seen = []

    def spy(name, **asked):
        found = outliers(name, **asked)
        seen.append(found.images)
        return found

    monkeypatch.setattr("relearn.data.outliers.outliers", spy)
    runs.of("dense", "one", sets=["natural_patches"])
    runs.of("gp", "two", sets=["natural_patches"])
    runs.of("dense", "three", seed=1, sets=["natural_patches"])
    assert (seen[0] == seen[1]).all() and (seen[0] != seen[2]).any()


def test_equal_runs_are_equal_byte_for_byte(runs, done):
    kind, _ = done
    runs.of(kind, f"{kind} again")
    for name in uncertainty.TABLES:
        assert (runs.root / kind / name).read_bytes() == (runs.root / f"{kind} again" / name).read_bytes()


def test_all_images_and_fewer_scores(runs):
    made = runs.of("dense", "all", test_images=0, sets=["uniform_noise"], scores=["max_softmax"])
    assert made["metrics"]["test_count"] == len(runs.data.test()[0])
    assert [row["score"] for row in runs.rows("all", "ood.csv")] == ["max_softmax", "entropy"]
    with pytest.raises(ValueError, match=r"scores: 'energy' \(allowed: max_softmax, entropy"):
        runs.of("dense", "odd", scores=["energy"])


def test_a_network_that_answers_nothing_has_diverged(runs):
    broken = Small(nn.Linear(6, 10))
    with torch.no_grad():
        broken.head.bias[3] = torch.nan
    runs.nets["broken"] = broken.eval()
    made = runs.of("broken", "broken")
    assert made["outcome"] == "diverged" and made["metrics"] == {"test_count": 60.0}
    assert runs.rows("broken", "ood.csv") == []


def test_a_gaussian_process_that_was_never_fitted_is_of_a_training_that_diverged(runs):
    runs.nets["unfitted"] = Small(RandomFeatureGP(6, 10, 16)).eval()
    made = runs.of("unfitted", "unfitted")
    assert made["outcome"] == "diverged" and "precision of its head" in made["outcome_reason"]
    assert runs.rows("unfitted", "ood.csv") == []


def test_a_folder_at_hand_is_found_under_either_name(tmp_path, monkeypatch):
    monkeypatch.setenv("RELEARN_MIRROR", str(tmp_path))
    assert uncertainty._mirror("cifar100") is None
    (tmp_path / "cifar100_ood").mkdir()
    (tmp_path / "svhn").mkdir()
    assert uncertainty._mirror("cifar100") == tmp_path / "cifar100_ood"
    (tmp_path / "cifar100").mkdir()
    assert uncertainty._mirror("cifar100") == tmp_path / "cifar100"
    assert uncertainty._mirror("svhn") == tmp_path / "svhn"


def test_a_stored_network_is_read(runs):
    torch.manual_seed(0)
    sizes = {"patch_size": 4, "embed_dim": 8, "depth": 1, "num_heads": 2}
    net = vision.create("vit_tiny_patch16_224", classes=10, in_channels=1, size=8, **sizes).eval()
    vision.FILE.save(net, runs.root / "model.safetensors")
    inputs = {"data": [runs.data_file], "network": [runs.root / "model.safetensors"]}
    made = runs.step(uncertainty, "stored", SETTINGS | {"sets": ["uniform_noise"]}, inputs)
    images, labels = runs.data.test()
    with torch.no_grad():
        right = net(images[:60].float() / 255).argmax(1) == labels[:60]
    assert made["metrics"]["acc_frac"] == float(right.double().mean())
