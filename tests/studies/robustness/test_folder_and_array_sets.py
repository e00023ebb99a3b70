"""Scale paper on folders in the layout that docs/data.md names: every set of tables 5.8 to 5.11 is measured.

Rows of CIFAR-10-C's released arrays against a slow count; no mCE relative to AlexNet, which saw other images.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from relearn.data import imagenet_nine
from relearn.data.corruptions import LEVELS, NAMES
from relearn.data.imagenet_subsets import classes_of
from relearn.models import vision
from relearn.runs import record_file
from relearn.runs.settings import read
from relearn.studies import parameters
from relearn.studies.robustness import plan
from relearn.studies.robustness.steps import evaluate_robustness
from relearn.studies.robustness.steps.measured import measure

from ...data.test_corrupted_sets import COUNT, official
from ...steps.recorded import made_by
from .networks import NOTHING, PROTOCOL, Linear, folder, network, some_identifiers
from .test_folder_sets import GROUPS

ROOT = Path(__file__).resolve().parents[3]
SETS = {"real", "v2", "c", "a", "a_unmasked", "r", "r_unmasked", *imagenet_nine.VARIANTS}


def all_official(mirror: Path, sets: dict[str, str]) -> None:
    """A class or two of each set, in the folders of the archives."""
    few = some_identifiers(range(2))
    folder(mirror / sets["val"], few, 2)
    folder(mirror / sets["v2"], ["0", "1"], seed=1)
    for name in ("a", "r"):
        folder(mirror / sets[name], some_identifiers(classes_of(name)[:2]), seed=2)
    for name in NAMES:
        for level in LEVELS:
            folder(mirror / sets["c"] / name / str(level), few[:1], size=(16, 16))
    for variant in imagenet_nine.VARIANTS.values():
        folder(mirror / sets["nine"] / variant / "val", GROUPS, size=(16, 16))


def test_every_set_of_scale_paper_is_read_under_the_names_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = parameters.load(ROOT / "params.yaml", "paper")
    family = plan.plan(values, "paper")["evaluate_robustness"]
    settings = dict(family.settings_of(network="CvT-LS-13"))
    said = (ROOT / "docs/data.md").read_text(encoding="utf-8")
    for place in settings["sets"].values():
        assert f"{place.split('/')[0]}/" in said, "docs/data.md names the folder"
    monkeypatch.setenv("RELEARN_MIRROR", str(tmp_path))
    all_official(tmp_path, settings["sets"])
    vision.FILE.save(network(), tmp_path / "net.safetensors")
    settings["protocol"] = {**settings["protocol"], "size": PROTOCOL["size"], "on_missing_class": "skip"}
    given = {"network": [tmp_path / "net.safetensors"]}
    found = made_by(
        evaluate_robustness, tmp_path / "run", settings, inputs=given, study="robustness", scale="paper"
    )
    rows = record_file.rows(record_file.content(found, "sets.csv"))
    assert {row["set"] for row in rows} == {"val", *SETS}
    assert len([row for row in rows if row["set"] == "c"]) == 75
    wanted = {f"{name}_acc_frac" for name in SETS} | {"acc_frac", "mce_frac", "nine_gap_frac"}
    assert wanted <= set(found["metrics"])


def test_a_released_checkpoint_takes_the_place_of_our_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file below the mirror is the input, and its name says what it holds; other networks are trained here."""
    monkeypatch.setenv("RELEARN_MIRROR", str(tmp_path))
    one = {"network": "ResNet-50", "file": "checkpoints/resnet50.pth", "name": "resnet50", "average": False}
    changed = {"robustness": {"withstand": {"checkpoints": [one]}}}
    family = plan.plan(parameters.load(ROOT / "params.yaml", "paper", changed), "paper")[
        "evaluate_robustness"
    ]
    assert family.inputs_of(seed="2", network="ResNet-50")["network"] == [str(tmp_path / one["file"])]
    wanted = {"name": "resnet50", "classes": 1000, "average": False}
    assert family.settings_of(network="ResNet-50")["network"] == wanted
    ours = family.inputs_of(seed="2", network="CvT-LS-13")["network"]
    assert ours[0].endswith("long_short/train_vision/CvT-LS-13/seed2/model.safetensors")
    assert family.settings_of(network="CvT-LS-13")["network"] is None
    assert "checkpoints" not in family.settings_of(network="ResNet-50")


def linear(classes: int = 10) -> Linear:
    torch.manual_seed(0)
    return Linear(torch.randn(classes, 3 * 32 * 32), torch.randn(classes), 32)


def test_rows_are_the_slow_count_and_all_corruptions_are_there(tmp_path: Path) -> None:
    folder, net = official(tmp_path / "CIFAR-10-C"), linear()
    what = read(evaluate_robustness.Settings, NOTHING | {"severities": list(LEVELS)})
    found = measure(net, what, {"cifar_c": folder}, test=None, named="")
    labels, right = np.load(folder / "labels.npy"), 0
    told = {(row.corruption, row.severity): row for row in found.rows}
    assert set(told) == {(name, level) for name in NAMES for level in LEVELS}
    for (name, level), row in told.items():
        pixels = np.load(folder / f"{name}.npy")
        count = 0
        for place in range(COUNT * (level - 1), COUNT * level):
            x = torch.from_numpy(pixels[place].transpose(2, 0, 1).copy())[None].float() / 255
            count += int(net(x).argmax()) == labels[place]
        assert (row.correct_count, row.samples_count) == (count, COUNT)
        right += count
    assert found.metrics["cifar_c_acc_frac"] == pytest.approx(right / (75 * COUNT)) and right > 0
    assert found.metrics["corruption_acc_frac"] == found.metrics["cifar_c_acc_frac"]
    assert "mce_frac" not in found.metrics
    assert "CIFAR-10-C, released arrays" in str(found.rows[0].protocol)
    what = replace(what, severities=[1, 5], images=2, corruptions=["fog"])
    few = measure(net, what, {"cifar_c": folder}, test=None, named="")
    assert [(row.corruption, row.severity, row.samples_count) for row in few.rows] == [
        ("fog", 1, 2),
        ("fog", 5, 2),
    ]


def test_a_network_for_other_images_or_classes_is_refused(tmp_path: Path) -> None:
    folder = official(tmp_path / "CIFAR-100-C", classes=100)
    for net, said in (
        (network(), "set cifar_c: the network is for 3 x 16 x 16 pixels; allowed: 3 x 32 x 32"),
        (linear(), r"label \d+; allowed: 0 to 9, the network's classes"),
    ):
        with pytest.raises(ValueError, match=said):
            measure(
                net, read(evaluate_robustness.Settings, NOTHING), {"cifar_c": folder}, test=None, named=""
            )
