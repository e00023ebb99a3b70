"""What the line below a figure says of its networks, and what a guess would score."""

from __future__ import annotations

from pathlib import Path

import pytest

from relearn.report.figures import chance, networks
from relearn.report.quantities import Evidence

from . import fake_vision as pretend
from .conftest import evidence_of


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend.quicken(monkeypatch)


def made(root: Path, network: str, **settings: float) -> None:
    own = {"network": {"name": network, **settings}}
    pretend.write_run(root, "lipsformer", "initialise", {"network": network}, network, {}, {}, settings=own)
    pretend.write_run(root, "lipsformer", "train_vision", {"network": network}, network, {}, {})


def images(root: Path, dataset: str, classes: int) -> None:
    labels = {"dataset": dataset}
    pretend.write_run(root, "lipsformer", "prepare_images", labels, dataset, {"classes_count": classes}, {})


def points(evidence: Evidence, *named: str) -> list[dict[str, str]]:
    runs = [run for run in evidence.runs if run.labels.get("network") in named and run.step == "train_vision"]
    return [{"runs": " ".join(run.folder for run in runs)}]


def test_networks_that_are_smaller_than_their_names_say_so(tmp_path: Path) -> None:
    made(tmp_path, "VGG-19", width=0.25, depth=0.1)
    made(tmp_path, "ResNet-110", width=0.25, depth=0.2)
    made(tmp_path, "Whole", width=1.0, depth=1.0)
    known = evidence_of(tmp_path)
    both = networks.sizes(points(known, "VGG-19", "ResNet-110"), known)
    assert both == "networks at 0.25 of the width and 0.1 to 0.2 of the depth that their names stand for"
    assert networks.sizes(points(known, "VGG-19"), known).startswith(
        "networks at 0.25 of the width and 0.1 of"
    )
    assert networks.sizes(points(known, "Whole"), known) == networks.sizes([], known) == ""


def test_vision_transformers_tell_their_channels(tmp_path: Path) -> None:
    made(tmp_path, "Swin-T", embed_dim=8, depth=24)
    known = evidence_of(tmp_path)
    told = "networks of the named kinds, with 8 channels in their first stage"
    assert networks.sizes(points(known, "Swin-T"), known) == told


def test_a_guess_is_right_once_in_as_many_as_there_are_classes(tmp_path: Path) -> None:
    images(tmp_path, "digits", 10)
    assert chance.of_images(evidence_of(tmp_path)) == pytest.approx(0.1)
    images(tmp_path, "cifar100", 100)
    assert chance.of_images(evidence_of(tmp_path)) is None
    assert chance.of_images(Evidence([])) is None
