"""Rows of CIFAR-10-C's released arrays against a slow count; no mCE relative to AlexNet, which saw other images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from relearn.data.corruptions import LEVELS, NAMES
from relearn.studies.robustness.steps.measured import measure

from ...data.test_cifar_c import COUNT, official
from .networks import NOTHING, Linear, network


def linear(classes: int = 10) -> Linear:
    torch.manual_seed(0)
    return Linear(torch.randn(classes, 3 * 32 * 32), torch.randn(classes), 32)


def test_rows_are_the_slow_count_and_all_corruptions_are_there(tmp_path: Path) -> None:
    folder, net = official(tmp_path / "CIFAR-10-C"), linear()
    found = measure(net, NOTHING | {"severities": list(LEVELS)}, {"cifar_c": folder}, test=None, named="")
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
    few = measure(
        net, NOTHING | {"images": 2, "corruptions": ["fog"]}, {"cifar_c": folder}, test=None, named=""
    )
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
            measure(net, NOTHING, {"cifar_c": folder}, test=None, named="")
