"""count: from settings to record; the row is the measure's, the metrics are the row's."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, get_args

import pytest

from relearn.measures.model_counts import COLUMNS, NETWORKS, PUBLISHED, RIVALS
from relearn.models.timm_names import NAMES
from relearn.runs import record
from relearn.studies.lipsformer.params import Network, Rival
from relearn.studies.lipsformer.steps import count_params_flops as count


def step(out: Path, network: str) -> tuple[dict[str, Any], dict[str, str]]:
    what: dict[str, Any] = {"study": "lipsformer", "paper": "qi2023", "step": "count", "scale": "mini"}
    settings = {"network": network}
    with record.Run(out, **what, labels=settings, seed=0, settings=settings) as one:
        count.run(one, settings, {}, "cpu", "fp32")
    done = record.read(out)
    assert record.verify_outputs(done) == []
    with (out / "counts.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    return done, row


def test_every_published_network_can_be_counted() -> None:
    assert set(NETWORKS) == set(PUBLISHED) == set(get_args(Network))
    ours = {
        name for name in NAMES if "cswin" in name or name.startswith("lipsformer")
    }  # the others are no network of qi2023
    assert {name for name in NETWORKS.values() if not name.startswith("swin")} == ours


def test_the_row_and_the_metrics_are_those_of_the_network(tmp_path: Path) -> None:
    done, row = step(tmp_path / "a", "LipsFormer-Swin-T")
    assert tuple(row) == COLUMNS and row["network"] == "LipsFormer-Swin-T"
    assert row["parameters"] == row["released"] == "30908578"
    assert (row["equal"], row["equal_to_released"], row["within"]) == ("1", "1", "1")
    metrics = done["metrics"]
    assert metrics["parameters_count"] == 30_908_578 and metrics["parameters_millions"] == 30.908578
    assert metrics["multiply_adds_count"] == int(row["multiply_adds"])
    assert metrics["multiply_adds_giga"] == pytest.approx(4.9775, abs=1e-4)


def test_the_largest_network_has_the_classes_of_imagenet_22k(tmp_path: Path) -> None:
    done, row = step(tmp_path / "a", "LipsFormer-Swin-L++")
    assert done["metrics"]["parameters_count"] == 526_947_205
    assert row["equal"] == "0" and row["published_giga"] == row["within"] == ""
    assert done["notes"][0].startswith("21,841 classes")


def test_another_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="network is 'ViT-S'; allowed: Swin-T, "):
        step(tmp_path / "refused", "ViT-S")


def test_rivals_are_counted_in_one_run_at_the_size_of_their_images(tmp_path: Path) -> None:
    """Two of them, against table 2: 19 M and 4.2 G, which EfficientNet's authors count at 380 pixels, and 20 M and 4.5 G."""
    assert set(RIVALS) == set(get_args(Rival))
    settings = {"networks": ["EffNet-B4", "CvT-13"]}
    what: dict[str, Any] = {"study": "lipsformer", "paper": "qi2023", "step": "count", "scale": "mini"}
    with record.Run(tmp_path, **what, labels={"network": "rivals"}, seed=0, settings=settings) as one:
        count.run(one, settings, {}, "cpu", "fp32")
    with (tmp_path / "counts.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["network"]: row for row in csv.DictReader(file)}
    for name, millions, giga in (("EffNet-B4", 19, 4.2), ("CvT-13", 20, 4.5)):
        assert float(rows[name]["parameters"]) / 1e6 == pytest.approx(millions, abs=0.5)
        assert float(rows[name]["multiply_adds"]) / 1e9 == pytest.approx(giga, rel=0.05)
    with pytest.raises(ValueError, match="networks: found 'NAT-T'; allowed: RegNetY-4G"):
        count.run(one, {"networks": ["NAT-T"]}, {}, "cpu", "fp32")
