"""Scale paper on folders in the layout that docs/data.md names: every set of tables 5.8 to 5.11 is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from relearn.data import imagenet_nine
from relearn.data.corruptions import LEVELS, NAMES
from relearn.data.imagenet_subsets import classes_of
from relearn.models import vision
from relearn.runs import record
from relearn.studies import parameters
from relearn.studies.robustness import plan
from relearn.studies.robustness.steps import evaluate_robustness

from .networks import PROTOCOL, folder, network, some_identifiers
from .test_folder_sets import GROUPS

ROOT = Path(__file__).resolve().parents[3]
SETS = {"real", "v2", "c", "a", "a_unmasked", "r", "r_unmasked", *imagenet_nine.VARIANTS}


def official(mirror: Path, sets: dict[str, str]) -> None:
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
    official(tmp_path, settings["sets"])
    vision.FILE.save(network(), tmp_path / "net.safetensors")
    settings["protocol"] = {**settings["protocol"], "size": PROTOCOL["size"], "on_missing_class": "skip"}
    what = {"study": "robustness", "paper": "zhu2022", "step": "evaluate_robustness", "scale": "paper"}
    given = {"network": [tmp_path / "net.safetensors"]}
    with record.Run(tmp_path / "run", **what, labels={}, seed=0, settings=settings, inputs=given) as one:
        evaluate_robustness.run(one, settings, given, "cpu", "fp32")
    found = record.read(tmp_path / "run")
    rows = record.trials(found, "sets.csv")
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
