"""The prepare step from settings to record, on the real digits; and what all steps that prepare data have in common."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relearn import data
from relearn.data.arrays import load_prepared
from relearn.runs import record
from relearn.steps import prepare_images as prepare
from relearn.studies.gradinit.steps import prepare_translation
from relearn.studies.l2_attention.steps import prepare_ptb_lines

from ..studies.gradinit.test_prepare_translation import SETTINGS as PAIRS
from ..studies.l2_attention.test_prepare_ptb_lines import SETTINGS as TEXT
from .recorded import made_by

SETTINGS = {"dataset": "digits", "pretrain_per_class": 70, "fine_tune_per_class": 50, "pool_per_class": 70}


def run(out: Path, **changes: object) -> dict:
    settings = SETTINGS | changes
    return made_by(prepare, out, settings, {"dataset": str(settings["dataset"])}, study="poisoning")


def test_digits_from_settings_to_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELEARN_MIRROR", raising=False)
    done = run(tmp_path / "runs/poisoning/prepare/digits")
    assert record.verify_outputs(done) == []
    whole = data.load("digits")
    rest = 1797 - 10 * 140
    counts = {"pretrain": 700, "pool": 700, "fine_tune": 500, "test": rest, "classes": 10}
    counts |= {"inexact_train": 0, "inexact_test": 0}
    assert done["metrics"] == {f"{name}_count": count for name, count in counts.items()}
    assert json.loads(done["notes"][0].removeprefix("source: ")) == whole.source

    got = load_prepared(tmp_path / "runs/poisoning/prepare/digits/data.safetensors")
    assert got.dataset == "digits" and got.classes == whole.class_names
    np.testing.assert_array_equal(got.images.numpy(), whole.train_images)
    for part in ("pretrain", "pool", "fine_tune", "test"):
        assert len(getattr(got, part)()[1]) == counts[part]
    trials = got.trials(target_class=6, targets=20, poison_class=8, poisons=5)
    sixes = np.flatnonzero(whole.train_labels == 6)
    assert trials.target_index.tolist() == sixes[120:140].tolist()


def sha_of(step: Any, study: str, out: Path, **settings: object) -> str:
    (output,) = made_by(step, out, settings, {"dataset": str(settings["dataset"])}, study=study)[
        "outputs"
    ].values()
    return output["sha256"]


@pytest.mark.parametrize(
    ("step", "study", "settings", "change"),
    [
        (prepare, "poisoning", SETTINGS, {"pretrain_per_class": 69}),
        (prepare_translation, "gradinit", PAIRS, {"vocabulary": 5000}),
        (prepare_ptb_lines, "l2_attention", TEXT, {"max_length": 60}),
    ],
)
def test_equal_settings_make_equal_bytes(
    tmp_path: Path, step: Any, study: str, settings: dict[str, Any], change: dict[str, Any]
) -> None:
    one, two = (sha_of(step, study, tmp_path / name, **settings) for name in ("one", "two"))
    assert one == two != sha_of(step, study, tmp_path / "other", **(settings | change))


def test_too_few_images_leave_no_record(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"class 0 \(0\) has 178 images; required: .* = 271"):
        run(tmp_path / "digits", pretrain_per_class=200)
    assert not (tmp_path / "digits" / "record.json").exists()


MIRROR = os.environ.get("RELEARN_MIRROR", "")


@pytest.mark.skipif(
    not MIRROR or not (Path(MIRROR) / "cifar10").is_dir(),
    reason="RELEARN_MIRROR names no folder with real CIFAR-10 images",
)
def test_real_cifar10_subsampled(tmp_path: Path) -> None:
    done = run(
        tmp_path, dataset="cifar10", pretrain_per_class=300, fine_tune_per_class=50, pool_per_class=200
    )
    counts = {"pretrain": 3000, "pool": 2000, "fine_tune": 500, "test": 10000, "classes": 10}
    for name, count in counts.items():
        assert done["metrics"][f"{name}_count"] == count
    got = load_prepared(tmp_path / "data.safetensors")
    whole = data.load("cifar10", folder=Path(MIRROR) / "cifar10")
    used = got.tensors["source_index"].numpy()
    assert len(used) == 5000  # unused images are not stored
    np.testing.assert_array_equal(got.images.numpy(), whole.train_images[used])
    np.testing.assert_array_equal(got.test()[0].numpy(), whole.test_images)
    trials = got.trials(target_class=6, targets=50, poison_class=8, poisons=5)
    frogs, ships = (np.flatnonzero(whole.train_labels == label) for label in (6, 8))
    assert used[trials.target_index].tolist() == frogs[350:400].tolist()
    np.testing.assert_array_equal(trials.base_images.numpy(), whole.train_images[ships[300:305]])
    inexact = used[~whole.train_exact[used]]
    assert done["metrics"]["inexact_train_count"] == len(inexact)
    assert done["metrics"]["inexact_test_count"] == (~whole.test_exact).sum()
    if len(inexact):
        assert done["notes"][1].endswith(" ".join(map(str, inexact)))
